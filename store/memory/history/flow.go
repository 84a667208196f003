package history

import (
	"cmp"
	"slices"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// keyName names a key: queues do not share them.
type keyName struct{ queue, key string }

// inLane reports whether the job waits in its target's lane.
func inLane(j *job.Job) bool { return j.Target != "" && j.Queue != "strict" }

// keyLine is what stands in line for one key.
type keyLine struct {
	head    int64 // the running one, or else the least
	running int
}

// join adds a job to its line; the jobs come in any order.
func (l *keyLine) join(seq int64, running bool) {
	switch {
	case running:
		l.running++
		l.head = seq
	case l.running == 0 && (l.head == 0 || seq < l.head):
		l.head = seq
	}
}

// lines returns who stands in line for each key: the living, dead letters
// that block, and what has not committed yet.
func (w *world) lines(list []job.Job) map[keyName]*keyLine {
	lines := map[keyName]*keyLine{}
	join := func(name keyName, seq int64, running bool) {
		if name.key == "" {
			return
		}
		if lines[name] == nil {
			lines[name] = &keyLine{}
		}
		lines[name].join(seq, running)
	}
	for _, h := range w.held {
		for i, seq := range h.seqs {
			join(keyName{h.jobs[i].Queue, h.jobs[i].Key}, seq, false)
		}
	}
	for i := range list {
		j := &list[i]
		if j.State.Live() || j.State == job.Failed && j.KeyRule == job.KeyBlock {
			join(keyName{j.Queue, j.Key}, j.Seq, j.State == job.Running)
		}
	}
	return lines
}

// checkKeys holds, of every key: at most one runs; the head is the only one
// that is not blocked; and what is behind one that failed under the rule park
// is parked.
func (w *world) checkKeys(c *call, list []job.Job) {
	lines := w.lines(list)
	for name, l := range lines {
		if l.running > 1 {
			w.fail("%d of key %s in %s are running", l.running, name.key, name.queue)
		}
	}
	for i := range list {
		j := &list[i]
		if want := j.Key != "" && j.State == job.Queued && lines[keyName{j.Queue, j.Key}].head != j.Seq; j.Blocked != want {
			w.fail("%s is blocked: %t, want %t", brief(j), j.Blocked, want)
		}
		if j.State == job.Queued && c.parks(j) {
			w.fail("%s is queued behind one that failed and parks it", brief(j))
		}
	}
}

// parks reports whether a job that failed in this call parks what is queued
// behind it, this one for one.
func (c *call) parks(j *job.Job) bool {
	return j.Key != "" && slices.ContainsFunc(c.failed, func(f job.Job) bool {
		return f.KeyRule == job.KeyPark && f.Queue == j.Queue && f.Key == j.Key && f.Seq < j.Seq
	})
}

// failedNow lists the jobs that failed in this call.
func (w *world) failedNow(list []job.Job) []job.Job {
	var failed []job.Job
	for i := range list {
		if before := w.truth.jobs[list[i].Seq]; list[i].State == job.Failed && before.State != job.Failed {
			failed = append(failed, list[i])
		}
	}
	return failed
}

// checkGates holds that what is granted is in flight and within the limit,
// that nobody dead holds a permit, that nobody runs without one, and that
// every swap was of the version it was made from.
func (w *world) checkGates(c *call, list []job.Job) {
	gates, err := w.store.Gates(w.ctx, targets)
	w.must("gates", err)
	for i := range gates {
		g := &gates[i]
		sum := 0
		for _, held := range g.Grants {
			sum += held.Size()
			if w.truth.processes[held.Process].reaped {
				w.fail("process %d is gone and holds %+v of %s", held.Process, held, g.Target)
			}
		}
		if sum != g.State.InFlight || sum > callLimit {
			w.fail("of %s %d permits are out, %d in flight, at most %d may be", g.Target, sum, g.State.InFlight, callLimit)
		}
		running := map[int64]int{}
		for k := range list {
			if j := &list[k]; j.Target == g.Target && inLane(j) && j.State == job.Running && j.Begun {
				running[j.Process]++
			}
		}
		for process, n := range running {
			if held := g.GrantOf(process); n > held.Size() {
				w.fail("process %d runs %d calls of %s with %d permits", process, n, g.Target, held.Size())
			}
		}
		w.checkSwap(c, w.truth.gates[g.Target], g)
		w.truth.gates[g.Target] = *g
	}
}

func (w *world) checkSwap(c *call, before store.Gate, after *store.Gate) {
	want := before.Version
	if c.turn != nil && !c.refused {
		for i, sw := range c.turn.Swaps {
			if sw.Target != after.Target {
				continue
			}
			if fits := sw.Version == before.Version; fits != c.answer.Swapped[i] {
				w.fail("a swap of %s from version %d to %d answered %t", sw.Target, sw.Version, before.Version, !fits)
			}
			if c.answer.Swapped[i] {
				want++
			}
		}
	}
	if held := before.GrantOf(c.process); c.reaped && held.Size() > 0 {
		want++
	}
	if after.Version != want {
		w.fail("%s is at version %d after %s, want %d", after.Target, after.Version, c.name, want)
	}
}

// checkLanes holds what lane claims took. By name: exactly the least rows,
// the first of them begun. By discovery, whose looks are the store's own:
// nothing but what might be taken, of each part the least, behind no shut
// gate. Each queue is claimed at most once a turn.
func (w *world) checkLanes(c *call, after []job.Job, taken map[int64]bool) {
	got := map[string][]job.Job{}
	for _, j := range c.answer.Claimed {
		if inLane(&j) {
			got[j.Queue] = append(got[j.Queue], j)
		}
	}
	for _, claim := range c.turn.Lanes {
		mine := got[claim.Queue]
		delete(got, claim.Queue)
		ready := w.ready(c, claim.Queue, after, taken, inLane)
		if claim.Target == "" {
			w.checkFound(c, claim, mine, ready)
			continue
		}
		var want []int64
		for _, j := range ready {
			if j.Target == claim.Target && slices.Contains(claim.Kinds, j.Kind) && len(want) < claim.Limit {
				want = append(want, j.Seq)
			}
		}
		begun := 0
		for i := range mine {
			if i >= len(want) || mine[i].Seq != want[i] {
				break
			}
			if should := begun < claim.Begin && mine[i].History.Crashes < store.SuspectCrashes; should != mine[i].Begun {
				w.fail("claim %+v has begun: %t %s", claim, mine[i].Begun, brief(&mine[i]))
			} else if should {
				begun++
			}
		}
		if !slices.EqualFunc(mine, want, func(j job.Job, seq int64) bool { return j.Seq == seq }) {
			w.fail("claim %+v took %d jobs, want %v", claim, len(mine), want)
		}
	}
	if len(got) > 0 {
		w.fail("jobs of lanes that nobody claimed: %d queues", len(got))
	}
}

func (w *world) checkFound(c *call, claim store.LaneClaim, got []job.Job, ready []*job.Job) {
	if len(got) > claim.Limit {
		w.fail("claim %+v took %d jobs", claim, len(got))
	}
	lanes := map[string]int{}
	for i := range got {
		j := &got[i]
		first := slices.IndexFunc(ready, func(r *job.Job) bool {
			return r.Target == j.Target && r.Kind == j.Kind && store.Retrying(r.History) == store.Retrying(j.History)
		})
		if first < 0 || ready[first].Seq != j.Seq || !slices.Contains(claim.Kinds, j.Kind) || j.Begun {
			w.fail("claim %+v took %s", claim, brief(j))
			return
		}
		ready = slices.Delete(ready, first, first+1)
		lanes[j.Target]++
		if g, known := w.truth.gates[j.Target]; known && g.Version > 0 && (g.OpenAt.After(c.now) || lanes[j.Target] > g.Room) {
			w.fail("claim %+v took %d jobs of %s, whose gate has room for %d and opens at %s", claim, lanes[j.Target], j.Target, g.Room, g.OpenAt)
		}
	}
}

// ready lists what a claim on the queue might take of a place, the least
// first: what it took and what is queued after it were there before it.
func (w *world) ready(c *call, queue string, after []job.Job, taken map[int64]bool, place func(*job.Job) bool) []*job.Job {
	var ready []*job.Job
	for i := range after {
		j := &after[i]
		waits := taken[j.Seq] || j.State == job.Queued && !j.Blocked
		if j.Queue == queue && place(j) && waits && !j.DueAt.After(c.now) && (j.DeadlineAt.IsZero() || !j.DeadlineAt.Before(c.now)) {
			ready = append(ready, j)
		}
	}
	if w.truth.paused[queue] {
		return nil
	}
	slices.SortFunc(ready, func(a, b *job.Job) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.DueAt.Compare(b.DueAt), cmp.Compare(a.Seq, b.Seq))
	})
	return ready
}
