package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Turn settles, begins, releases and claims, in this order, in one
// transaction.
func (s *Store) Turn(ctx context.Context, turn store.Turn) (store.Turned, error) {
	if err := store.CheckSettles(turn.Settles); err != nil {
		return store.Turned{}, err
	}
	var answer store.Turned
	err := s.write(ctx, "turn", turn.Now, func(t *tx) (err error) {
		answer, err = t.turn(&turn)
		return err
	})
	if err != nil {
		return store.Turned{}, err
	}
	return answer, nil
}

func (t *tx) turn(turn *store.Turn) (store.Turned, error) {
	var answer store.Turned
	registered, err := t.one(t.ctx, "registered", turn.Process)
	if err != nil {
		return answer, err
	}
	if registered == nil {
		return answer, store.ErrLostProcess
	}
	held, err := t.held(turn.Process, turn.Begin, turn.Release, refsOf(turn.Settles))
	if err != nil {
		return answer, err
	}
	if answer.Settled, err = t.settle(held, turn.Settles); err != nil {
		return answer, err
	}
	if answer.Begun, err = t.begin(held, turn.Begin); err != nil {
		return answer, err
	}
	if answer.Released, err = t.release(held, turn.Release); err != nil {
		return answer, err
	}
	for _, c := range turn.Claims {
		jobs, err := t.claim(turn.Process, c)
		if err != nil {
			return answer, err
		}
		if answer.Claimed == nil {
			answer.Claimed = jobs // mostly all there is: half a kilobyte each
		} else {
			answer.Claimed = append(answer.Claimed, jobs...)
		}
	}
	return answer, nil
}

// answersFor returns n times false; nil where nothing was asked.
func answersFor(n int) []bool {
	if n == 0 {
		return nil
	}
	return make([]bool, n)
}

func refsOf(settles []store.Settle) []store.Ref {
	refs := make([]store.Ref, len(settles))
	for i := range settles {
		refs[i] = settles[i].Ref
	}
	return refs
}

// lease is what the table says of a row that the process holds.
type lease struct {
	epoch   int64
	queue   string
	begun   bool
	ordered bool // its process is told to cancel it
}

// leases are the rows that a process holds, among those that a turn names.
type leases struct {
	process int64
	rows    map[int64]lease
	// alike is set where the turn names each row once, and all of them are
	// held and say the same: then rows has only what has changed since.
	alike *lease
}

// held reads the named rows that the process holds under any epoch.
func (t *tx) held(process int64, refs ...[]store.Ref) (*leases, error) {
	n := 0
	for _, list := range refs {
		n += len(list)
	}
	held := &leases{process: process, rows: map[int64]lease{}}
	if n == 0 {
		return held, nil
	}
	seqs := make([]int64, 0, n)
	for _, list := range refs {
		for _, ref := range list {
			seqs = append(seqs, ref.Seq)
		}
	}
	slices.Sort(seqs)
	if seqs = slices.Compact(seqs); len(seqs) == n && n >= minAlike {
		var err error
		if held.alike, err = t.heldAlike(process, seqs); err != nil || held.alike != nil {
			return held, err
		}
	}
	name, args := forSeqs("held", seqs)
	return held, t.query(t.ctx, name, append(args, process), func(r row) error {
		held.rows[r.int(0)] = lease{epoch: r.int(1), queue: r.text(2), begun: r.flag(3), ordered: r.flag(4)}
		return nil
	})
}

// heldAlike returns what the table says of every one of the rows; nil if it
// says different things, or the process does not hold them all. A start that
// nobody interfered with costs no row of an answer.
func (t *tx) heldAlike(process int64, seqs []int64) (*lease, error) {
	name, args := forSeqs("held_alike", seqs)
	r, err := t.one(t.ctx, name, append(args, process)...)
	if err != nil || r.int(0) != int64(len(seqs)) || r.int(1) != r.int(2) || r.text(3) != r.text(4) || r.flag(5) || !r.flag(6) {
		return nil, err
	}
	return &lease{epoch: r.int(1), queue: r.text(3), begun: true}, nil
}

// of returns the lease if it is held under exactly this epoch.
func (l *leases) of(ref store.Ref) (lease, bool) {
	if l.alike != nil {
		return *l.alike, l.alike.epoch == ref.Epoch
	}
	row, ok := l.rows[ref.Seq]
	return row, ok && row.epoch == ref.Epoch
}

// take returns the lease and ends it here.
func (l *leases) take(ref store.Ref) (lease, bool) {
	row, ok := l.of(ref)
	if ok {
		delete(l.rows, ref.Seq)
	}
	return row, ok
}

// begin marks leases whose handlers start now, if they are due.
func (t *tx) begin(held *leases, refs []store.Ref) ([]bool, error) {
	answers := answersFor(len(refs))
	for i, ref := range refs {
		row, ok := held.of(ref)
		if answers[i] = ok; !ok || row.begun {
			continue
		}
		changed, err := t.run("begin_lease", ref.Seq, micros(t.instant()))
		if err != nil {
			return nil, err
		}
		row.begun = changed > 0
		answers[i], held.rows[ref.Seq] = row.begun, row
	}
	return answers, nil
}

// release gives leases back: a job keeps its place in the order,
// unless a cancel order ends it.
func (t *tx) release(held *leases, refs []store.Ref) ([]bool, error) {
	answers := answersFor(len(refs))
	var ended, waiting []int64
	for i, ref := range refs {
		row, ok := held.of(ref)
		if answers[i] = ok; !ok {
			continue
		}
		held.take(ref)
		ended = append(ended, ref.Seq)
		if _, err := t.run("epoch", ref.Seq, ref.Epoch); err != nil {
			return nil, err
		}
		to := job.Queued
		if row.ordered {
			to = job.Cancelled
			if err := t.toDone(ref.Seq, to, nil, nil); err != nil {
				return nil, err
			}
		} else {
			waiting = append(waiting, ref.Seq)
		}
		t.move(row.queue, job.Running, to)
	}
	return answers, t.endLeases(ended, waiting)
}

// endLeases removes leases and puts those jobs back that wait again.
func (t *tx) endLeases(ended, waiting []int64) error {
	if len(ended) > 0 {
		if err := t.runFor("lease_end", ended); err != nil {
			return err
		}
	}
	if len(waiting) > 0 {
		return t.runFor("ready", waiting)
	}
	return nil
}

// Progress stores what a handler reports.
func (s *Store) Progress(ctx context.Context, process int64, ref store.Ref, progress []byte, h retry.History) (bool, error) {
	var changed int64
	err := s.write(ctx, "progress", time.Time{}, func(t *tx) (err error) {
		args := append([]any{blob(progress)}, historyArgs(h)...)
		changed, err = t.run("progress", append(args, ref.Seq, ref.Epoch, process)...)
		return err
	})
	return changed > 0 && err == nil, err
}
