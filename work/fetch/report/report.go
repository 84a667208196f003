// Package report answers "is it complete?": the account of a fetch in numbers
// that must add up, with the reasons for what is missing, as text, Markdown,
// JSON and one HTML page, and the manifest of failures. It knows plain values
// alone.
package report

import (
	"fmt"
	"time"
)

// Outcome is where a URL stands in the account.
type Outcome string

const (
	OK        Outcome = "ok"
	Unchanged Outcome = "unchanged"
	Permanent Outcome = "permanent"
	Soft      Outcome = "soft"
	Robots    Outcome = "robots"
	Exhausted Outcome = "exhausted"
	Parked    Outcome = "parked"
	Cancelled Outcome = "cancelled"
	Pending   Outcome = "pending"
)

// Outcomes are all, in the order of reports.
var Outcomes = []Outcome{OK, Unchanged, Permanent, Soft, Robots, Exhausted, Parked, Cancelled, Pending}

// meaning tells an outcome in words.
var meaning = map[Outcome]string{
	OK:        "fetched and kept",
	Unchanged: "what was here still holds, says the server",
	Permanent: "would fail the same way again",
	Soft:      "error pages with status 200, or pages without content",
	Robots:    "forbidden by robots.txt",
	Exhausted: "tries and waves are used up",
	Parked:    "wait for a person",
	Cancelled: "told not to",
	Pending:   "not done yet",
}

// Good reports whether the page is here.
func (o Outcome) Good() bool { return o == OK || o == Unchanged }

// Reason is one cause of outcomes that are not good.
type Reason struct {
	Outcome Outcome `json:"outcome"`
	Class   string  `json:"class,omitempty"`
	Reason  string  `json:"reason"`
	Count   int64   `json:"count"`
	Example string  `json:"example,omitempty"` // a URL
}

// Wave is one further pass over what failed; Number 0 is the first pass.
type Wave struct {
	Number      int           `json:"number"`
	Planned     int64         `json:"planned"`
	Tried       int64         `json:"tried"`
	Recovered   int64         `json:"recovered"`
	Cooldown    time.Duration `json:"cooldown_ns"`
	Concurrency int           `json:"concurrency"`
	Spacing     time.Duration `json:"spacing_ns"`
	StartedAt   time.Time     `json:"started_at,omitzero"`
	EndedAt     time.Time     `json:"ended_at,omitzero"`
}

// Column is a context column of the input with its value.
type Column struct {
	Name  string
	Value string
}

// Failure is one URL that is not here.
type Failure struct {
	URL     string
	Outcome Outcome
	Class   string
	Reason  string
	Status  int // of HTTP; 0 = none
	Starts  int // how often it was tried, over all waves
	Wave    int // the last it was tried in
	At      time.Time
	Context []Column
}

// Report is all that is told of a fetch.
type Report struct {
	Name      string // what people call it: a directory, a host
	ID        string
	Policy    string
	Version   string // of the policy
	StartedAt time.Time
	EndedAt   time.Time // zero while it runs

	Input    int64 // distinct URLs
	Repeated int64 // what the input named again
	Counts   map[Outcome]int64
	// Followed says that links are followed: that pages found this way do not
	// exist, or are not ours to read, leaves the fetch complete.
	Followed bool
	Bytes    int64 // of pages fetched in this fetch
	Requests int64 // sent, robots.txt and probes included; 0 = not known

	Reasons    []Reason
	Waves      []Wave
	Stopped    string // why there was no further wave
	Comparison *Comparison
	Waivers    []string // what was undercut, and why
	Notes      []string

	// Failures calls do for every URL that is not here, in a stable order; nil
	// if there are none. It may be called several times.
	Failures func(do func(Failure) error) error
	// Columns are the names of context columns, in the input's order.
	Columns []string
	// Manifest is the name of the file with all failures, for pages that show
	// only the first.
	Manifest string
}

// Check holds that the account adds up.
func (r *Report) Check() error {
	var sum int64
	for _, o := range Outcomes {
		if r.Counts[o] < 0 {
			return fmt.Errorf("report: %d URLs are %s: want 0 or more", r.Counts[o], o)
		}
		sum += r.Counts[o]
	}
	for o := range r.Counts {
		if meaning[o] == "" {
			return fmt.Errorf("report: outcome %q: not one of %v", o, Outcomes)
		}
	}
	if sum != r.Input {
		return fmt.Errorf("report: the account does not add up: %d URLs, but outcomes of %d", r.Input, sum)
	}
	return nil
}

// Here is how many pages are here.
func (r *Report) Here() int64 { return r.Counts[OK] + r.Counts[Unchanged] }

// Share is the part of the input that is here; 1 where there was none.
func (r *Report) Share() float64 {
	if r.Input == 0 {
		return 1
	}
	return float64(r.Here()) / float64(r.Input)
}

// Complete reports whether all that there was to get is here.
func (r *Report) Complete() bool {
	if r.Followed {
		return r.Here() > 0 && r.Here()+r.Counts[Permanent]+r.Counts[Robots] == r.Input
	}
	return r.Here() == r.Input
}

// State is the one word of the headline.
func (r *Report) State() string {
	switch {
	case r.Counts[Pending] > 0 && r.EndedAt.IsZero():
		return "running"
	case r.Complete():
		return "complete"
	case r.Counts[Parked] > 0:
		return "parked"
	}
	return "incomplete"
}

// Headline is the report in one sentence.
func (r *Report) Headline() string {
	pages := "pages are"
	if r.Input == 1 {
		pages = "page is"
	}
	return fmt.Sprintf("%s: %s of %s %s here (%s)", r.State(), number(r.Here()), number(r.Input), pages, percent(r.Share()))
}

// shown are the failures that a page shows, and how many there are.
func (r *Report) shown(limit int) (first []Failure, total int64, err error) {
	if r.Failures == nil {
		return nil, 0, nil
	}
	err = r.Failures(func(f Failure) error {
		if total++; total <= int64(limit) {
			first = append(first, f)
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("report: failures: %w", err)
	}
	return first, total, nil
}

// context are the failure's values in the order of the report's columns.
func (r *Report) context(f *Failure) []string {
	values := make([]string, len(r.Columns))
	for i, name := range r.Columns {
		for _, c := range f.Context {
			if c.Name == name {
				values[i] = c.Value
				break
			}
		}
	}
	return values
}
