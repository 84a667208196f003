package ebb

import (
	"context"
	"fmt"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// Missed says what becomes of the times of a schedule at which no process was
// running.
type Missed = job.Missed

const (
	MissedOnce = job.MissedOnce // one job for all of them; the default
	MissedSkip = job.MissedSkip // none
	MissedAll  = job.MissedAll  // one job each, 1,000 at most
)

// Periodic is a schedule that enqueues a job at its times, once for all
// processes that share the database.
type Periodic struct {
	// Name tells it from others; required.
	Name string
	// Cron has five fields (minute, hour, day of month, month, day of week), or
	// is @hourly, @daily, @weekly, @monthly or @yearly; required.
	Cron string
	// Zone of its times, an IANA name such as Europe/Berlin; UTC if empty.
	Zone   string
	Missed Missed
	// Job is what is enqueued; its DueAt and DeadlineAt must be zero. To have no
	// two of its jobs alive at once, give it a Unique.
	Job Job
}

// Every declares a schedule. It is put into the database when Run begins: a
// new one, or in the place of the one of its name; where cron and zone are
// what they were, it goes on as it was. One that is no longer declared stays:
// see DropPeriodic. Every refuses what makes no sense at once.
func (c *Client) Every(p Periodic) error {
	args, err := encode(p.Job.Args)
	if err != nil {
		return fmt.Errorf("ebb: periodic: %s: args: %w", p.Name, err)
	}
	n := &p.Job
	wish := engine.Periodic{
		Name: p.Name, Cron: p.Cron, Zone: p.Zone, Missed: p.Missed,
		Job: engine.NewJob{
			Kind: n.Kind, Queue: n.Queue, Target: n.Target, Key: n.Key, KeyRule: n.KeyRule,
			Unique: n.Unique, UniqueScope: n.UniqueScope, UniqueFor: n.UniqueFor.Seconds(), OnConflict: n.OnConflict,
			Policy: n.Policy, Priority: n.Priority, DueAt: n.DueAt, DeadlineAt: n.DeadlineAt, Batch: n.Batch, Trace: n.Trace, ArgsBase64: args,
		},
	}
	if err := wish.Check(); err != nil {
		return fmt.Errorf("ebb: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker != nil {
		return fmt.Errorf("ebb: periodic: %s: must be declared before Run", p.Name)
	}
	c.periodics = append(c.periodics, wish)
	return nil
}

// DropPeriodic forgets a schedule. What it has enqueued stays.
func (c *Client) DropPeriodic(ctx context.Context, name string) error {
	if err := c.usable(); err != nil {
		return err
	}
	return told(c.ops().DropPeriodic(ctx, name))
}

// schedule puts the declared schedules into the database.
func (c *Client) schedule(ctx context.Context) error {
	for _, p := range c.periodics {
		if _, err := c.ops().PutPeriodic(ctx, p); err != nil {
			return fmt.Errorf("ebb: %w", err)
		}
	}
	return nil
}
