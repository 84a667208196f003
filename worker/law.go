package worker

import (
	"context"
	"slices"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// law is what an operator ordered for a queue.
type law struct {
	strict bool
	limit  bool
	config *gate.Config // of the limit
}

// limited reports whether the queue's work passes a gate of its own.
func (w law) limited() bool { return w.limit }

// readLaws reads the orders for queues that have any.
func (w *Worker) readLaws(ctx context.Context) (map[string]law, error) {
	queues, err := w.store.QueueRules(ctx)
	if err != nil {
		return nil, err
	}
	laws := make(map[string]law)
	for _, q := range queues {
		none := store.QueueLimit{}
		if !q.Strict && q.Limit == none {
			continue
		}
		laws[q.Name] = law{strict: q.Strict, limit: q.Limit != none, config: &gate.Config{
			Keep: grantLife, PerTarget: policy.PerTarget{Concurrency: q.Limit.Concurrency, Rate: q.Limit.Rate},
		}}
	}
	return laws, nil
}

// askLaws reads them again: with each poll, and when work says that they have
// changed.
func (l *loop) askLaws() {
	if l.lawAsking || !l.lawDue || l.process == 0 || l.phase != working || l.machine().Before(l.pauseUntil) {
		return
	}
	l.lawAsking = true
	l.group.Go(func() {
		ctx, cancel := l.call(l.side)
		defer cancel()
		laws, err := l.readLaws(ctx)
		l.mail.post(func(l *loop) { l.answeredLaws(laws, err) })
	})
}

func (l *loop) answeredLaws(laws map[string]law, err error) {
	l.lawAsking, l.lawDue = false, false
	if err != nil {
		l.failures++
		l.pauseUntil = l.machine().Add(l.delay(l.failures))
		l.lawDue = true
		l.tell(Event{What: Erred, Text: "queues", Err: err})
		return
	}
	l.lanes.setLaws(laws)
}

// setLaws applies the orders. A queue whose limit was lifted has a gate that
// holds nothing, for what is on its way.
func (la *lanes) setLaws(laws map[string]law) {
	for name := range la.laws {
		if _, still := laws[name]; !still {
			if b := la.booths[store.QueueTarget(name)]; b != nil {
				b.config = &gate.Config{Keep: grantLife}
			}
		}
	}
	la.laws, la.lawful = laws, true
	for name, w := range laws {
		if b := la.booths[store.QueueTarget(name)]; b != nil {
			b.config = w.config
			b.forget()
			for target := range b.barred {
				delete(b.barred, target)
				la.floor.Wake(target)
			}
		}
	}
}

// learnLaws notices work that came another way than the orders known here
// would have sent it: by a lane, since its queue has a limit now, or straight,
// since its queue has none any more.
func (l *loop) learnLaws(t *turn, jobs []job.Job) {
	la := l.lanes
	if len(t.Lanes) == 0 && len(la.laws) == 0 {
		return
	}
	for i := range jobs {
		j := &jobs[i]
		if j.Target != "" || j.History.Crashes >= store.SuspectCrashes {
			continue
		}
		switch known := la.laws[j.Queue]; {
		case !j.Begun && !known.limited():
			la.laws[j.Queue] = law{limit: true, strict: known.strict}
			l.lawDue = true
		case j.Begun && known.limited() && !known.strict && !t.lanes.names(j.Queue):
			l.lawDue = true
		}
	}
}

// names reports whether the turn claimed, by name, work of the queue itself.
func (t *laneTurn) names(queue string) bool {
	return slices.ContainsFunc(t.named, func(c named) bool { return c.track.target == store.QueueTarget(queue) })
}
