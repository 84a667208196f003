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
	return e.orderGate(ctx, name, store.AuditRow{Act: actPauseTarget, Detail: detail}, func(g *store.Gate, now time.Time) {
		g.State, _ = gate.Step(gate.Config{}, g.State, gate.Pause{Until: until}, now, 0)
	})
}

// ResumeTarget ends an operator's pause and a target's being disabled. What
// was parked because the target was down or disabled comes back in its order,
// unless it is to be kept. An open breaker stays open until its probe passes.
func (e *Engine) ResumeTarget(ctx context.Context, name string, keepParked bool) (Resumed, error) {
	if err := checkTarget(name); err != nil {
		return Resumed{}, err
	}
	if _, err := e.gateOf(ctx, name); err != nil {
		return Resumed{}, err
	}
	t, err := e.orderGate(ctx, name, store.AuditRow{Act: actResumeTarget}, func(g *store.Gate, now time.Time) {
		g.State, _ = gate.Step(gate.Config{}, g.State, gate.Resume{}, now, 0)
		g.Disabled = ""
	})
	out := Resumed{TargetExplained: t, Redrives: []Redrive{}}
	if err != nil || keepParked {
		return out, err
	}
	for _, cause := range []job.Cause{retry.CauseTargetDown, job.Disabled} {
		filter := Filter{State: job.Parked, Target: name, Cause: cause}
		found, err := e.Redrive(ctx, Order{Filter: filter, DryRun: true})
		if err != nil {
			return out, err
		}
		if found.Matching == 0 {
			continue
		}
		r, err := e.Redrive(ctx, Order{Filter: filter})
		if err != nil {
			return out, err
		}
		out.Redrives = append(out.Redrives, r)
	}
	return out, nil
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

// orderGate changes a gate by an order: read, change, swap, and again if
// somebody else was faster.
func (e *Engine) orderGate(ctx context.Context, name string, order store.AuditRow, change func(g *store.Gate, now time.Time)) (TargetExplained, error) {
	order.Actor, order.What = e.by(ctx), name
	for range swapTries {
		now, err := e.now(ctx)
		if err != nil {
			return TargetExplained{}, fmt.Errorf("target: %s: %w", name, err)
		}
		rows, err := e.store.Gates(ctx, []string{name})
		if err != nil {
			return TargetExplained{}, fmt.Errorf("target: %s: %w", name, err)
		}
		g := rows[0]
		change(&g, now)
		e.open(&g, now)
		order.At = now
		swapped, err := e.store.SwapGate(ctx, e.storeNow(), order, store.Swap{Gate: g, Wake: true})
		if err != nil {
			return TargetExplained{}, fmt.Errorf("target: %s: %w", name, err)
		}
		if swapped {
			return e.Target(ctx, name)
		}
	}
	return TargetExplained{}, fmt.Errorf("target: %s: its gate changed %d times while the order was given", name, swapTries)
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
