package demo

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/worker"
)

// counts is what the workers told: by kind of job.
type counts struct {
	mu     sync.Mutex
	byKind map[string]*count
}

// count is what happened to the jobs of a kind.
type count struct {
	succeeded, failed, parked int
	classes                   map[string]int // of failures on the way
	delays                    []time.Duration
}

func newCounts() *counts { return &counts{byKind: map[string]*count{}} }

func (c *counts) of(kind string) *count {
	k := c.byKind[kind]
	if k == nil {
		k = &count{classes: map[string]int{}}
		c.byKind[kind] = k
	}
	return k
}

// observe is worker.Config.Observe.
func (c *counts) observe(e worker.Event) {
	n := 1
	switch e.What {
	case worker.Settled:
	case worker.Ended:
		n = e.Count
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.of(e.Job.Kind)
	switch e.To {
	case job.Succeeded:
		k.succeeded++
	case job.Failed:
		k.failed += n
	case job.Parked:
		k.parked += n
	}
	if e.To == job.Succeeded || e.What == worker.Ended {
		return
	}
	k.classes[e.Failure.Class.String()]++
	if e.To == job.Queued {
		k.delays = append(k.delays, e.Decision.Delay)
	}
}

// seen copies the count of a kind.
func (c *counts) seen(kind string) count {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := *c.of(kind)
	k.delays = slices.Clone(k.delays)
	copied := map[string]int{}
	for class, n := range k.classes {
		copied[class] = n
	}
	k.classes = copied
	return k
}

// failures says what went wrong on the way, most first.
func (k *count) failures() string {
	var names []string
	for class := range k.classes {
		names = append(names, class)
	}
	slices.SortFunc(names, func(a, b string) int { return k.classes[b] - k.classes[a] })
	for i, class := range names {
		names[i] = fmt.Sprintf("%d %s", k.classes[class], class)
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// retries says how many there were and when.
func (k *count) retries() string {
	if len(k.delays) == 0 {
		return "no retries"
	}
	return fmt.Sprintf("%d retries after %s to %s", len(k.delays),
		policy.FormatDuration(slices.Min(k.delays).Round(time.Second)), policy.FormatDuration(slices.Max(k.delays).Round(time.Second)))
}
