package worker

import "time"

// wantsDue reports whether the store should name the next due time: what is
// due now was claimed, and there is a slot for what comes.
func (l *loop) wantsDue() bool {
	return l.dueStale && l.phase == working && l.process != 0 && l.free() > 0 &&
		!l.limits.claimable(l.now()) && !l.limits.askedSince().IsZero() && !l.seeks()
}

// askDue asks for it.
func (l *loop) askDue() {
	if l.dueAsking || !l.wantsDue() || l.machine().Before(l.pauseUntil) {
		return
	}
	l.dueStale, l.dueAsking = false, true
	l.group.Go(func() {
		ctx, cancel := l.call(l.side)
		defer cancel()
		due, err := l.store.NextDue(ctx, l.config.Queues, l.kinds)
		l.mail.post(func(l *loop) { l.answeredDue(due, err) })
	})
}

// blockedPoll is the time between looks while a job is due that this worker
// cannot claim, because its strict queue is busy or it stands behind many of
// kinds that nobody here knows.
const blockedPoll = time.Second

func (l *loop) answeredDue(due time.Time, err error) {
	l.dueAsking = false
	if err != nil {
		l.dueStale = true
		l.failures++
		l.pauseUntil = l.machine().Add(l.delay(l.failures))
		l.tell(Event{What: Erred, Text: "next due", Err: err})
		return
	}
	l.storeDue = time.Time{}
	since := l.limits.askedSince()
	switch now := l.now(); {
	case due.IsZero():
	case due.After(now):
		l.storeDue = due
	case due.After(since):
		l.wake() // it became due after the last claim
	case l.storeClock && due.After(since.Add(-clockError)):
		l.storeDue = now.Add(clockError / 10) // perhaps it did, by the store's clock
	default:
		if soon := l.machine().Add(blockedPoll); soon.Before(l.pollAt) {
			l.pollAt = soon
		}
	}
}

// clockError is how well the store's clock is known.
const clockError = 20 * time.Millisecond
