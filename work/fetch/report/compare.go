package report

import "fmt"

// Level says how a fetch stands beside the one before.
type Level string

const (
	Fine     Level = "fine"
	Warn     Level = "warning"
	Critical Level = "critical"
)

// Below these shares of what the fetch before had, something is missing that
// no failure tells of: pages that vanished from the input, or turned empty.
const (
	WarnUnder     = 0.80
	CriticalUnder = 0.70
)

// Comparison is a fetch beside the one before.
type Comparison struct {
	Previous string  `json:"previous"` // its id
	Before   int64   `json:"before"`   // pages that it had
	Now      int64   `json:"now"`
	Ratio    float64 `json:"ratio"`
	Level    Level   `json:"level"`
	// Lost and Gained count URLs that only one of the two has; -1 = not counted.
	Lost   int64 `json:"lost"`
	Gained int64 `json:"gained"`
}

// Compare judges two counts of pages. A fetch before that had none says
// nothing.
func Compare(previous string, before, now int64) *Comparison {
	c := &Comparison{Previous: previous, Before: before, Now: now, Ratio: 1, Level: Fine, Lost: -1, Gained: -1}
	if before > 0 {
		c.Ratio = float64(now) / float64(before)
	}
	switch {
	case c.Ratio < CriticalUnder:
		c.Level = Critical
	case c.Ratio < WarnUnder:
		c.Level = Warn
	}
	return c
}

func (c *Comparison) String() string {
	text := fmt.Sprintf("%s pages are here, %s of the %s that %s had", number(c.Now), percent(c.Ratio), number(c.Before), c.Previous)
	switch c.Level {
	case Critical:
		text = fmt.Sprintf("critical (under %s): ", percent(CriticalUnder)) + text
	case Warn:
		text = fmt.Sprintf("warning (under %s): ", percent(WarnUnder)) + text
	}
	if c.Lost >= 0 && c.Gained >= 0 {
		text += fmt.Sprintf("; %s that it had are gone, %s are new", number(c.Lost), number(c.Gained))
	}
	return text
}
