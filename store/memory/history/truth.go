package history

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// truth is what must be so after the last call.
type truth struct {
	jobs      map[int64]job.Job
	order     []int64 // sequence numbers, rising
	ledger    map[int64][]job.Attempt
	spent     map[int64]*spending
	ordered   map[store.Ref]bool // leases that a cancel order waits for
	processes map[int64]*process
	paused    map[string]bool
	gates     map[string]store.Gate
	changes   int // of jobs, so far
}

// process is what is known of one.
type process struct {
	beatAt time.Duration // machine time of its last beat
	reaped bool
}

// spending counts the starts of a job from the ledger alone, whatever its
// history says.
type spending struct {
	attempts int // since fresh attempts were given
	starts   int // since the last progress, waits apart
}

func newTruth() truth {
	return truth{
		jobs: map[int64]job.Job{}, ledger: map[int64][]job.Attempt{}, spent: map[int64]*spending{},
		ordered: map[store.Ref]bool{}, processes: map[int64]*process{}, paused: map[string]bool{},
		gates: map[string]store.Gate{},
	}
}

// holder returns the living job that has the unique key.
func (t *truth) holder(unique string) (int64, bool) {
	if unique == "" {
		return 0, false
	}
	for _, seq := range t.order {
		if j := t.jobs[seq]; j.Unique == unique && j.State.Live() {
			return seq, true
		}
	}
	return 0, false
}

// holds reports whether the process holds the lease.
func (t *truth) holds(process int64, ref store.Ref) bool {
	j, ok := t.jobs[ref.Seq]
	return ok && j.State == job.Running && j.Process == process && j.Epoch == ref.Epoch
}

// call is one call of the store with what it was allowed to change.
type call struct {
	name    string
	now     time.Time
	added   []int64 // enqueued and committed
	process int64   // who asked, or who was reaped
	config  string  // of register

	turn    *store.Turn
	answer  *store.Turned
	refused bool

	reaped  bool
	settles map[int64]store.Settle // what the reaper decided
	failed  []job.Job              // what failed by this call

	order   int64     // of cancel and retry
	state   job.State // of cancel
	report  store.Ref // of progress
	history retry.History
}

// verify holds the whole store against the truth after one call, and takes
// what was allowed over into it.
func (w *world) verify(c call) {
	if w.broken != nil {
		return
	}
	list, err := w.store.List(w.ctx, store.Filter{}, store.Page{Limit: 1000})
	w.must("list", err)
	slices.Reverse(list)
	c.failed = w.failedNow(list)
	if c.turn != nil && !c.refused {
		w.checkAnswers(&c)
		w.checkClaims(&c, list)
	}
	w.checkSet(&c, list)
	for i := range list {
		after := &list[i]
		before, known := w.truth.jobs[after.Seq]
		if !known || !same(&before, after) {
			w.truth.changes++
			w.checkChange(&c, &before, known, after)
			w.truth.jobs[after.Seq] = *after
		}
	}
	w.checkCluster(list)
	w.checkKeys(&c, list)
	w.checkGates(&c, list)
}

// same compares what can change in a job.
func same(a, b *job.Job) bool {
	return a.State == b.State && a.Cause == b.Cause && a.Epoch == b.Epoch && a.Process == b.Process && a.Begun == b.Begun &&
		a.History == b.History && a.DueAt.Equal(b.DueAt) && a.LeasedAt.Equal(b.LeasedAt) && a.EndedAt.Equal(b.EndedAt) &&
		a.DeadlineAt.Equal(b.DeadlineAt) && len(a.Progress) == len(b.Progress)
}

// checkSet holds that no job is lost, and that none came from nowhere.
func (w *world) checkSet(c *call, list []job.Job) {
	w.truth.order = append(w.truth.order, c.added...)
	slices.Sort(w.truth.order)
	if !slices.EqualFunc(w.truth.order, list, func(seq int64, j job.Job) bool { return seq == j.Seq }) {
		w.fail("after %s there are %d jobs, want %d: %v", c.name, len(list), len(w.truth.order), w.truth.order)
	}
}

// checkCluster holds what must be so at any time.
func (w *world) checkCluster(list []job.Job) {
	counts := map[string]map[job.State]int64{}
	unique := map[string]int64{}
	for _, queue := range queues {
		counts[queue] = map[job.State]int64{}
	}
	for i := range list {
		j := &list[i]
		counts[j.Queue][j.State]++
		if other := unique[j.Unique]; j.Unique != "" && j.State.Live() {
			if other != 0 {
				w.fail("jobs %d and %d live with the same unique key %q", other, j.Seq, j.Unique)
			}
			unique[j.Unique] = j.Seq
		}
	}
	if n := counts["strict"][job.Running]; n > 1 {
		w.fail("%d jobs of the strict queue are running", n)
	}
	maintained, err := w.store.Queues(w.ctx)
	w.must("queues", err)
	for _, q := range maintained {
		for _, state := range job.States() {
			if q.Counts[state] != counts[q.Name][state] {
				w.fail("queue %s counts %d %s, but there are %d", q.Name, q.Counts[state], state, counts[q.Name][state])
			}
		}
	}
}

// checkAnswers holds a turn's answers against the leases before it: exactly
// what was held under exactly that epoch is applied, and only once.
func (w *world) checkAnswers(c *call) {
	over := map[store.Ref]bool{}
	for i, st := range c.turn.Settles {
		want := w.truth.holds(c.process, st.Ref) && !over[st.Ref]
		over[st.Ref] = over[st.Ref] || want
		if c.answer.Settled[i] != want {
			w.fail("settle of %+v by process %d answered %t, want %t", st.Ref, c.process, !want, want)
		}
	}
	for i, ref := range c.turn.Begin {
		j := w.truth.jobs[ref.Seq]
		due := j.Begun || !j.DueAt.After(store.Instant(c.now))
		want := w.truth.holds(c.process, ref) && !over[ref] && due
		if c.answer.Begun[i] != want {
			w.fail("begin of %+v by process %d answered %t, want %t", ref, c.process, !want, want)
		}
	}
	for i, ref := range c.turn.Release {
		want := w.truth.holds(c.process, ref) && !over[ref]
		over[ref] = over[ref] || want
		if c.answer.Released[i] != want {
			w.fail("release of %+v by process %d answered %t, want %t", ref, c.process, !want, want)
		}
	}
}

// checkClaims holds that each claim took exactly the least rows that it might
// take, sorted. Each queue is claimed at most once a turn.
func (w *world) checkClaims(c *call, after []job.Job) {
	taken := map[int64]bool{}
	for _, j := range c.answer.Claimed {
		taken[j.Seq] = true
	}
	var want []int64
	for _, claim := range c.turn.Claims {
		want = append(want, w.least(c, claim, after, taken)...)
	}
	got := make([]int64, 0, len(want))
	for _, j := range c.answer.Claimed {
		if !inLane(&j) {
			got = append(got, j.Seq)
		}
	}
	if !slices.Equal(got, want) {
		w.fail("claims %+v took %v, want %v", c.turn.Claims, got, want)
	}
	w.checkLanes(c, after, taken)
}

// least computes what a claim must take.
func (w *world) least(c *call, claim store.Claim, after []job.Job, taken map[int64]bool) []int64 {
	limit := claim.Limit
	for i := range after {
		if j := &after[i]; claim.Queue == "strict" && j.Queue == "strict" && j.State == job.Running && !taken[j.Seq] {
			return nil
		}
	}
	ready := w.ready(c, claim.Queue, after, taken, func(j *job.Job) bool { return !inLane(j) })
	if claim.Queue == "strict" {
		ready, limit = ready[:min(1, len(ready))], min(limit, 1)
	}
	var seqs []int64
	for _, j := range ready {
		if slices.Contains(claim.Kinds, j.Kind) && len(seqs) < limit {
			seqs = append(seqs, j.Seq)
		}
	}
	return seqs
}

// checkSpending holds the budgets, counted by the ledger.
func (w *world) checkSpending(j *job.Job, a *job.Attempt) {
	s := w.truth.spent[j.Seq]
	switch a.Counted {
	case retry.CountedAttempt:
		s.attempts++
		s.starts++
	case retry.CountedFree:
		s.starts++
	}
	if s.attempts > maxAttempts {
		w.fail("%s spent %d attempts of %d", brief(j), s.attempts, maxAttempts)
	}
	if limit := maxAttempts + maxThrottled + policy.CrashCap + 1; s.starts > limit {
		w.fail("%s started %d times since its last progress, at most %d are allowed", brief(j), s.starts, limit)
	}
	if a.Class == failure.Crash && a.Counted == retry.CountedFree && j.History.Crashes > policy.CrashCap && j.State == job.Queued {
		w.fail("%s crashed %d times and is tried again", brief(j), j.History.Crashes)
	}
}
