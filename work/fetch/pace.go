package fetch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/store"
)

// paces knows what hosts ask for between two starts. The host's gate keeps it
// for all machines that share the store; what is here bridges the moment until
// this process's worker has heard of it.
type paces struct {
	mu sync.Mutex
	by map[string]pace
}

type pace struct {
	every  time.Duration // as told to the gate
	nextAt time.Time     // no start of this process before
}

// maxHosts bounds what is remembered of hosts, places and directories.
const maxHosts = 10_000

// maxInSlot is the longest that a page waits in its slot for its host's turn;
// for longer ones the slot is given up.
const maxInSlot = time.Second

// slow tells the host's gate how much time its robots.txt asks for between two
// starts (0 = none), and waits for the turn of a page that has begun. A page
// that began before this process knew of the pace goes back to the queue,
// unless its process is the one that tells the gate: then it is the first.
func (r *Runner) slow(ctx context.Context, host string, every time.Duration) error {
	wait, err := r.paces.turn(ctx, r, host, every)
	switch {
	case err != nil:
		return failure.New(failure.LocalIO, "ledger", fmt.Errorf("pace of %s: %w", host, err))
	case wait > maxInSlot:
		return failure.Snooze(wait)
	}
	return r.sleep(ctx, wait)
}

// turn returns how long the host's next start of this process is away, and
// takes it if it is near.
func (p *paces) turn(ctx context.Context, r *Runner, host string, every time.Duration) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.by[host]
	now := r.o.clock().Now()
	if !ok || known.every != every {
		told, err := r.tellPace(ctx, host, every)
		if err != nil {
			return 0, err
		}
		known = pace{every: every, nextAt: now}
		if !told { // others know it already, and may have just begun
			known.nextAt = now.Add(every)
		}
		if len(p.by) >= maxHosts {
			clear(p.by)
		}
		p.by[host] = known
	}
	if every == 0 {
		return 0, nil
	}
	wait := max(0, known.nextAt.Sub(now))
	if wait <= maxInSlot {
		known.nextAt = now.Add(wait + every)
		p.by[host] = known
	}
	return wait, nil
}

// tellPace puts the pace into the host's gate; false if it has it already.
func (r *Runner) tellPace(ctx context.Context, host string, every time.Duration) (bool, error) {
	detail := "robots.txt asks for no delay"
	if every > 0 {
		detail = "Crawl-delay " + every.String()
	}
	for {
		now, err := r.instant(ctx)
		if err != nil {
			return false, err
		}
		rows, err := r.o.Store.Gates(ctx, []string{host})
		if err != nil {
			return false, err
		}
		next := rows[0]
		next.State, _ = gate.Step(gate.Config{}, next.State, gate.Slow{Every: every}, now, 0)
		if next.State.Pace.Every == rows[0].State.Pace.Every {
			return false, nil
		}
		order := store.AuditRow{Actor: "ebb fetch", Act: "target.pace", What: host, Detail: detail}
		done, err := r.o.Store.SwapGate(ctx, r.o.now(), order, store.Swap{Gate: next})
		if done || err != nil {
			return done, err
		}
	}
}

func (r *Runner) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return clock.Sleep(ctx, r.o.clock(), d)
}
