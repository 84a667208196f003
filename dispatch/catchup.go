package dispatch

import "time"

// catchUp is what a target's overdue retries have done of late. It outlives
// the target's lane, and is made only for targets that had overdue retries
// when the process was born.
type catchUp struct {
	active bool        // one was overdue by more than CatchUpAfter
	starts []time.Time // of overdue retries within the last CatchUpEvery, oldest first
}

func (f *Floor) catchUpOf(target string) *catchUp {
	c := f.catchUps[target]
	if c == nil {
		c = &catchUp{}
		f.catchUps[target] = c
	}
	return c
}

// holds returns until when the target's next overdue retry must wait; zero if
// it need not.
func (c *catchUp) holds(batch int, now time.Time) time.Time {
	if !c.active || batch <= 0 || len(c.starts) < batch {
		return time.Time{}
	}
	if until := c.starts[len(c.starts)-batch].Add(CatchUpEvery); until.After(now) {
		return until
	}
	return time.Time{}
}

func (c *catchUp) started(now time.Time) {
	old := 0
	for old < len(c.starts) && !c.starts[old].Add(CatchUpEvery).After(now) {
		old++
	}
	c.starts = append(c.starts[:0], c.starts[old:]...)
	c.starts = append(c.starts, now)
}
