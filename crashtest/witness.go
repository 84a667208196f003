package crashtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// witness is a store that writes down what the store under it answered. It
// remembers the leases of each process, so that a process that was taken for
// dead can try to write under them all the same.
type witness struct {
	store.Store
	config   Config
	evidence *Evidence

	mu     sync.Mutex
	leases map[int64]map[store.Ref]job.Job // by process: claimed and not settled
}

func newWitness(s store.Store, c Config, v *Evidence) *witness {
	return &witness{Store: s, config: c, evidence: v, leases: map[int64]map[store.Ref]job.Job{}}
}

// Register makes the process known, with as much as others may know of it.
func (w *witness) Register(ctx context.Context, now time.Time, p store.Process) (store.Process, error) {
	if w.config.Elsewhere {
		p.Identity = ""
	}
	return w.Store.Register(ctx, now, p)
}

// Turn passes the turn on and writes down each row's answer.
func (w *witness) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	answer, err := w.Store.Turn(ctx, t)
	switch {
	case errors.Is(err, store.ErrLostProcess):
		for i := range t.Settles {
			w.evidence.Add(Event{What: Refused, Process: t.Process, Ref: t.Settles[i].Ref, Text: "settle of a lost process"})
		}
		return answer, err
	case err != nil:
		return answer, err // whether it was done is not known
	}
	for i := range t.Settles {
		s := &t.Settles[i]
		e := Event{What: Settled, Process: t.Process, Ref: s.Ref, Text: string(s.To)}
		if s.Attempt != nil {
			e.Start = s.Attempt.Start
		}
		if !answer.Settled[i] {
			e.What = Refused
		}
		w.evidence.Add(e)
		w.forget(t.Process, s.Ref)
	}
	for i, ref := range t.Release {
		if answer.Released[i] {
			w.forget(t.Process, ref)
		}
	}
	for i := range t.Swaps {
		if answer.Swapped[i] {
			w.evidence.Add(Event{What: Swapped, Process: t.Process, Text: seen(&t.Swaps[i].Gate)})
		}
	}
	for i := range answer.Claimed {
		j := &answer.Claimed[i]
		w.evidence.Add(Event{What: Claimed, Process: t.Process, Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}})
		w.remember(t.Process, *j)
	}
	return answer, nil
}

// Beat passes the heartbeat on and writes down when it was sent, if it was
// taken: whoever takes this process for dead must have waited from then on.
func (w *witness) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	asked := Mono()
	orders, err := w.Store.Beat(ctx, now, process)
	if err == nil {
		w.evidence.Add(Event{What: Beat, Process: process, Text: fmt.Sprint(int64(asked))})
	}
	return orders, err
}

// Progress passes the report on and writes down a refusal.
func (w *witness) Progress(ctx context.Context, process int64, ref store.Ref, report []byte, h retry.History) (bool, error) {
	ok, err := w.Store.Progress(ctx, process, ref, report, h)
	if err == nil && !ok {
		w.evidence.Add(Event{What: Refused, Process: process, Ref: ref, Text: "progress"})
	}
	return ok, err
}

func (w *witness) remember(process int64, j job.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leases[process] == nil {
		w.leases[process] = map[store.Ref]job.Job{}
	}
	w.leases[process][store.Ref{Seq: j.Seq, Epoch: j.Epoch}] = j
}

func (w *witness) forget(process int64, ref store.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leases[process], ref)
}

// taken empties the memory of a process.
func (w *witness) taken(process int64) []job.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	var jobs []job.Job
	for _, j := range w.leases[process] {
		jobs = append(jobs, j)
	}
	delete(w.leases, process)
	return jobs
}

// writeLate tries every write there is under the leases of a process that was
// taken for dead, in its own name and in that of its successor. Each must be
// refused; what is accepted is written down as such.
func (w *witness) writeLate(ctx context.Context, lost, now int64) {
	jobs := w.taken(lost)
	for i := range jobs {
		for _, process := range []int64{lost, now} {
			w.writeOneLate(ctx, process, &jobs[i])
		}
	}
	_, err := w.Store.Beat(ctx, time.Time{}, lost)
	w.judged("beat", lost, store.Ref{}, err == nil, err)
	w.evidence.Add(Event{What: Late, Process: lost, Text: fmt.Sprint(len(jobs))})
}

func (w *witness) writeOneLate(ctx context.Context, process int64, j *job.Job) {
	ref := store.Ref{Seq: j.Seq, Epoch: j.Epoch}
	success := store.Settle{Ref: ref, To: job.Succeeded, History: j.History, Result: []byte("late"), Attempt: &job.Attempt{
		Seq: j.Seq, Start: j.History.Starts + 1, Epoch: j.Epoch, StartedAt: j.LeasedAt, EndedAt: j.LeasedAt, OK: true,
	}}
	answer, err := w.Store.Turn(ctx, store.Turn{Process: process, Settles: []store.Settle{success}})
	w.judged("settle", process, ref, err == nil && answer.Settled[0], err)
	answer, err = w.Store.Turn(ctx, store.Turn{Process: process, Begin: []store.Ref{ref}})
	w.judged("begin", process, ref, err == nil && answer.Begun[0], err)
	answer, err = w.Store.Turn(ctx, store.Turn{Process: process, Release: []store.Ref{ref}})
	w.judged("release", process, ref, err == nil && answer.Released[0], err)
	ok, err := w.Store.Progress(ctx, process, ref, []byte("late"), j.History)
	w.judged("progress", process, ref, ok, err)
	ok, err = w.settleInTx(ctx, process, success)
	w.judged("settle in a transaction", process, ref, ok, err)
}

func (w *witness) settleInTx(ctx context.Context, process int64, s store.Settle) (bool, error) {
	tx, err := Begin(ctx, w.Store, w.config.URL)
	if err != nil {
		return false, err
	}
	ok, err := w.SettleTx(ctx, tx.Join, time.Time{}, process, s)
	if err != nil {
		return false, errors.Join(err, tx.Rollback(ctx))
	}
	return ok, tx.Commit(ctx)
}

// judged writes down the answer to a late write.
func (w *witness) judged(write string, process int64, ref store.Ref, accepted bool, err error) {
	e := Event{What: Refused, Process: process, Ref: ref, Text: "late " + write}
	switch {
	case accepted:
		e.What = Accepted
	case err != nil && !errors.Is(err, store.ErrLostProcess):
		e.What, e.Text = Erred, "late "+write+": "+err.Error()
	}
	w.evidence.Add(e)
}
