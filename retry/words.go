package retry

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// String tells the decision in words, as logs and `ebb job why` print it.
func (d Decision) String() string {
	why := fmt.Sprintf("%s by rule %s", d.Class, d.Rule)
	if d.Version != "" {
		why += " of policy version " + d.Version
	}
	switch d.Action {
	case policy.Retry, policy.PauseTarget:
		return fmt.Sprintf("%s after %s (%s): %s", d.Action, round(d.Delay), d.cost(), why)
	default:
		return fmt.Sprintf("%s (%s): %s", d.Action, d.Cause, why)
	}
}

func (d Decision) cost() string {
	text := fmt.Sprintf("%d attempts spent", d.Next.Attempts)
	if d.Next.Attempts == 1 {
		text = "1 attempt spent"
	}
	switch d.Counted {
	case CountedFree:
		text = "free, " + text
	case CountedApart:
		text = "counted apart, " + text
	}
	if d.Floored {
		text += ", as long as the target asked"
	}
	return text
}

func round(d time.Duration) string {
	if d >= time.Minute {
		d = d.Round(time.Second)
	} else if d >= time.Second {
		d = d.Round(10 * time.Millisecond)
	}
	return policy.FormatDuration(d)
}
