package storetest

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// all reads every job there is, by sequence.
func (w *flowWalk) all() []job.Job {
	w.Helper()
	jobs, err := w.List(w.ctx, store.Filter{}, store.Page{Limit: 1_000_000})
	w.must(err)
	slices.Reverse(jobs)
	return jobs
}

// inLine reports whether the job keeps those behind it in its key from
// running.
func inLine(j *job.Job) bool {
	return j.State.Live() || j.State == job.Failed && j.KeyRule == job.KeyBlock
}

// checkKeys holds, of every key: at most one runs; the head alone is not
// blocked, and it is the running one or else the least.
func (w *flowWalk) checkKeys() {
	w.Helper()
	lines := map[[2]string][]job.Job{}
	for _, j := range w.all() {
		name := [2]string{j.Queue, j.Key}
		if j.Key != "" && inLine(&j) {
			lines[name] = append(lines[name], j)
		} else if j.Blocked {
			w.Fatalf("blocked: %s", w.tell(j))
		}
	}
	for _, line := range lines {
		head := line[0].Seq
		running := 0
		for _, j := range line {
			if j.State == job.Running {
				running++
				head = j.Seq
			}
		}
		if running > 1 {
			w.Fatalf("%d of a key are running: %s", running, w.tell(line[0]))
		}
		for _, j := range line {
			if want := j.State == job.Queued && j.Seq != head; j.Blocked != want {
				w.Fatalf("blocked %t, want %t; the head is %s: %s", j.Blocked, want, w.name(head), w.tell(j))
			}
		}
	}
}

// drain takes everything out of the way and works until nothing is left:
// nothing is stranded, and of each key the order is kept.
func (w *flowWalk) drain() {
	w.Helper()
	w.say("@drain")
	for _, queue := range walkQueues {
		w.must(w.PauseQueue(w.ctx, w.now, "ann", queue, false))
	}
	for _, kind := range walkKinds {
		w.must(w.flow.PauseKind(w.ctx, w.now, "ann", kind, false))
	}
	for i := range w.procs {
		if p := &w.procs[i]; !p.lost {
			w.reap(w.now, p.id, crashed(w.now))
			p.lost = true
		}
	}
	targets, err := w.flow.Targets(w.ctx, "", 1000)
	w.must(err)
	p := w.process(w.now, walkKinds...)
	for _, g := range targets {
		if len(g.Grants) > 0 || g.State.InFlight != 0 {
			w.Fatalf("permits of dead processes are out: %s", w.tellGate(g))
		}
		g.OpenAt, g.Room = time.Time{}, store.NoLimit
		w.flow.swap(w.now, p, store.Swap{Gate: g, Wake: true})
	}
	for range 5 { // some expire, or find their unique key taken, and come again
		w.freeUniques()
		w.redrive(w.now, store.Filter{State: job.Failed}, 1000)
		w.redrive(w.now, store.Filter{State: job.Parked}, 1000)
		w.must(w.workedOff(p))
	}
	for _, j := range w.all() {
		w.say("%s", w.tell(j))
		if inLine(&j) {
			w.Fatalf("stranded: %s", w.tell(j))
		}
	}
	w.lookAtQueues()
}

// workedOff claims and succeeds until nothing is left to claim.
func (w *flowWalk) workedOff(process int64) error {
	last := map[[2]string]int64{} // of each key the one that ran last
	var settles []store.Settle
	for idle := 0; idle < 3; {
		w.now = w.now.Add(time.Minute)
		w.maintain(store.Maintenance{Now: w.now, Limit: 1000})
		t := store.Turn{Process: process, Now: w.now, Settles: settles}
		for _, queue := range walkQueues {
			t.Claims = append(t.Claims, store.Claim{Queue: queue, Kinds: walkKinds, Limit: 100})
			c := everything
			c.Queue, c.Kinds = queue, walkKinds
			t.Lanes = append(t.Lanes, c)
		}
		answer, err := w.Turn(w.ctx, t)
		if err != nil {
			return err
		}
		settles = nil
		for _, j := range answer.Claimed {
			name := [2]string{j.Queue, j.Key}
			if j.Key != "" && j.Seq < last[name] {
				w.Fatalf("%s runs after #%d", w.tell(j), last[name])
			}
			last[name] = j.Seq
			settles = append(settles, succeeded(j, w.now))
		}
		if idle++; len(answer.Claimed) > 0 {
			idle = 0
		}
	}
	return nil
}

// freeUniques cancels waiting jobs with a unique key: one that stands behind a
// dead letter of the same key and the same unique key keeps that from coming
// back, and waits for it.
func (w *flowWalk) freeUniques() {
	w.Helper()
	for _, j := range w.all() {
		if j.Unique != "" && j.State == job.Queued {
			w.cancel(w.now, j.Seq)
		}
	}
}
