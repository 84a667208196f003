package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// Periodic is a schedule that enqueues a job at its times, once for all
// processes.
type Periodic struct {
	Name string `json:"name"`
	// Cron has five fields (minute, hour, day of month, month, day of week), or
	// is @hourly, @daily, @weekly, @monthly or @yearly.
	Cron string `json:"cron"`
	Zone string `json:"zone,omitempty"` // IANA name; empty = UTC
	// Missed says what becomes of times at which no worker ran: once (the
	// default; one job for all of them), skip or all (1,000 at most).
	Missed job.Missed `json:"missed,omitempty"`
	Job    NewJob     `json:"job"`
	NextAt time.Time  `json:"next_at,omitzero"` // answers only
	LastAt time.Time  `json:"last_at,omitzero"` // the last time fired; answers only
}

// Periodics lists the schedules by name.
func (e *Engine) Periodics(ctx context.Context) ([]Periodic, error) {
	rows, err := e.store.Periodics(ctx)
	if err != nil {
		return nil, fmt.Errorf("periodic: %w", err)
	}
	list := make([]Periodic, len(rows))
	for i := range rows {
		list[i] = periodicOf(&rows[i])
	}
	return list, nil
}

// PutPeriodic adds a schedule or replaces the one of its name. Where cron and
// zone stay, the next time stays too.
func (e *Engine) PutPeriodic(ctx context.Context, p Periodic) (Periodic, error) {
	now, err := e.now(ctx)
	if err != nil {
		return Periodic{}, fmt.Errorf("periodic: %s: %w", p.Name, err)
	}
	row, err := p.row(now)
	if err != nil {
		return Periodic{}, err
	}
	if err := e.store.PutPeriodic(ctx, e.storeNow(), e.by(ctx), row); err != nil {
		return Periodic{}, fmt.Errorf("periodic: %s: %w", p.Name, err)
	}
	all, err := e.Periodics(ctx)
	if err != nil {
		return Periodic{}, err
	}
	for i := range all {
		if all[i].Name == p.Name {
			return all[i], nil
		}
	}
	return Periodic{}, fmt.Errorf("periodic: %s: %w", p.Name, ErrNotFound) // dropped meanwhile
}

// Check refuses a schedule that makes no sense.
func (p *Periodic) Check() error {
	_, err := p.row(time.Unix(0, 0))
	return err
}

// row checks a schedule and tells its first time.
func (p *Periodic) row(now time.Time) (store.Periodic, error) {
	if err := checkName("periodic", p.Name, maxName); err != nil {
		return store.Periodic{}, err
	}
	row := store.Periodic{Name: p.Name, Cron: p.Cron, Zone: p.Zone, Missed: unless(p.Missed, "once")}
	switch row.Missed {
	case job.MissedOnce, job.MissedSkip, job.MissedAll:
	default:
		return row, invalid("periodic: %s: missed %q: want once, skip or all", p.Name, p.Missed)
	}
	if !p.Job.DueAt.IsZero() || !p.Job.DeadlineAt.IsZero() {
		return row, invalid("periodic: %s: its jobs are due at its times: leave due_at and deadline_at out", p.Name)
	}
	prepared, err := p.Job.prepare(now)
	if err != nil {
		return row, invalid("periodic: %s: %v", p.Name, err)
	}
	prepared.DueAt = time.Time{}
	row.Job = prepared
	if row.NextAt, err = worker.NextTime(p.Cron, p.Zone, now); err != nil {
		return row, invalid("periodic: %s: %s", p.Name, strings.TrimPrefix(err.Error(), "worker: schedule: "))
	}
	return row, nil
}

// DropPeriodic forgets a schedule. What it has enqueued stays.
func (e *Engine) DropPeriodic(ctx context.Context, name string) error {
	switch err := e.store.DropPeriodic(ctx, e.storeNow(), e.by(ctx), name); {
	case errors.Is(err, ErrNotFound):
		return &unknownError{text: fmt.Sprintf("periodic: %s: no such schedule", name)}
	case err != nil:
		return fmt.Errorf("periodic: %s: %w", name, err)
	}
	return nil
}

func periodicOf(p *store.Periodic) Periodic {
	n := &p.Job
	out := Periodic{
		Name: p.Name, Cron: p.Cron, Zone: p.Zone, Missed: p.Missed, NextAt: utc(p.NextAt), LastAt: utc(p.LastAt),
		Job: NewJob{
			Kind: n.Kind, Queue: n.Queue, Target: n.Target, Key: n.Key, KeyRule: n.KeyRule,
			Unique: n.Unique, UniqueScope: n.UniqueScope, UniqueFor: n.UniqueFor.Seconds(), OnConflict: n.Conflict,
			Policy: n.Policy, Priority: n.Priority, Batch: n.Batch, Trace: n.Trace,
		},
	}
	out.Job.Args, out.Job.ArgsBase64 = payload(n.Args)
	return out
}
