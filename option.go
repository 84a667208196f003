package ebb

import (
	"fmt"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
	"github.com/ebbhq/ebb/worker"
)

// Option changes how a client works.
type Option func(*worker.Config) error

// WithPolicies adds policies to the presets; one with a preset's name takes
// its place. Run refuses what policy.Enforce refuses.
func WithPolicies(policies ...policy.Policy) Option {
	return func(c *worker.Config) error {
		c.Policies = append(c.Policies, policies...)
		return nil
	}
}

// WithPolicyFile adds the policies of a file.
func WithPolicyFile(path string) Option {
	return func(c *worker.Config) error {
		f, err := file.Load(path)
		if err != nil {
			return fmt.Errorf("ebb: policies: %w", err)
		}
		c.Policies = append(c.Policies, f.Policies()...)
		return nil
	}
}

// WithQueues names the queues that Run takes jobs from; "default" otherwise.
func WithQueues(names ...string) Option {
	return func(c *worker.Config) error {
		c.Queues = names
		return nil
	}
}

// WithConcurrency is how many handlers Run has at work at once; 100 otherwise.
// A policy's own concurrency, 20 in the presets, holds within it.
func WithConcurrency(n int) Option {
	return func(c *worker.Config) error {
		c.Concurrency = n
		return nil
	}
}

// WithClock makes policy time another clock's: in tests, or to watch a day
// pass in a minute.
func WithClock(policyTime clock.Clock) Option {
	return func(c *worker.Config) error {
		c.Clock = policyTime
		return nil
	}
}

// WithWorker changes anything else of the worker that Run makes.
func WithWorker(change func(*worker.Config)) Option {
	return func(c *worker.Config) error {
		change(c)
		return nil
	}
}
