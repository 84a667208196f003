package simulate

import (
	"context"
	"errors"
	"fmt"
)

// Run plays the scenario once for each seed. The error is policy.FieldErrors
// (wrapped) for a scenario that cannot be, or the context's cause; ctx is
// looked at now and then, between events.
func Run(ctx context.Context, s Scenario, o Options) (*Result, error) {
	if err := Check(&s); err != nil {
		return nil, fmt.Errorf("simulate: %s: %w", s.Name, err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	_ = o
	return nil, errors.New("simulate: the kernel is being built")
}
