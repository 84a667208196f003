package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Outcome is where a URL stands in the account of a fetch.
type Outcome string

const (
	OK        Outcome = "ok"        // fetched and kept
	Unchanged Outcome = "unchanged" // the server says that what we have still holds
	Permanent Outcome = "permanent" // the same request would fail again
	Soft      Outcome = "soft"      // an error page that says 200, or a page without content; quarantined
	Robots    Outcome = "robots"    // robots.txt forbids it
	Exhausted Outcome = "exhausted" // tries and waves are used up
	Parked    Outcome = "parked"    // waits for a person
	Cancelled Outcome = "cancelled" // told not to
	Pending   Outcome = "pending"   // not done yet
)

// Outcomes lists all, in the order of reports.
func Outcomes() []Outcome {
	return []Outcome{OK, Unchanged, Permanent, Soft, Robots, Exhausted, Parked, Cancelled, Pending}
}

// outcomeOf puts a job into the account.
func outcomeOf(state job.State, cause job.Cause, class failure.Class, unchanged bool) Outcome {
	switch state {
	case job.Succeeded:
		if unchanged {
			return Unchanged
		}
		return OK
	case job.Parked:
		return Parked
	case job.Cancelled:
		return Cancelled
	case job.Failed:
	default:
		return Pending
	}
	switch {
	case class == failure.PolicyDenied:
		return Robots
	case class == failure.SoftError || class == failure.Empty:
		return Soft
	case cause == retry.CauseFatal:
		return Permanent
	}
	return Exhausted
}

// Tally is the account of a fetch.
type Tally struct {
	Input     int64 `json:"input"` // all URLs: of the input, and found by following links
	OK        int64 `json:"ok"`
	Unchanged int64 `json:"unchanged"`
	Permanent int64 `json:"permanent"`
	Soft      int64 `json:"soft"`
	Robots    int64 `json:"robots"`
	Exhausted int64 `json:"exhausted"`
	Parked    int64 `json:"parked"`
	Cancelled int64 `json:"cancelled"`
	Pending   int64 `json:"pending"`
}

func (t *Tally) of(o Outcome) *int64 {
	switch o {
	case OK:
		return &t.OK
	case Unchanged:
		return &t.Unchanged
	case Permanent:
		return &t.Permanent
	case Soft:
		return &t.Soft
	case Robots:
		return &t.Robots
	case Exhausted:
		return &t.Exhausted
	case Parked:
		return &t.Parked
	case Cancelled:
		return &t.Cancelled
	}
	return &t.Pending
}

// Of returns how many URLs have the outcome.
func (t Tally) Of(o Outcome) int64 { return *t.of(o) }

// ErrUnbalanced says that the account does not add up: URLs were lost or
// counted twice. It is a fault of Ebb.
var ErrUnbalanced = errors.New("fetch: the account does not add up")

// Check holds that every URL of the input has exactly one outcome.
func (t Tally) Check() error {
	var sum int64
	for _, o := range Outcomes() {
		sum += t.Of(o)
	}
	if sum != t.Input {
		return fmt.Errorf("%w: %d URLs, but outcomes of %d", ErrUnbalanced, t.Input, sum)
	}
	return nil
}

// Here is how many pages are here.
func (t Tally) Here() int64 { return t.OK + t.Unchanged }

// Share is the part of the input that is here; 1 where there was none.
func (t Tally) Share() float64 {
	if t.Input == 0 {
		return 1
	}
	return float64(t.OK+t.Unchanged) / float64(t.Input)
}

// Books is where the account of a fetch is read.
type Books interface {
	store.Reader
	store.Records
}

// Count makes the account of a fetch and checks that it adds up. It takes what
// is counted already: the jobs of each state, the failures by what went wrong,
// and what the processes wrote down of pages that had not changed. No page is
// read, whatever their number. While a fetch of pages known before is under
// way, what it found unchanged in the last second may still be among ok.
func Count(ctx context.Context, s Books, f *Fetch) (Tally, error) {
	counts, err := countsOf(ctx, s, f.Queue())
	if err != nil {
		return Tally{}, err
	}
	if f.Tally != nil && f.Tally.agrees(f, counts) {
		return *f.Tally, f.Tally.Check()
	}
	t, err := counted(ctx, s, f, counts)
	if err != nil {
		return t, err
	}
	if f.compares() {
		sum, _, err := seenOf(ctx, s, f.ID)
		if err != nil {
			return t, err
		}
		t.Unchanged = min(sum.Unchanged, t.OK)
		t.OK -= t.Unchanged
	}
	return t, t.Check()
}

// agrees holds an account that was written down against the counters: somebody
// may have queued or cancelled pages since.
func (t *Tally) agrees(f *Fetch, counts map[job.State]int64) bool {
	return t.Here() == counts[job.Succeeded]-f.Recalled &&
		t.Permanent+t.Soft+t.Robots+t.Exhausted == counts[job.Failed] &&
		t.Parked == counts[job.Parked] && t.Cancelled == counts[job.Cancelled] &&
		t.Pending == counts[job.Queued]+counts[job.Running]
}

// counted is the account by what the store counts: ok is all that succeeded.
func counted(ctx context.Context, s store.Reader, f *Fetch, counts map[job.State]int64) (Tally, error) {
	t := Tally{
		Input: total(counts) - f.Recalled, OK: counts[job.Succeeded] - f.Recalled, Parked: counts[job.Parked],
		Cancelled: counts[job.Cancelled], Pending: counts[job.Queued] + counts[job.Running],
	}
	if !f.Follows && f.Phase != Loading {
		t.Input = f.Input
	}
	if counts[job.Failed] == 0 {
		return t, nil
	}
	groups, err := s.Groups(ctx, store.Filter{State: job.Failed, Queue: f.Queue()}, maxGroups)
	if err != nil {
		return t, fmt.Errorf("fetch: failures: %w", err)
	}
	for _, g := range groups {
		*t.of(outcomeOf(job.Failed, g.Cause, g.Class, false)) += g.Count
	}
	return t, nil
}

// settle makes the account of a fetch that has ended. Where a process was
// killed before it had written down what it saw, or pages were taken back, the
// pages themselves are asked whether they had changed.
func settle(ctx context.Context, s Books, f *Fetch) (Tally, error) {
	if !f.compares() {
		return Count(ctx, s, f)
	}
	counts, err := countsOf(ctx, s, f.Queue())
	if err != nil {
		return Tally{}, err
	}
	sum, _, err := seenOf(ctx, s, f.ID)
	if err != nil {
		return Tally{}, err
	}
	if len(f.SameBody) == 0 && sum.Pages == counts[job.Succeeded] {
		return Count(ctx, s, f)
	}
	t, err := counted(ctx, s, f, counts)
	if err != nil {
		return t, err
	}
	t.OK = 0
	err = Each(ctx, s, f, job.Succeeded, func(p Page) error {
		*t.of(p.Outcome)++
		return nil
	})
	if err != nil {
		return t, err
	}
	return t, t.Check()
}

// Page is one URL of a fetch, for reports.
type Page struct {
	Job     job.Job
	Args    pageArgs
	Kept    Kept // of what was fetched
	Outcome Outcome

	replaced bool // its URL has a job anew: see recall
}

// pageOf reads a job back.
func pageOf(f *Fetch, j job.Job) (Page, error) {
	p := Page{Job: j}
	if err := json.Unmarshal(j.Args, &p.Args); err != nil {
		return p, fmt.Errorf("fetch: job %s: %w", j.ID(), err)
	}
	if len(j.Result) > 0 {
		if err := json.Unmarshal(j.Result, &p.Kept); err != nil {
			return p, fmt.Errorf("fetch: job %s: result: %w", j.ID(), err)
		}
	}
	p.Outcome = outcomeOf(j.State, j.Cause, j.LastClass, p.Kept.Unchanged)
	p.replaced = j.State == job.Succeeded && slices.Contains(f.SameBody, p.Kept.SHA256)
	return p, nil
}

// Each calls do for every page of the fetch in the state; of any state if it
// is empty. The newest come first.
func Each(ctx context.Context, s store.Reader, f *Fetch, state job.State, do func(Page) error) error {
	return eachRow(ctx, s, f, state, func(p Page) error {
		if p.replaced {
			return nil
		}
		return do(p)
	})
}

// eachRow is Each of every job, those included that were replaced.
func eachRow(ctx context.Context, s store.Reader, f *Fetch, state job.State, do func(Page) error) error {
	const most = 250
	for page := (store.Page{Limit: most}); ; {
		jobs, err := s.List(ctx, store.Filter{State: state, Batch: f.ID}, page)
		if err != nil {
			return fmt.Errorf("fetch: %s: %w", f.ID, err)
		}
		for _, j := range jobs {
			p, err := pageOf(f, j)
			if err != nil {
				return err
			}
			if err := do(p); err != nil {
				return err
			}
		}
		if len(jobs) < most {
			return nil
		}
		page.Before = jobs[len(jobs)-1].Seq
	}
}
