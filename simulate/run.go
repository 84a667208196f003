package simulate

import (
	"context"
	"fmt"
	"sync"
)

// Run plays the scenario once for each seed. The error is policy.FieldErrors
// (wrapped) for a scenario that cannot be, or the context's cause; ctx is
// looked at now and then, between events.
func Run(ctx context.Context, s Scenario, o Options) (*Result, error) {
	if err := Check(&s); err != nil {
		return nil, fmt.Errorf("simulate: %s: %w", s.Name, err)
	}
	seeds := max(1, o.Seeds)
	if o.Trace != nil && seeds > 1 {
		return nil, fmt.Errorf("simulate: %s: a trace is of one run; set seeds to 1, not %d", s.Name, seeds)
	}
	r := &Result{Scenario: s.Name, About: s.About, Runs: make([]Outcome, seeds)}
	errs := make([]error, seeds)
	c := &crew{next: 0, seeds: seeds, progress: o.Progress}
	var workers sync.WaitGroup
	for range min(max(1, o.Parallel), seeds) {
		workers.Go(func() {
			for i := c.take(); i < seeds; i = c.take() {
				k := newKernel(&s, s.Seed+uint64(i), o.Trace)
				if errs[i] = k.run(ctx, o.MaxEvents); errs[i] != nil {
					return
				}
				r.Runs[i] = k.outcome()
				c.finished()
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	r.Estimates = estimates(r.Runs)
	return r, nil
}

// crew hands out the runs.
type crew struct {
	mu       sync.Mutex
	next     int
	done     int
	seeds    int
	progress func(done, seeds int)
}

func (c *crew) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return c.next - 1
}

func (c *crew) finished() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if c.progress != nil {
		c.progress(c.done, c.seeds)
	}
}
