package sqlite

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Turn settles, begins, releases, holds, claims and swaps, in this order, in
// one transaction.
func (s *Store) Turn(ctx context.Context, turn store.Turn) (store.Turned, error) {
	if err := store.CheckSettles(turn.Settles); err != nil {
		return store.Turned{}, err
	}
	var answer store.Turned
	var lanes []*handed
	var now time.Time
	err := s.write(ctx, "turn", turn.Now, func(t *tx) (err error) {
		now = t.instant()
		answer, lanes, err = t.turn(&turn)
		return err
	})
	if err == nil {
		err = s.readUnread(ctx, turn.Process, now, lanes)
	}
	if err != nil {
		return store.Turned{}, err
	}
	for _, h := range lanes {
		if answer.Claimed == nil {
			answer.Claimed = h.jobs
		} else {
			answer.Claimed = append(answer.Claimed, h.jobs...)
		}
	}
	answer.Parked = s.untold.Take()
	return answer, nil
}

func (t *tx) turn(turn *store.Turn) (answer store.Turned, lanes []*handed, err error) {
	defer t.desk.tidy()
	registered, err := t.one(t.ctx, "registered", turn.Process)
	if err != nil {
		return answer, nil, err
	}
	if registered == nil {
		return answer, nil, store.ErrLostProcess
	}
	if answer.Settled, err = t.settle(turn.Process, turn.Settles); err != nil {
		return answer, nil, err
	}
	if answer.Begun, err = t.begin(turn.Process, turn.Begin); err != nil {
		return answer, nil, err
	}
	if answer.Released, err = t.release(turn.Process, turn.Release); err != nil {
		return answer, nil, err
	}
	if err := t.hold(turn.Holds); err != nil {
		return answer, nil, err
	}
	for _, c := range turn.Claims {
		jobs, err := t.claim(turn.Process, c)
		if err != nil {
			return answer, nil, err
		}
		if answer.Claimed == nil {
			answer.Claimed = jobs // mostly all there is: half a kilobyte each
		} else {
			answer.Claimed = append(answer.Claimed, jobs...)
		}
	}
	if len(turn.Lanes) == 0 && len(turn.Swaps) == 0 {
		return answer, nil, nil
	}
	lanes, err = t.flow(turn, &answer)
	return answer, lanes, err
}

// flow does what a turn asks of lanes and gates.
func (t *tx) flow(turn *store.Turn, answer *store.Turned) ([]*handed, error) {
	l := &laning{tx: t, process: turn.Process, remembers: turn.Now.IsZero(), targets: map[string]bool{}}
	err := l.all(turn.Lanes)
	if err != nil {
		return nil, err
	}
	answer.Left = l.left
	if answer.Swapped, err = t.swaps(turn.Swaps, l.targets); err != nil || len(l.targets) == 0 {
		return l.handed, err
	}
	targets, err := t.changed(slices.Sorted(maps.Keys(l.targets)), store.KnownGates(turn, answer.Swapped))
	if err != nil || len(targets) == 0 {
		return l.handed, err
	}
	answer.Gates, err = t.gates(t.ctx, targets)
	return l.handed, err
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
	ordered bool   // its process is told to cancel it
	key     string // of the job
}

// leases are the rows that a process holds, among some that a turn names.
type leases struct {
	process int64
	rows    map[int64]lease
	// alike is set where each row is named once, and all of them are held and
	// say the same: then rows is empty.
	alike *lease
}

// held reads the named rows that the process holds under any epoch.
func (t *tx) held(process int64, refs []store.Ref) (*leases, error) {
	n := len(refs)
	held := &leases{process: process, rows: map[int64]lease{}}
	if n == 0 {
		return held, nil
	}
	seqs := make([]int64, 0, n)
	for _, ref := range refs {
		seqs = append(seqs, ref.Seq)
	}
	slices.Sort(seqs)
	if seqs = slices.Compact(seqs); len(seqs) == n && n >= minAlike {
		err := t.note(seqs)
		if err != nil {
			return nil, err
		}
		if held.alike, err = t.heldAlike(process, seqs); err != nil || held.alike != nil {
			return held, err
		}
	}
	name, args := forSeqs("held", seqs)
	return held, t.query(t.ctx, name, append(args, process), func(r row) error {
		held.rows[r.int(0)] = lease{epoch: r.int(1), queue: r.text(2), ordered: r.flag(3), key: r.text(4)}
		return nil
	})
}

// heldAlike returns what the table says of every one of the rows; nil if it
// says different things, or the process does not hold them all. A start that
// nobody interfered with costs no row of an answer.
func (t *tx) heldAlike(process int64, seqs []int64) (*lease, error) {
	var all *lease
	for _, part := range t.inStretches(seqs) {
		name, args := t.forNoted("held_alike", part)
		r, err := t.one(t.ctx, name, append(args, process)...)
		if err != nil || r.int(0) != int64(len(part)) || r.int(1) != r.int(2) || r.text(3) != r.text(4) || r[5] != int64(0) {
			return nil, err
		}
		if one := (lease{epoch: r.int(1), queue: r.text(3)}); all == nil {
			all = &one
		} else if *all != one {
			return nil, nil
		}
	}
	return all, nil
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

// begin marks leases whose handlers start now, if they are due. One that has
// begun already is answered in the same way.
func (t *tx) begin(process int64, refs []store.Ref) ([]bool, error) {
	answers := answersFor(len(refs))
	held, err := t.held(process, refs)
	if err != nil {
		return nil, err
	}
	var seqs []int64
	for _, ref := range refs {
		if _, ok := held.of(ref); ok {
			seqs = append(seqs, ref.Seq)
		}
	}
	if len(seqs) == 0 {
		return answers, nil
	}
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	n, err := t.runForN("begin_leases", seqs, micros(t.instant()))
	if err != nil {
		return nil, err
	}
	begun := map[int64]bool{}
	all := n == int64(len(seqs))
	if !all { // some had begun before, or are not due
		name, args := forSeqs("begun", seqs)
		err = t.query(t.ctx, name, args, func(r row) error {
			begun[r.int(0)] = true
			return nil
		})
	}
	for i, ref := range refs {
		_, ok := held.of(ref)
		answers[i] = ok && (all || begun[ref.Seq])
	}
	return answers, err
}

// release gives leases back: a job keeps its place in the order, unless a
// cancel order ends it.
func (t *tx) release(process int64, refs []store.Ref) ([]bool, error) {
	answers := answersFor(len(refs))
	held, err := t.held(process, refs)
	if err != nil {
		return nil, err
	}
	e := ending{tx: t}
	var cancelled []int64
	epochs := map[int64][]int64{}
	for i, ref := range refs {
		row, ok := held.take(ref)
		if answers[i] = ok; !ok {
			continue
		}
		epochs[ref.Epoch] = append(epochs[ref.Epoch], ref.Seq)
		to := job.Queued
		if row.ordered {
			to = job.Cancelled
			cancelled = append(cancelled, ref.Seq)
		}
		e.add(row, ref.Seq, to)
	}
	for epoch, seqs := range epochs {
		if err := t.runFor("epoch", seqs, epoch); err != nil {
			return nil, err
		}
	}
	for _, seq := range cancelled {
		if err := t.toDone(seq, job.Cancelled, nil, nil); err != nil {
			return nil, err
		}
	}
	return answers, e.finish()
}

// ending collects leases that end, and what becomes of their jobs.
type ending struct {
	*tx
	ended   []int64
	waiting []again // jobs that wait again, by queue
	keyed   []keyedEnd
}

// again are jobs of a queue that wait again.
type again struct {
	queue string
	seqs  []int64
}

// keyedEnd is the end of the head of a key.
type keyedEnd struct {
	lease
	seq int64
	to  job.State
}

func (e *ending) add(row lease, seq int64, to job.State) {
	e.move(row.queue, job.Running, to)
	e.ended = append(e.ended, seq)
	if to == job.Queued {
		e.wait(row.queue, seq)
	} else if row.key != "" {
		e.keyed = append(e.keyed, keyedEnd{row, seq, to})
	}
}

func (e *ending) wait(queue string, seq int64) {
	for i := range e.waiting {
		if w := &e.waiting[i]; w.queue == queue {
			w.seqs = append(w.seqs, seq)
			return
		}
	}
	e.waiting = append(e.waiting, again{queue, []int64{seq}})
}

// finish removes the leases, lets the jobs wait that do so again, and lets go
// those that stood behind the others.
func (e *ending) finish() error {
	if len(e.ended) > 0 {
		slices.Sort(e.ended)
		if err := e.runForEach("lease_end", e.ended); err != nil {
			return err
		}
	}
	for _, w := range e.waiting {
		if err := e.shelve(w.queue, w.seqs, false); err != nil {
			return err
		}
	}
	for _, k := range e.keyed {
		if err := e.headEnded(k.queue, k.key, k.seq, k.to); err != nil {
			return err
		}
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
