package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/engine/enginetest"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// rushed is a store where somebody else swaps the gate before an order does.
type rushed struct {
	*memory.Store
	first int // so many times
	tried int
}

func (r *rushed) SwapGate(ctx context.Context, now time.Time, order store.AuditRow, s store.Swap) (bool, error) {
	if r.tried++; r.tried <= r.first {
		rows, err := r.Store.Gates(ctx, []string{s.Target})
		if err != nil {
			return false, err
		}
		other := store.Swap{Gate: rows[0]}
		other.Policy = "webhook"
		if done, err := r.Store.SwapGate(ctx, now, store.AuditRow{Actor: "other", Act: "target.step", What: s.Target}, other); err != nil || !done {
			return false, errors.Join(err, errors.New("the other swap was not done"))
		}
	}
	return r.Store.SwapGate(ctx, now, order, s)
}

// An order is given anew where somebody else was faster, on what they left
// behind; for ever it is not.
func TestOrdersSurviveLostSwaps(t *testing.T) {
	c := clock.NewFake(enginetest.T0)
	s := &rushed{Store: memory.New(memory.Config{Clock: c}), first: 3}
	defer s.Close()
	e := engine.New(s, nil, engine.Config{Clock: c, Actor: "maya"})
	got, err := e.PauseTarget(t.Context(), "crm", time.Time{})
	if err != nil || !got.Paused || got.Policy != "webhook" || s.tried != 4 {
		t.Errorf("after %d swaps: %+v, %v; want it paused by the fourth, with what others wrote", s.tried, got.Target, err)
	}
	if len(got.Orders) != 4 || got.Orders[0].Actor != "maya" {
		t.Errorf("orders %+v; want one of maya, and none for the lost swaps", got.Orders)
	}
	s.first = 1 << 30
	const want = "target: crm: its gate changed 50 times while the order was given"
	if _, err := e.ResumeTarget(t.Context(), "crm", false); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
