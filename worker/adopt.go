package worker

import (
	"context"
	"slices"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// adopt looks for leases that a lost answer gave us.
func (l *loop) adopt() {
	if l.adopting || l.turns > 0 {
		return
	}
	l.adopting = true
	process, targets := l.process, l.lanes.doubtful()
	l.group.Go(func() {
		ctx, cancel := l.call(l.side)
		defer cancel()
		found, err := l.leasedBy(ctx, process)
		var gates []store.Gate
		if err == nil && len(targets) > 0 {
			gates, err = l.store.Gates(ctx, targets)
		}
		l.mail.post(func(l *loop) { l.adopted(process, found, gates, err) })
	})
}

// leasedBy lists the running jobs of the process.
func (w *Worker) leasedBy(ctx context.Context, process int64) ([]job.Job, error) {
	const page = 1000
	var found []job.Job
	for before := int64(0); ; {
		jobs, err := w.store.List(ctx, store.Filter{State: job.Running}, store.Page{Before: before, Limit: page})
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			if jobs[i].Process == process {
				found = append(found, jobs[i])
			}
			before = jobs[i].Seq
		}
		if len(jobs) < page {
			return found, nil
		}
	}
}

func (l *loop) adopted(process int64, found []job.Job, gates []store.Gate, err error) {
	l.adopting = false
	if process != l.process {
		return
	}
	if err != nil {
		l.failures++
		l.pauseUntil = l.machine().Add(l.delay(l.failures))
		l.tell(Event{What: Erred, Text: "adopt", Err: err})
		return
	}
	l.doubt = false
	now := l.now()
	for i := range gates {
		if b := l.lanes.booths[gates[i].Target]; b != nil && b.ghost != nil {
			b.reconcile(process, gates[i], now, l.config.Seed)
		}
	}
	for i := range found {
		r := l.leases.of(found[i].Seq)
		switch {
		case r == nil:
			l.arrive(&found[i], now, false)
		case r.job.Epoch < found[i].Epoch: // the settle that kept it was done
			l.pending = slices.DeleteFunc(l.pending, func(p *run) bool { return p == r })
			l.observe(r, settledEvent(r, true))
			l.unhold(r)
			l.await(&found[i], r.entry)
		}
	}
	l.wake()
}
