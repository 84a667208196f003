package worker

import (
	"time"

	"github.com/ebbhq/ebb/store"
)

// noticeEvery is the least time between two readings of gates. Machine time.
const noticeEvery = 100 * time.Millisecond

// Work of a lane that its gate holds goes back to the store, and the claim that
// brings it again brings the gate too. The head of a strict queue and a job in
// the slot that it kept stay here instead, so nothing tells this process that
// somebody else has changed their gate: a person who orders a probe, resumes the
// target or closes its breaker. So those gates are read when the store wakes
// this process, and with every poll.

// askGates reads the gates that such work waits for, if something may have
// changed.
func (l *loop) askGates() {
	machine := l.machine()
	if l.gatesAsking || !l.gatesDue || l.phase != working || machine.Before(l.gatesAt) || machine.Before(l.pauseUntil) {
		return
	}
	l.gatesDue = false
	targets := l.awaited()
	if len(targets) == 0 {
		return
	}
	l.gatesAsking, l.gatesAt = true, machine.Add(noticeEvery)
	l.group.Go(func() {
		ctx, cancel := l.call(l.side)
		defer cancel()
		gates, err := l.store.Gates(ctx, targets)
		l.mail.post(func(l *loop) { l.answeredGates(gates, err) })
	})
}

func (l *loop) answeredGates(gates []store.Gate, err error) {
	l.gatesAsking = false
	if err != nil {
		l.failures++
		l.pauseUntil = l.machine().Add(l.delay(l.failures))
		l.gatesDue = true
		l.tell(Event{What: Erred, Text: "gates", Err: err})
		return
	}
	l.seeGates(gates)
}

// awaited lists the targets that refused work which stays here.
func (l *loop) awaited() []string {
	var targets []string
	seen := make(map[*booth]bool)
	add := func(n *track) {
		for _, b := range n.booths {
			if (b.asked[0] || b.asked[1]) && !seen[b] {
				seen[b] = true
				targets = append(targets, b.target)
			}
		}
	}
	for _, r := range l.kept {
		if r.entry != nil && r.entry.kept {
			add(r.entry.track)
		}
	}
	if l.lanes.staying {
		for _, n := range l.lanes.order {
			if len(n.runs) > 0 && n.runs[0].entry.stays {
				add(n)
			}
		}
	}
	return targets
}
