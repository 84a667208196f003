package ebb

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// KeyRule says what becomes of a key's later jobs when one has failed.
type KeyRule = job.KeyRule

const (
	KeyBlock = job.KeyBlock // they wait until it is retried, cancelled or dropped; the default
	KeySkip  = job.KeySkip  // the next one goes
	KeyPark  = job.KeyPark  // they are parked, cause head_failed
)

// UniqueScope says among which jobs a unique key is compared.
type UniqueScope = job.UniqueScope

const (
	UniqueEverywhere = job.UniqueEverywhere // all jobs of the database; the default
	UniqueInQueue    = job.UniqueInQueue    // jobs of the queue
	UniqueInKind     = job.UniqueInKind     // jobs of the kind
)

// Conflict says what an enqueue does whose unique key is taken.
type Conflict = job.Conflict

const (
	KeepExisting    = job.ConflictKeep    // nothing is added; the answer names the job there is; the default
	ReplaceExisting = job.ConflictReplace // the job there is gets the new arguments and times, if it has not started
	RefuseConflict  = job.ConflictRefuse  // the whole enqueue fails with ErrUnique
)

// ErrUnique is returned by an enqueue with RefuseConflict whose unique key is
// taken.
var ErrUnique = store.ErrUnique

// QueueLimit bounds a queue over all processes that share the database; zero
// parts do not.
type QueueLimit struct {
	Concurrency int     // jobs at once
	Rate        float64 // starts a second
}

// actor is who the audit names for orders of a program.
const actor = "library"

// ops is what operators ask, as this client.
func (c *Client) ops() *engine.Engine {
	return engine.New(c.store, nil, engine.Config{Clock: c.config.Clock, Actor: actor, Lease: c.config.Lease})
}

// told names the library before what an operator's order met.
func told(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ebb: %w", err)
}

// PauseTarget starts nothing that calls the target, in any process, before
// until; the zero time means until it is resumed. What runs already runs on.
// It is for what a program knows better than a breaker: a maintenance window,
// a revoked key.
func (c *Client) PauseTarget(ctx context.Context, target string, until time.Time) error {
	if err := c.usable(); err != nil {
		return err
	}
	_, err := c.ops().PauseTarget(ctx, target, until)
	return told(err)
}

// ResumeTarget ends a pause of the target and its being disabled. What was
// parked because it was down or disabled comes back in its order, carried out
// by running workers. If breaker or Retry-After hold it, it is called now, as
// the probe.
func (c *Client) ResumeTarget(ctx context.Context, target string) error {
	if err := c.usable(); err != nil {
		return err
	}
	if _, err := c.ops().ResumeTarget(ctx, target, false); err != nil {
		return told(err)
	}
	c.wake()
	return nil
}

// ProbeTarget lets the next call to a target that its breaker or a Retry-After
// holds go out now, as the probe that decides. It is refused while the target is
// paused or disabled.
func (c *Client) ProbeTarget(ctx context.Context, target string) error {
	if err := c.usable(); err != nil {
		return err
	}
	if _, err := c.ops().ProbeTarget(ctx, target); err != nil {
		return told(err)
	}
	c.wake()
	return nil
}

// CloseTarget closes the breaker of a target that is known to be well, and ends
// a pause that the target asked for. What was parked because it was down comes
// back in its order, carried out by running workers.
func (c *Client) CloseTarget(ctx context.Context, target string) error {
	if err := c.usable(); err != nil {
		return err
	}
	if _, err := c.ops().CloseTarget(ctx, target); err != nil {
		return told(err)
	}
	c.wake()
	return nil
}

// LimitQueue bounds a queue over all processes, from now on and for as long as
// nobody changes it; the zero limit ends that. Jobs with a target are bounded
// by their target's policy instead.
func (c *Client) LimitQueue(ctx context.Context, queue string, l QueueLimit) error {
	if err := c.usable(); err != nil {
		return err
	}
	_, err := c.ops().LimitQueue(ctx, queue, engine.QueueLimit{Concurrency: l.Concurrency, Rate: l.Rate})
	if err == nil {
		c.wake()
	}
	return told(err)
}

// PauseKind starts nothing of a kind, in any queue or process, until it is
// resumed.
func (c *Client) PauseKind(ctx context.Context, kind string) error {
	if err := c.usable(); err != nil {
		return err
	}
	_, err := c.ops().PauseKind(ctx, kind)
	return told(err)
}

// ResumeKind lets a paused kind go on.
func (c *Client) ResumeKind(ctx context.Context, kind string) error {
	if err := c.usable(); err != nil {
		return err
	}
	if _, err := c.ops().ResumeKind(ctx, kind); err != nil {
		return told(err)
	}
	c.wake()
	return nil
}
