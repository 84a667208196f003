package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Workers lists the registered processes, oldest first.
func (e *Engine) Workers(ctx context.Context) ([]Worker, error) {
	g := &queueFacts{lease: e.lease}
	var err error
	if g.now, err = e.now(ctx); err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	if g.processes, err = e.store.Processes(ctx); err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	list := make([]Worker, len(g.processes))
	for i := range g.processes {
		list[i] = g.workerOf(&g.processes[i])
	}
	slices.SortFunc(list, func(a, b Worker) int { return cmp.Compare(a.Process, b.Process) })
	return list, nil
}
