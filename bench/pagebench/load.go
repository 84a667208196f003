package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

const (
	queues   = 10
	kinds    = 8
	targets  = 1000
	prints   = 200  // fingerprints of dead letters
	step     = 1000 // jobs a transaction
	rareEach = 400_000
)

// world is a store with jobs in every state: of each hundred about seventy
// succeeded, eight died, two are parked, one is cancelled, the rest waits; one
// in ten names a target.
type world struct {
	store   store.Store
	process int64

	sample map[job.State]string // an id of each state
	oldest string
	middle string
	target string // that work waits for
}

func kindOf(i int) string {
	if i%rareEach == 0 {
		return "rare"
	}
	return fmt.Sprintf("kind-%d", i%kinds)
}

func newJob(i int) job.New {
	n := job.New{Queue: fmt.Sprintf("queue-%d", i%queues), Kind: kindOf(i), Args: fmt.Appendf(nil, `{"order":%d,"customer":"customer-%d@example.com","lines":[{"sku":"a-17","n":3},{"sku":"b-4","n":1}]}`, i, i%5000)}
	if i%10 == 3 {
		n.Target = fmt.Sprintf("https://host-%d.example", i/10%targets)
		n.Policy = "webhook"
	}
	if i%20 == 0 {
		n.Unique = fmt.Sprintf("order-%d", i)
	}
	if i%100 < 5 {
		n.Batch = fmt.Sprintf("batch-%d", i/10_000)
	}
	return n
}

func (w *world) load(ctx context.Context, jobs int) error {
	var names, all []string
	for i := range queues {
		names = append(names, fmt.Sprintf("queue-%d", i))
	}
	for i := range kinds {
		all = append(all, fmt.Sprintf("kind-%d", i))
	}
	all = append(all, "rare")
	p, err := w.store.Register(ctx, time.Time{}, store.Process{Host: "bench", PID: 1, Kinds: all, Queues: names})
	if err != nil {
		return err
	}
	w.process = p.ID
	for i := 0; i < jobs; {
		batch := make([]job.New, 0, step)
		for len(batch) < step && i < jobs {
			batch = append(batch, newJob(i))
			i++
		}
		added, err := w.store.Enqueue(ctx, time.Time{}, batch)
		if err != nil {
			return err
		}
		if w.oldest == "" {
			w.oldest = job.FormatID(added[0].Seq)
		}
		if i >= jobs/2 && w.middle == "" {
			w.middle = job.FormatID(added[0].Seq)
		}
	}
	if err := w.end(ctx, names, all, jobs*8/10); err != nil {
		return err
	}
	for more := true; more; { // what a server's upkeep does in the background
		done, err := w.store.Maintain(ctx, store.Maintenance{Limit: 10_000})
		if err != nil {
			return err
		}
		more = done.More
	}
	return w.pick(ctx)
}

// end lets so many jobs end as they would.
func (w *world) end(ctx context.Context, names, all []string, jobs int) error {
	for done, round := 0, 0; done < jobs; round++ {
		queue := names[round%len(names)]
		turned, err := w.store.Turn(ctx, store.Turn{
			Process: w.process, Claims: []store.Claim{{Queue: queue, Kinds: all, Limit: step / 2}},
			Lanes: []store.LaneClaim{{Queue: queue, Kinds: all, Lanes: 20, Firsts: 5, Limit: 100}},
		})
		if err != nil {
			return err
		}
		if len(turned.Claimed) == 0 {
			return errors.New("nothing is left to claim")
		}
		var begin []store.Ref
		var settles []store.Settle
		for i := range turned.Claimed {
			j := &turned.Claimed[i]
			if !j.Begun {
				begin = append(begin, store.Ref{Seq: j.Seq, Epoch: j.Epoch})
			}
			settles = append(settles, w.settle(j, done+i))
		}
		if _, err := w.store.Turn(ctx, store.Turn{Process: w.process, Begin: begin}); err != nil {
			return err
		}
		settled, err := w.store.Turn(ctx, store.Turn{Process: w.process, Settles: settles})
		if err != nil {
			return err
		}
		for _, ok := range settled.Settled {
			if !ok {
				return errors.New("a settle was refused")
			}
		}
		done += len(settles)
	}
	var claims []store.Claim
	for _, queue := range names {
		claims = append(claims, store.Claim{Queue: queue, Kinds: all, Limit: 10})
	}
	turned, err := w.store.Turn(ctx, store.Turn{Process: w.process, Claims: claims})
	if err == nil && len(turned.Claimed) == 0 {
		err = errors.New("no job is left to run")
	}
	return err
}

// settle decides how the i-th ends.
func (w *world) settle(j *job.Job, i int) store.Settle {
	now := time.Now()
	h := j.History.Started(now)
	s := store.Settle{
		Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: h, Result: []byte(`{"ok":true}`),
		Attempt: &job.Attempt{Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: w.process, StartedAt: now, EndedAt: now, OK: true},
	}
	bad := func(class failure.Class, to job.State, cause job.Cause) {
		s.To, s.Cause, s.Result = to, cause, nil
		s.Attempt.OK, s.Attempt.Class, s.Attempt.Cause, s.Attempt.Action = false, class, cause, "fail"
		s.Attempt.Error = fmt.Sprintf("%s: upstream said no to order line %d", class, i%prints)
		s.Fingerprint = fmt.Sprintf("f%06d", i%prints)
	}
	switch n := i % 100; {
	case n < 7:
		bad(failure.Server, job.Failed, retry.CauseExhausted)
	case n == 7:
		bad(failure.DNS, job.Failed, retry.CauseFatal)
	case n < 10:
		bad(failure.Config, job.Parked, retry.CauseConfig)
	case n == 10:
		s.To, s.Result, s.Attempt = job.Cancelled, nil, nil
	}
	return s
}

// pick finds an id of each state.
func (w *world) pick(ctx context.Context) error {
	gates, err := w.store.Targets(ctx, "", 1)
	if err != nil || len(gates) == 0 {
		return errors.Join(errors.New("no target has work"), err)
	}
	w.target = gates[0].Target
	w.sample = map[job.State]string{}
	for _, state := range job.States() {
		list, err := w.store.List(ctx, store.Filter{State: state}, store.Page{Limit: 1})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("no job is %s", state)
		}
		w.sample[state] = list[0].ID()
	}
	return nil
}
