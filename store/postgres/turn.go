package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// turning is one turn under way: the batch that does it, in one transaction, and
// what has been answered.
type turning struct {
	store   *Store
	process int64
	now     time.Time // cut to microseconds; zero = the database's
	exact   time.Time // uncut: a due time is rounded up from it
	batch   *pgx.Batch
	answer  store.Turned

	present  bool      // the process is registered
	clock    time.Time // the transaction's
	entered  time.Time // by the database's clock
	strict   []string  // strict queues among those asked for
	claims   []*claiming
	then     []func() // to be done when the turn is
	requeued wish
	early    time.Duration    // least delay below 0 among what was settled to queued
	back     time.Time        // least due time that a settle to queued named
	released map[string]place // by queue: the earliest that went back
	noted    bool             // notes of keys wait
	worked   bool             // this turn works them off
	promoted bool             // some job can run that could not
	behind   []store.EndCount // parked because the job ahead in their key failed
	lanes    []*laneClaiming
	crowded  bool            // a lane has more looks than a discovery takes
	asked    map[string]bool // targets of what was claimed from lanes
	swaps    swapping
	late     bool // the batch is the second of two
}

// wish says whether others should be woken, and how soon.
type wish int

const (
	nobody wish = iota
	later       // something waits for its due time
	atOnce      // something is claimable
)

// Turn settles, begins, releases, holds, claims and swaps in one transaction,
// mostly in one round trip.
func (s *Store) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	if err := store.CheckSettles(t.Settles); err != nil {
		return store.Turned{}, err
	}
	w := s.turning(t.Process, t.Now)
	w.enter(t.Claims)
	w.settle(t.Settles)
	w.begin(t.Begin)
	w.release(t.Release)
	w.endOrdered()
	if s.endsKeyed(t.Settles, t.Release) || s.noted.Swap(false) {
		w.promote()
		s.scans.await() // who is promoted was due long ago
	}
	w.hold(t.Holds)
	err := w.send(ctx, &t)
	if err == nil && !w.present {
		err = store.ErrLostProcess
	}
	if err != nil {
		for _, c := range w.claims {
			s.scans.forget(c.scan)
		}
		if len(w.lanes) > 0 { // another turn may have gone on from behind what this one did not take
			s.marks.clear()
		}
		return store.Turned{}, failed("turn", err)
	}
	w.after()
	if err := w.claimAgain(ctx); err != nil {
		// What was claimed is ours: it is told now, the rest next time.
		if !w.anyClaimed() && len(w.answer.Settled)+len(w.answer.Begun)+len(w.answer.Released) == 0 {
			return store.Turned{}, failed("turn", err)
		}
	}
	if err := w.lost(ctx); err != nil {
		return store.Turned{}, failed("turn", err)
	}
	for i, c := range w.claims {
		if i == 0 {
			w.answer.Claimed = c.jobs
		} else {
			w.answer.Claimed = append(w.answer.Claimed, c.jobs...)
		}
	}
	w.answerLanes()
	w.answer.Parked = s.untold.Take()
	return w.answer, nil
}

// take queues what the turn claims and swaps.
func (w *turning) take(t *store.Turn) error {
	w.claim(t.Claims)
	w.claimLanes(t.Lanes)
	if err := w.swap(t.Swaps); err != nil {
		return err
	}
	w.readGates()
	return nil
}

// after tells claims and other processes what became claimable.
func (w *turning) after() {
	w.ended()
	w.store.untold.Add(w.behind)
	w.store.scans.lower(w.released)
	if !w.back.IsZero() {
		w.store.scans.lowerAll(place{due: store.Instant(w.back)})
	}
	if w.early < 0 {
		now := w.exact
		if now.IsZero() {
			now = w.clock
		}
		w.store.scans.lowerAll(place{due: now.Add(w.early)})
	}
	told := w.requeued
	if w.promoted || w.swaps.wakes() {
		told = atOnce
	}
	w.store.wakes.wish(told)
	if w.noted && !w.worked {
		w.store.noted.Store(true) // by the next turn, which comes soon
		w.store.wakes.localAfter(noteRest)
	}
}

// ended does what waits for the turn's end.
func (w *turning) ended() {
	for _, do := range w.then {
		do()
	}
}

func (s *Store) turning(process int64, now time.Time) *turning {
	return &turning{store: s, process: process, now: store.Instant(now), exact: now, batch: &pgx.Batch{}, released: map[string]place{}}
}

// query queues a statement whose rows are read in binary form.
func (w *turning) query(name string, args []any, each func(r *row) error) {
	w.batch.Queue(statement(name), args...).Query(func(rows pgx.Rows) error { return eachRow(rows, each) })
}

// enter asks whether the process still counts.
func (w *turning) enter(claims []store.Claim) {
	queues := make([]string, 0, len(claims))
	for _, c := range claims {
		queues = append(queues, c.Queue)
	}
	w.batch.Queue(statement("enter"), w.process, queues).QueryRow(func(r pgx.Row) error {
		return r.Scan(nil, &w.present, &w.clock, &w.strict, &w.noted, &w.entered)
	})
}

// answered returns a reader of the sequence numbers that a statement returns:
// it says of their places that they are applied, or not. Places are sorted by
// sequence number, and mostly all are returned in that order.
func answered(answers []bool, places []int, seq func(i int) int64, applied bool) func(r *row) error {
	next := 0
	return func(r *row) error {
		want := r.number()
		if next >= len(places) || seq(places[next]) != want {
			var found bool
			next, found = slices.BinarySearchFunc(places, want, func(i int, want int64) int { return cmp.Compare(seq(i), want) })
			if !found {
				return errors.New("the database answered for a job that was not asked about")
			}
		}
		answers[places[next]] = applied
		next++
		return nil
	}
}

// rounds puts the places of refs into rounds, each sorted by sequence number
// and naming no job twice: so that a returned number names one ref, and two
// transactions lock rows in the same order. A ref that was named before is in
// no round; same tells by which place.
func rounds(n int, ref func(i int) store.Ref) (rounds [][]int, same map[int]int) {
	type placed struct {
		store.Ref
		at int
	}
	all, rising := make([]placed, n), true
	rounds = [][]int{make([]int, 0, n)}
	for i := range n {
		all[i] = placed{ref(i), i}
		rising = rising && (i == 0 || all[i-1].Seq < all[i].Seq)
		rounds[0] = append(rounds[0], i)
	}
	if rising { // as claims give them out
		return rounds, nil
	}
	slices.SortFunc(all, func(a, b placed) int {
		if a.Seq != b.Seq { // mostly
			return cmp.Compare(a.Seq, b.Seq)
		}
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.at, b.at))
	})
	same, rounds[0] = map[int]int{}, rounds[0][:0]
	round := 0
	for k, p := range all {
		if k > 0 && p.Ref == all[k-1].Ref {
			first := all[k-1].at
			if before, again := same[first]; again {
				first = before
			}
			same[p.at] = first
			continue
		}
		if round++; k == 0 || p.Seq != all[k-1].Seq {
			round = 0
		}
		if round == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[round] = append(rounds[round], p.at)
	}
	return rounds, same
}

// split returns the numbers of the refs at the places.
func split(refs []store.Ref, places []int) (seqs, epochs []int64) {
	for _, i := range places {
		seqs, epochs = append(seqs, refs[i].Seq), append(epochs, refs[i].Epoch)
	}
	return seqs, epochs
}

// begin marks leases whose handlers start now, if they are due. Asking twice
// is answered twice.
func (w *turning) begin(refs []store.Ref) {
	if len(refs) == 0 {
		return
	}
	answers := make([]bool, len(refs))
	w.answer.Begun = answers
	all, same := rounds(len(refs), func(i int) store.Ref { return refs[i] })
	for n, places := range all {
		seqs, epochs := split(refs, places)
		mark := answered(answers, places, func(i int) int64 { return refs[i].Seq }, true)
		last := n == len(all)-1
		w.batch.Queue(statement("begin"), w.process, seqs, epochs, nullable(w.now)).Query(func(rows pgx.Rows) error {
			err := eachRow(rows, mark)
			if last {
				for again, at := range same {
					answers[again] = answers[at]
				}
			}
			return err
		})
	}
}

// release gives unbegun leases back.
func (w *turning) release(refs []store.Ref) {
	if len(refs) == 0 {
		return
	}
	answers := make([]bool, len(refs))
	w.answer.Released = answers
	w.requeued = atOnce
	all, _ := rounds(len(refs), func(i int) store.Ref { return refs[i] })
	for _, places := range all {
		seqs, epochs := split(refs, places)
		mark := answered(answers, places, func(i int) int64 { return refs[i].Seq }, true)
		w.query("release", []any{w.process, nullable(w.now), seqs, epochs}, func(r *row) error {
			if err := mark(r); err != nil {
				return err
			}
			w.lower(r)
			return nil
		})
	}
}

// lower reads where a job waits again, and remembers it if that is the plain
// lane.
func (w *turning) lower(r *row) {
	queue, due, plain := r.word(), r.instant(), r.flag()
	if p, ok := w.released[queue]; plain && (!ok || due.Before(p.due)) {
		w.released[queue] = place{due: due}
	}
}

// endOrdered cancels what just went back to its queue under a cancel order.
func (w *turning) endOrdered() {
	if w.requeued != nobody {
		w.batch.Queue(statement("end_ordered"), nullable(w.now))
	}
}

// Progress stores what a handler reports.
func (s *Store) Progress(ctx context.Context, process int64, ref store.Ref, progress []byte, h retry.History) (bool, error) {
	tag, err := s.pool.Exec(ctx, statement("progress"), ref.Seq, ref.Epoch, process, progress, nullable(store.Instant(h.FirstStartAt)),
		int64(h.LastDelay), h.Starts, h.Attempts, h.Waits, h.Idle, h.Crashes, freeBytes(&h.Free), int64(h.Held))
	if err != nil {
		return false, failed("progress", err)
	}
	return tag.RowsAffected() == 1, nil
}

// NextDue returns the earliest due time or look of the kinds in the queues
// that are not paused, or one before it.
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (time.Time, error) {
	var due *time.Time
	b := &pgx.Batch{}
	b.Queue(statement("next_due"), queues, s.scans.dueFrom(queues), kinds).QueryRow(func(r pgx.Row) error { return r.Scan(&due) })
	if err := s.send(ctx, b); err != nil {
		return time.Time{}, failed("next due", err)
	}
	if due == nil {
		return time.Time{}, nil
	}
	return store.Instant(*due), nil
}

// anyClaimed reports whether the turn has given jobs out.
func (w *turning) anyClaimed() bool {
	return slices.ContainsFunc(w.claims, func(c *claiming) bool { return len(c.jobs) > 0 })
}
