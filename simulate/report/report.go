// Package report tells what a simulation found: in a terminal, as JSON, and as
// one self-contained HTML page that a reviewer can read in a pull request. A
// report has one case for each policy or variant that was run; all charts of a
// report share their scales.
package report

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/simulate"
)

// maxColours is how many cases one chart can tell apart.
const maxColours = 6

// Case is one scenario that was run.
type Case struct {
	Name, About string
	Scenario    simulate.Scenario
	Result      *simulate.Result

	dead *tally // dead letters of the first seed over time, by cause
}

// Report is what is told together.
type Report struct {
	Name, About string
	Cases       []Case
	// From and To are the cases that are compared: what was, and what came
	// instead. The same number twice = no two cases are set against each
	// other.
	From, To int
}

// Options say how a case is played.
type Options struct {
	simulate.Options
	// Watch is called with the virtual time of every step of the first run,
	// if not nil.
	Watch func(at time.Duration)
}

// Play runs a scenario and returns its case.
func Play(ctx context.Context, name, about string, s simulate.Scenario, opts Options) (Case, error) {
	o := opts.Options
	c := Case{Name: name, About: about, Scenario: s, dead: &tally{}}
	first := o
	first.Seeds, first.Parallel, first.Trace = 1, 1, c.dead.note
	if opts.Watch != nil {
		first.Trace = func(e simulate.Event) {
			c.dead.note(e)
			opts.Watch(e.At)
		}
	}
	if o.Seeds > 1 {
		first.Progress = nil
	}
	result, err := simulate.Run(ctx, s, first)
	if err == nil && o.Seeds > 1 {
		result, err = simulate.Run(ctx, s, o)
	}
	c.Result = result
	return c, err
}

// compared reports whether two cases are set against each other.
func (r *Report) compared() bool { return r.From != r.To }

// charted lists the cases that charts show: the two that are compared, or
// all, as far as colours go.
func (r *Report) charted() []*Case {
	if r.compared() {
		return []*Case{&r.Cases[min(r.From, r.To)], &r.Cases[max(r.From, r.To)]}
	}
	var list []*Case
	for i := range r.Cases[:min(len(r.Cases), maxColours)] {
		list = append(list, &r.Cases[i])
	}
	return list
}

// shares says how much of the step from From to To in dead letters each other
// case makes alone; nil where nothing is compared or the two do not differ.
// The shares need not add up to 1: changes work together, or against each
// other.
func (r *Report) shares() []float64 {
	if !r.compared() {
		return nil
	}
	from, to := r.Cases[r.From].total().deadShare(), r.Cases[r.To].total().deadShare()
	if from == to {
		return nil
	}
	list := make([]float64, len(r.Cases))
	for i := range r.Cases {
		list[i] = (r.Cases[i].total().deadShare() - from) / (to - from)
	}
	return list
}

// tally counts dead letters by cause in buckets of equal width, which doubles
// when there would be more than simulate.MaxBuckets.
type tally struct {
	width  float64 // seconds
	causes []string
	counts [][]int64
}

func (t *tally) note(e simulate.Event) {
	if e.Kind != simulate.Finish || e.OK {
		return
	}
	if t.width == 0 {
		t.width = 1
	}
	at := e.At.Seconds()
	for at/t.width >= simulate.MaxBuckets {
		t.widen()
	}
	row := t.row(string(e.Cause))
	for len(t.counts[row]) <= int(at/t.width) {
		t.counts[row] = append(t.counts[row], 0)
	}
	t.counts[row][int(at/t.width)]++
}

func (t *tally) row(cause string) int {
	for i, c := range t.causes {
		if c == cause {
			return i
		}
	}
	t.causes = append(t.causes, cause)
	t.counts = append(t.counts, nil)
	return len(t.causes) - 1
}

func (t *tally) widen() {
	t.width *= 2
	for i, row := range t.counts {
		half := make([]int64, (len(row)+1)/2)
		for j, n := range row {
			half[j/2] += n
		}
		t.counts[i] = half
	}
}
