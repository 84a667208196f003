package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Sizes of one history: small enough to be judged in milliseconds, and enough
// clients to meet on every key.
const (
	linearSeeds   = 6
	linearClients = 5
	linearOps     = 60 // a client
	linearKeys    = 3
	linearTimeout = time.Minute // of the checker; a history this small needs none of it
)

// Linearizable has goroutines enqueue, claim, settle, cancel and read the same
// few unique keys at the same time, and asks a checker whether one order of
// all calls explains every answer by the job's state machine with its epochs.
func Linearizable(t *testing.T, open Open) {
	for seed := range uint64(linearSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if err := CheckLinearizable(t.Context(), open(t), seed); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// CheckLinearizable records one concurrent history on an empty store and
// judges it.
func CheckLinearizable(ctx context.Context, s store.Store, seed uint64) error {
	var ticks atomic.Int64
	histories := make([][]porcupine.Operation, linearClients)
	errs := make([]error, linearClients)
	shared := &leaseBoard{}
	var wg sync.WaitGroup
	for i := range linearClients {
		p, err := s.Register(ctx, t0, store.Process{Kinds: []string{"mail"}})
		if err != nil {
			return err
		}
		c := &linearClient{
			ctx: ctx, store: s, process: p.ID, client: i, ticks: &ticks, board: shared,
			rng: rand.New(rand.NewPCG(seed, uint64(i))),
		}
		wg.Go(func() {
			for range linearOps {
				if errs[i] = c.step(); errs[i] != nil {
					break
				}
			}
			histories[i] = c.history
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var all []porcupine.Operation
	for _, h := range histories {
		all = append(all, h...)
	}
	switch porcupine.CheckOperationsTimeout(linearModel, all, linearTimeout) {
	case porcupine.Illegal:
		return fmt.Errorf("storetest: seed %d: no order of the %d calls explains the answers", seed, len(all))
	case porcupine.Unknown:
		return fmt.Errorf("storetest: seed %d: the checker did not finish %d calls within %s", seed, len(all), linearTimeout)
	}
	return nil
}

// linearCall is what was asked of one key.
type linearCall struct {
	key     int
	act     string // enqueue, claim, settle, cancel, read
	process int64
	ref     store.Ref
	to      job.State
	// What came back.
	ok    bool // enqueue: new; claim: got one; settle: applied; cancel, read: no error
	state job.State
}

// leaseBoard shows every client the leases of all, so that they also try what
// is not theirs or not any more.
type leaseBoard struct {
	mu   sync.Mutex
	refs [linearKeys][]store.Ref
}

func (b *leaseBoard) add(key int, ref store.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refs[key] = append(b.refs[key], ref)
}

// recent returns one of the last few leases, or zero.
func (b *leaseBoard) recent(key int, rng *rand.Rand) store.Ref {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.refs[key])
	if n == 0 {
		return store.Ref{}
	}
	return b.refs[key][n-1-rng.IntN(min(n, 3))]
}

type linearClient struct {
	ctx     context.Context
	store   store.Store
	process int64
	client  int
	ticks   *atomic.Int64
	board   *leaseBoard
	rng     *rand.Rand
	own     [linearKeys]store.Ref // the last lease of each key
	history []porcupine.Operation
}

func queueOf(key int) string { return fmt.Sprintf("q%d", key) }

// step makes one call and writes it down.
func (c *linearClient) step() error {
	call := linearCall{key: c.rng.IntN(linearKeys), process: c.process}
	switch n := c.rng.IntN(100); {
	case n < 20:
		call.act = "enqueue"
	case n < 50:
		call.act = "claim"
	case n < 80:
		call.act = "settle"
		call.to = []job.State{job.Succeeded, job.Queued, job.Queued, job.Failed}[c.rng.IntN(4)]
		if call.ref = c.own[call.key]; call.ref == (store.Ref{}) || c.rng.IntN(3) == 0 {
			call.ref = c.board.recent(call.key, c.rng)
		}
	case n < 90:
		call.act, call.ref = "cancel", c.board.recent(call.key, c.rng)
	default:
		call.act, call.ref = "read", c.board.recent(call.key, c.rng)
	}
	if call.ref.Seq == 0 && call.act != "enqueue" && call.act != "claim" {
		return nil
	}
	begun := c.ticks.Add(1)
	err := c.do(&call)
	c.history = append(c.history, porcupine.Operation{
		ClientId: c.client, Input: call.key, Call: begun, Output: call, Return: c.ticks.Add(1),
	})
	return err
}

func (c *linearClient) do(call *linearCall) (err error) {
	switch call.act {
	case "enqueue":
		n := job.New{Kind: "mail", Queue: queueOf(call.key), Unique: queueOf(call.key)}
		var answers []store.Enqueued
		if answers, err = c.store.Enqueue(c.ctx, t0, []job.New{n}); err == nil {
			call.ref.Seq, call.ok = answers[0].Seq, !answers[0].Existing
		}
	case "claim":
		t := store.Turn{Process: c.process, Now: t0, Claims: []store.Claim{{Queue: queueOf(call.key), Kinds: []string{"mail"}, Limit: 1}}}
		var answer store.Turned
		if answer, err = c.store.Turn(c.ctx, t); err == nil && len(answer.Claimed) > 0 {
			call.ok, call.ref = true, refOf(answer.Claimed[0])
			c.own[call.key] = call.ref
			c.board.add(call.key, call.ref)
		}
	case "settle":
		st := store.Settle{Ref: call.ref, To: call.to}
		if call.to == job.Failed {
			st.Cause = retry.CauseFatal
		}
		var answer store.Turned
		if answer, err = c.store.Turn(c.ctx, store.Turn{Process: c.process, Now: t0, Settles: []store.Settle{st}}); err == nil {
			call.ok = answer.Settled[0]
		}
	case "cancel":
		call.state, err = c.store.Cancel(c.ctx, t0, "ann", call.ref.Seq)
		if call.ok = err == nil; errors.Is(err, store.ErrState) {
			err = nil
		}
	case "read":
		var j job.Job
		if j, err = c.store.Job(c.ctx, call.ref.Seq); err == nil {
			call.ok, call.state, call.ref.Epoch = true, j.State, j.Epoch
		}
	}
	return err
}

// linearState is the last job of one key. Others have ended: the key would
// not have been free otherwise.
type linearState struct {
	seq     int64 // 0 = none yet
	state   job.State
	epoch   int64
	process int64
	ordered bool
}

// linearModel is the job's state machine, one key at a time.
var linearModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, linearKeys)
		for _, op := range history {
			key := op.Input.(int)
			parts[key] = append(parts[key], op)
		}
		return parts
	},
	Init: func() any { return linearState{} },
	Step: func(state, _, output any) (bool, any) {
		return state.(linearState).after(output.(linearCall))
	},
}

// after returns whether the call could be answered so, and the state then.
func (s linearState) after(c linearCall) (bool, any) {
	switch c.act {
	case "enqueue":
		if s.state.Live() {
			return !c.ok && c.ref.Seq == s.seq, s
		}
		return c.ok && c.ref.Seq != s.seq, linearState{seq: c.ref.Seq, state: job.Queued}
	case "claim":
		if !c.ok { // also while another call holds the row: a claim does not wait
			return true, s
		}
		if s.state != job.Queued {
			return false, s
		}
		s.state, s.process, s.epoch = job.Running, c.process, s.epoch+1
		return c.ref == store.Ref{Seq: s.seq, Epoch: s.epoch}, s
	case "settle":
		if s.state != job.Running || s.process != c.process || c.ref != (store.Ref{Seq: s.seq, Epoch: s.epoch}) {
			return !c.ok, s
		}
		if s.state, s.process = c.to, 0; c.to == job.Queued && s.ordered {
			s.state = job.Cancelled
		}
		s.ordered = false
		return c.ok, s
	case "cancel":
		return s.cancelled(c)
	default:
		if c.ref.Seq != s.seq {
			return c.ok && !c.state.Live(), s
		}
		return c.ok && c.state == s.state && c.ref.Epoch == s.epoch, s
	}
}

func (s linearState) cancelled(c linearCall) (bool, any) {
	switch {
	case c.ref.Seq != s.seq || !s.state.Live():
		return !c.ok, s
	case s.state == job.Running:
		s.ordered = true
	default:
		s.state = job.Cancelled
	}
	return c.ok && c.state == s.state, s
}
