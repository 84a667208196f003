package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

const (
	actPauseTarget  = "target.pause"
	actResumeTarget = "target.resume"
	// swapTries is how often an order is given anew when the gate has moved
	// under it. Each lost swap means that somebody else's was done.
	swapTries = 50
)

// Resumed is a target that was told to go on.
type Resumed struct {
	TargetExplained
	// Redrives are the orders by which what was parked for the target's sake
	// comes back. Workers carry them out, and so does FinishRedrive.
	Redrives []Redrive `json:"redrives"`
	// Probe tells that the next call goes out now, as the probe: breaker or
	// Retry-After held the target.
	Probe *Probe `json:"probe,omitempty"`
}

// PauseTarget starts nothing that calls the target before until; the zero
// time means until it is resumed. What runs already runs on. A target that
// nobody calls yet can be paused too.
func (e *Engine) PauseTarget(ctx context.Context, name string, until time.Time) (TargetExplained, error) {
	if err := checkTarget(name); err != nil {
		return TargetExplained{}, err
	}
	now, err := e.now(ctx)
	if err != nil {
		return TargetExplained{}, fmt.Errorf("target: %s: %w", name, err)
	}
	detail := "until it is resumed"
	if !until.IsZero() {
		if !until.After(now) {
			return TargetExplained{}, invalid("target: %s: until %s: must be in the future", name, until.UTC().Format(time.RFC3339))
		}
		detail = "until " + until.UTC().Format(time.RFC3339)
	}
	return e.orderGate(ctx, name, actPauseTarget, func(g *store.Gate, now time.Time) (string, bool, error) {
		g.State, _ = gate.Step(gate.Config{}, g.State, gate.Pause{Until: until}, now, 0)
		return detail, true, nil
	})
}

// ResumeTarget ends an operator's pause and a target's being disabled. What
// was parked because the target was down or disabled comes back in its order,
// unless it is to be kept. If breaker or Retry-After hold the target, its next
// call goes out now, as the probe.
func (e *Engine) ResumeTarget(ctx context.Context, name string, keepParked bool) (Resumed, error) {
	if err := checkTarget(name); err != nil {
		return Resumed{}, err
	}
	if _, err := e.gateOf(ctx, name); err != nil {
		return Resumed{}, err
	}
	var probe *Probe
	t, err := e.orderGate(ctx, name, actResumeTarget, func(g *store.Gate, now time.Time) (string, bool, error) {
		config, _ := e.limits(g, store.QueueLimit{})
		g.State, _ = gate.Step(config, g.State, gate.Resume{}, now, 0)
		g.Disabled, probe = "", nil
		if p := newProbe(g, config, now); p.State == ProbeSent {
			probe = &p
			g.State, _ = gate.Step(config, g.State, gate.Probe{}, now, 0)
			return p.was(now), true, nil
		}
		return "", true, nil
	})
	out := Resumed{TargetExplained: t, Redrives: []Redrive{}, Probe: probe}
	if err != nil {
		return out, err
	}
	if !keepParked {
		if out.Redrives, err = e.bringBack(ctx, name, retry.CauseTargetDown, job.Disabled); err != nil {
			return out, err
		}
	}
	if probe != nil {
		err = e.lend(ctx, probe, false)
	}
	return out, err
}

// bringBack orders what was parked for the target's sake to be queued again,
// and takes the first step itself: the probe needs a job.
func (e *Engine) bringBack(ctx context.Context, name string, causes ...job.Cause) ([]Redrive, error) {
	list := []Redrive{}
	for _, cause := range causes {
		filter := Filter{State: job.Parked, Target: name, Cause: cause}
		found, err := e.Redrive(ctx, Order{Filter: filter, DryRun: true})
		if err != nil {
			return list, err
		}
		if found.Matching == 0 {
			continue
		}
		r, err := e.Redrive(WithoutProbe(ctx), Order{Filter: filter})
		if err != nil {
			return list, err
		}
		if err := e.stepRedrive(ctx, &r); err != nil {
			return list, err
		}
		list = append(list, r)
	}
	return list, nil
}

func checkTarget(name string) error {
	if err := checkName("target", name, maxLong); err != nil {
		return err
	}
	if queue, ok := queueOfGate(name); ok {
		return invalid("target: %s: it keeps the limits of queue %s; the queue itself is paused and resumed", name, queue)
	}
	return nil
}

// gateChange changes a gate. It tells the audit's detail, and false if there
// is nothing to change.
type gateChange func(g *store.Gate, now time.Time) (detail string, swap bool, err error)

// orderGate changes a gate by an order and tells the target as it is then.
func (e *Engine) orderGate(ctx context.Context, name, act string, change gateChange) (TargetExplained, error) {
	if err := e.changeGate(ctx, name, act, change); err != nil {
		return TargetExplained{}, err
	}
	return e.Target(ctx, name)
}

// changeGate changes a gate by an order: read, change, swap, and again if
// somebody else was faster. Workers look at the target's work at once.
func (e *Engine) changeGate(ctx context.Context, name, act string, change gateChange) error {
	order := store.AuditRow{Actor: e.by(ctx), Act: act, What: name}
	for range swapTries {
		now, err := e.now(ctx)
		if err != nil {
			return fmt.Errorf("target: %s: %w", name, err)
		}
		rows, err := e.store.Gates(ctx, []string{name})
		if err != nil {
			return fmt.Errorf("target: %s: %w", name, err)
		}
		g := rows[0]
		detail, swap, err := change(&g, now)
		if err != nil {
			return fmt.Errorf("target: %s: %w", name, err)
		}
		if !swap {
			return nil
		}
		e.open(&g, now)
		order.At, order.Detail = now, detail
		swapped, err := e.store.SwapGate(ctx, e.storeNow(), order, store.Swap{Gate: g, Wake: true})
		if err != nil {
			return fmt.Errorf("target: %s: %w", name, err)
		}
		if swapped {
			return nil
		}
	}
	return fmt.Errorf("target: %s: its gate changed %d times while the order was given", name, swapTries)
}

// open writes beside the state what discovery reads: when to look again, and
// for how many there is room.
func (e *Engine) open(g *store.Gate, now time.Time) {
	config, _ := e.limits(g, store.QueueLimit{})
	g.OpenAt, g.Room = time.Time{}, store.NoLimit
	if g.Disabled != "" {
		g.OpenAt = store.Never
		return
	}
	if until, shut := gate.Shut(config, g.State, now); shut {
		g.OpenAt = until
		if until.IsZero() {
			g.OpenAt = store.Never
		}
		return
	}
	if room := gate.Room(config, g.State, now); room < gate.Unlimited {
		g.Room = room
	}
}
