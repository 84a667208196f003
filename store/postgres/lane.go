package postgres

import (
	"cmp"
	"math"
	"slices"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// laneClaiming is one claim of lanes, and what it took.
type laneClaiming struct {
	store.LaneClaim
	found []found
}

// found is a job that a claim of lanes took.
type found struct {
	lane  string
	order int64 // its lane's place among those discovered
	job   job.Job
}

// hold queues the holds as one statement.
func (w *turning) hold(holds []store.LaneHold) {
	if len(holds) == 0 {
		return
	}
	var queues, targets []string
	var retries []bool
	var until instants
	for _, h := range holds {
		queues, targets, retries = append(queues, h.Queue), append(targets, h.Target), append(retries, h.Retries)
		until = append(until, micros(store.Instant(h.Until)))
	}
	w.batch.Queue(statement("hold"), w.process, queues, targets, retries, until)
}

// claimLanes queues the claims of lanes in their order: those by name that
// follow each other as one statement, if they are of the same kinds and name no
// lane twice.
func (w *turning) claimLanes(claims []store.LaneClaim) {
	for i := range claims {
		w.lanes = append(w.lanes, &laneClaiming{LaneClaim: claims[i]})
	}
	for from := 0; from < len(w.lanes); {
		if w.lanes[from].Target == "" {
			w.discover(w.lanes[from])
			from++
			continue
		}
		to := from + 1
		for to < len(w.lanes) && w.lanes[to].joins(w.lanes[from:to]) {
			to++
		}
		w.claimNamed(w.lanes[from:to])
		from = to
	}
}

// joins reports whether the claim can be in one statement with those before.
func (c *laneClaiming) joins(group []*laneClaiming) bool {
	return c.Target != "" && slices.Equal(c.Kinds, group[0].Kinds) && !slices.ContainsFunc(group, func(other *laneClaiming) bool {
		return other.Target == c.Target && other.Queue == c.Queue
	})
}

// bounded is a limit as the database counts.
func bounded(n int) int32 { return int32(min(max(n, 0), math.MaxInt32/8)) }

// claimNamed serves lanes by name.
func (w *turning) claimNamed(group []*laneClaiming) {
	if len(group[0].Kinds) == 0 {
		return
	}
	var queues, targets []string
	var firsts, retries, limits, begins []int32
	for _, c := range group {
		queues, targets = append(queues, c.Queue), append(targets, c.Target)
		firsts, retries = append(firsts, bounded(c.Firsts)), append(retries, bounded(c.Retries))
		limits, begins = append(limits, bounded(c.Limit)), append(begins, bounded(c.Begin))
	}
	args := []any{w.process, nullable(w.now), group[0].Kinds, queues, targets, firsts, retries, limits, begins}
	w.query("claim_named", args, func(r *row) error {
		c := group[r.number()-1]
		f := found{lane: c.Target}
		if err := w.leased(r, &f.job); err != nil {
			return err
		}
		f.job.Begun = r.flag()
		c.found = append(c.found, f)
		return nil
	})
}

// discover takes of the lanes that have waited longest.
func (w *turning) discover(c *laneClaiming) {
	if len(c.Kinds) == 0 || c.Lanes <= 0 || c.Limit <= 0 {
		return
	}
	args := []any{
		w.process, nullable(w.now), c.Kinds, c.Queue, bounded(c.Lanes), bounded(c.Firsts), bounded(c.Retries), bounded(c.Limit),
	}
	w.query("discover", args, func(r *row) error {
		f := found{order: r.number(), lane: r.word()}
		r.flag() // whether it is a retry: the history says so
		err := w.leased(r, &f.job)
		c.found = append(c.found, f)
		return err
	})
}

// leased reads a job that was claimed from a lane.
func (w *turning) leased(r *row, j *job.Job) error {
	j.State, j.Process, j.LeasedAt = job.Running, w.process, w.now
	if w.now.IsZero() {
		j.LeasedAt = w.clock
	}
	if err := r.moved(j); err != nil {
		return err
	}
	w.store.leasedKey(j)
	return nil
}

// answerLanes adds what was claimed from lanes to the answer, with the gates.
func (w *turning) answerLanes() {
	asked := map[string]bool{}
	for _, c := range w.lanes {
		slices.SortFunc(c.found, func(a, b found) int {
			return cmp.Or(cmp.Compare(a.order, b.order), compareJobs(&a.job, &b.job))
		})
		for i := range c.found {
			asked[c.found[i].lane] = true
			w.answer.Claimed = append(w.answer.Claimed, c.found[i].job)
		}
	}
	w.answerGates(asked)
}
