package history

import (
	"slices"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// observe looks at all processes and condemns those whose counter has stood
// still for the lease time on this worker's own clock.
func (k *worker) observe(w *world) {
	list, err := w.store.Processes(w.ctx)
	w.must("processes", err)
	seen := map[int64]sighting{}
	limit := lease
	if w.ablation.leaseTime > 0 {
		limit = w.ablation.leaseTime
	}
	for _, p := range list {
		s, known := k.seen[p.ID]
		if !known || s.beat != p.Beat {
			s = sighting{process: p.ID, beat: p.Beat, since: w.mono}
		}
		seen[p.ID] = s
		if w.mono-s.since >= limit && p.ID != k.id && !slices.Contains(k.condemned, s) {
			k.condemned = append(k.condemned, s)
		}
	}
	k.seen = seen
}

// reap carries a judgement out. The condemned may have moved since.
func (k *worker) reap(w *world) {
	s := k.condemned[0]
	k.condemned = k.condemned[1:]
	if w.ablation.neverReap {
		return
	}
	now := w.now()
	c := call{name: "reap", now: now, process: s.process, settles: map[int64]store.Settle{}}
	_, ok, err := w.store.Reap(w.ctx, now, s.process, s.beat, func(j job.Job) store.Settle {
		st := w.crashOf(&j)
		c.settles[j.Seq] = st
		return st
	})
	w.must("reap", err)
	if ok {
		w.checkReaped(s)
		c.reaped = true
	}
	w.verify(c)
}

// crashOf asks for the verdict on a start that died with its process.
func (w *world) crashOf(j *job.Job) store.Settle {
	h := j.History.Started(j.LeasedAt)
	if w.ablation.noCrashCap {
		h.Crashes, h.Free = 0, [failure.NumClasses]uint8{}
	}
	return w.decided(j, h, failure.Of(failure.Crash), j.LeasedAt)
}

// checkReaped holds that the reaped process had been silent for the lease
// time, and that nobody was reaped twice.
func (w *world) checkReaped(s sighting) {
	p := w.truth.processes[s.process]
	switch {
	case p.reaped:
		w.fail("process %d was reaped twice", s.process)
	case w.mono-p.beatAt < lease:
		w.fail("process %d was reaped, but its last beat was %s ago", s.process, w.mono-p.beatAt)
	}
	p.reaped = true
}
