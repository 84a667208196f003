package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store"
)

// swapping is the swaps of a turn, and the gates that it is answered with.
type swapping struct {
	swaps []store.Swap
	won   map[string]bool
	gates map[string]store.Gate // as read
}

func (s *swapping) wakes() bool {
	return slices.ContainsFunc(s.swaps, func(sw store.Swap) bool { return sw.Wake })
}

// grant is a store.Grant as it is stored.
type grant struct {
	Process int64 `json:"process"`
	Firsts  int   `json:"firsts"`
	Retries int   `json:"retries"`
	Probe   bool  `json:"probe,omitempty"`
}

// holderPattern matches the grants in which the process holds permits.
func holderPattern(process int64) string { return fmt.Sprintf(`%%{"process":%d,%%`, process) }

// kept is a gate as a swap leaves it: none of its grants is of size 0.
func kept(g store.Gate) store.Gate {
	g.Version++
	g.OpenAt = store.Instant(g.OpenAt)
	g.Grants = slices.DeleteFunc(slices.Clone(g.Grants), func(held store.Grant) bool { return held.Size() == 0 })
	if len(g.Grants) == 0 {
		g.Grants = nil
	}
	return g
}

// swapped returns the parameters of the swap statements, the gates sorted.
func swapped(process any, swaps []store.Swap) ([]any, error) {
	swaps = slices.Clone(swaps)
	slices.SortFunc(swaps, func(a, b store.Swap) int { return strings.Compare(a.Target, b.Target) })
	var targets, states, grants, disabled, policies []string
	var versions []int64
	var opens instants
	var rooms []int32
	for i := range swaps {
		g := kept(swaps[i].Gate)
		state, err := json.Marshal(&g.State)
		if err != nil {
			return nil, err
		}
		held, err := json.Marshal(grantsOf(g.Grants))
		if err != nil {
			return nil, err
		}
		targets, versions, opens = append(targets, g.Target), append(versions, swaps[i].Version), append(opens, micros(g.OpenAt))
		rooms, states, grants = append(rooms, int32(min(g.Room, store.NoLimit))), append(states, string(state)), append(grants, string(held))
		disabled, policies = append(disabled, store.Text(g.Disabled)), append(policies, g.Policy)
	}
	return []any{process, targets, versions, opens, rooms, states, grants, disabled, policies}, nil
}

func grantsOf(grants []store.Grant) []grant {
	list := make([]grant, len(grants))
	for i, g := range grants {
		list[i] = grant(g)
	}
	return list
}

// gate reads the columns of a gate; without a row it has version 0.
func (r *row) gate(texts *store.GateTexts) (g store.Gate, err error) {
	g = store.Gate{Target: r.text(), Version: r.number()}
	state, grants := r.text(), r.text()
	g.OpenAt, g.Room, g.Disabled, g.Policy = r.instant(), int(r.number()), r.text(), r.text()
	if g.Version == 0 {
		g.Room = store.NoLimit
		return g, nil
	}
	if err := texts.Read(&g, state, grants, readGrants); err != nil {
		return g, fmt.Errorf("gate of %q: %w", g.Target, err)
	}
	return g, nil
}

func readGrants(text string) (grants []store.Grant, err error) {
	var list []grant
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("grants: %w", err)
	}
	for _, held := range list {
		grants = append(grants, store.Grant(held))
	}
	return grants, nil
}

// swap queues the swaps, last in the turn but for what they wake: so a gate is
// locked for the commit alone.
func (w *turning) swap(swaps []store.Swap) error {
	w.swaps = swapping{swaps: swaps, won: map[string]bool{}, gates: map[string]store.Gate{}}
	if len(swaps) == 0 {
		return nil
	}
	args, err := swapped(w.process, swaps)
	if err != nil {
		return err
	}
	queueSwap(w.batch, w.now, args, swaps, func(target string) { w.swaps.won[target] = true })
	return nil
}

// queueSwap adds the statements of swaps and of what they wake.
func queueSwap(b *pgx.Batch, now time.Time, args []any, swaps []store.Swap, won func(target string)) {
	fresh, old := false, false
	var wakes []string
	var versions []int64
	var opens instants
	for i := range swaps {
		fresh, old = fresh || swaps[i].Version == 0, old || swaps[i].Version != 0
		if swaps[i].Wake {
			wakes, versions = append(wakes, swaps[i].Target), append(versions, swaps[i].Version+1)
			opens = append(opens, micros(store.Instant(swaps[i].OpenAt)))
		}
	}
	read := func(rows pgx.Rows) error {
		return eachRow(rows, func(r *row) error {
			won(r.text())
			return nil
		})
	}
	if old {
		b.Queue(statement("swap"), args...).Query(read)
	}
	if fresh {
		b.Queue(statement("swap_new"), args...).Query(read)
	}
	if len(wakes) > 0 {
		b.Queue(statement("wake"), nullable(now), wakes, versions, opens)
	}
}

// readGates queues the reading of the gates that the turn is answered with:
// those that it swaps are known, if it does not lose.
func (w *turning) readGates() {
	known := make(map[string]bool, len(w.swaps.swaps))
	for i := range w.swaps.swaps {
		known[w.swaps.swaps[i].Target] = true
	}
	var targets []string
	var versions []int64
	discovers := false
	for _, c := range w.lanes {
		if discovers = discovers || c.Target == ""; c.Target != "" && !known[c.Target] {
			targets, versions = append(targets, c.Target), append(versions, c.Known)
		}
	}
	if len(targets) > 0 {
		w.query("gates_of_turn", []any{targets, versions}, w.readGate)
	}
	if discovers {
		w.query("gates_of_lanes", nil, w.readGate)
	}
}

func (w *turning) readGate(r *row) error {
	g, err := r.gate(&w.store.gateTexts)
	w.swaps.gates[g.Target] = g
	return err
}

// lost reads the gates of the swaps that were lost, which is rare.
func (w *turning) lost(ctx context.Context) error {
	var targets []string
	for i := range w.swaps.swaps {
		won := w.swaps.won[w.swaps.swaps[i].Target]
		if w.answer.Swapped = append(w.answer.Swapped, won); !won {
			targets = append(targets, w.swaps.swaps[i].Target)
		}
	}
	if len(targets) == 0 {
		return nil
	}
	rows, err := w.store.pool.Query(ctx, statement("gates"), targets)
	if err != nil {
		return err
	}
	return eachRow(rows, w.readGate)
}

// answerGates answers with the gates asked for, and those of lost swaps.
func (w *turning) answerGates(asked map[string]bool) {
	for i := range w.swaps.swaps {
		sw := &w.swaps.swaps[i]
		if !w.swaps.won[sw.Target] {
			asked[sw.Target] = true
		} else if asked[sw.Target] {
			w.swaps.gates[sw.Target] = kept(sw.Gate)
		}
	}
	for _, c := range w.lanes {
		if _, there := w.swaps.gates[c.Target]; c.Known > 0 && !there {
			delete(asked, c.Target)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(asked)) {
		g, there := w.swaps.gates[target]
		if !there {
			g = store.Gate{Target: target, Room: store.NoLimit}
		}
		w.answer.Gates = append(w.answer.Gates, g)
	}
}

// abandon gives back the permits of a process that is gone.
func (w *turning) abandon(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, statement("gates_held"), holderPattern(w.process))
	if err != nil {
		return err
	}
	now := w.exact
	var swaps []store.Swap
	err = eachRow(rows, func(r *row) error {
		g, err := r.gate(&w.store.gateTexts)
		swaps = append(swaps, store.Swap{Gate: g, Wake: true})
		return err
	})
	if err != nil || len(swaps) == 0 {
		return err
	}
	if now.IsZero() {
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
			return err
		}
	}
	for i := range swaps {
		swaps[i].Gate = store.Abandoned(swaps[i].Gate, w.process, now)
	}
	args, err := swapped(nil, swaps)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	queueSwap(b, w.now, args, swaps, func(string) {})
	w.promoted = true
	return tx.SendBatch(ctx, b).Close()
}

// Gates returns the gates of the targets, in their order.
func (s *Store) Gates(ctx context.Context, targets []string) ([]store.Gate, error) {
	by := map[string]store.Gate{}
	list, err := s.readGates(ctx, "gates", targets)
	if err != nil {
		return nil, failed("gates", err)
	}
	for _, g := range list {
		by[g.Target] = g
	}
	gates := make([]store.Gate, len(targets))
	for i, target := range targets {
		g, there := by[target]
		if !there {
			g = store.Gate{Target: target, Room: store.NoLimit}
		}
		gates[i] = g
	}
	return gates, nil
}

func (s *Store) readGates(ctx context.Context, name string, args ...any) ([]store.Gate, error) {
	rows, err := s.pool.Query(ctx, statement(name), args...)
	if err != nil {
		return nil, err
	}
	list := []store.Gate{}
	err = eachRow(rows, func(r *row) error {
		g, err := r.gate(&s.gateTexts)
		list = append(list, g)
		return err
	})
	return list, err
}

// Targets lists the targets that have a gate or waiting work.
func (s *Store) Targets(ctx context.Context, after string, limit int) ([]store.Gate, error) {
	list, err := s.readGates(ctx, "targets", after, limit)
	return list, failed("targets", err)
}

// Lanes lists what waits for the target, by queue.
func (s *Store) Lanes(ctx context.Context, target string, limit int) ([]store.Lane, error) {
	rows, err := s.pool.Query(ctx, statement("lanes"), target, bounded(limit))
	if err != nil {
		return nil, failed("lanes", err)
	}
	list := []store.Lane{}
	err = eachRow(rows, func(r *row) error {
		list = append(list, store.Lane{Queue: r.text(), Target: target, Firsts: int(r.number()), Retries: int(r.number()), LookAt: r.instant()})
		return nil
	})
	return list, failed("lanes", err)
}

// LanesOf is Lanes of several targets.
func (s *Store) LanesOf(ctx context.Context, targets []string, limit int) ([][]store.Lane, error) {
	all := make([][]store.Lane, len(targets))
	places := make(map[string]int, len(targets))
	for i, target := range targets {
		all[i], places[target] = []store.Lane{}, i
	}
	rows, err := s.pool.Query(ctx, statement("lanes_of"), targets, bounded(limit))
	if err != nil {
		return nil, failed("lanes", err)
	}
	err = eachRow(rows, func(r *row) error {
		target := r.text()
		i := places[target]
		all[i] = append(all[i], store.Lane{Queue: r.text(), Target: target, Firsts: int(r.number()), Retries: int(r.number()), LookAt: r.instant()})
		return nil
	})
	return all, failed("lanes", err)
}

// SwapGate swaps one gate by an operator's order.
func (s *Store) SwapGate(ctx context.Context, now time.Time, order store.AuditRow, sw store.Swap) (bool, error) {
	args, err := swapped(nil, []store.Swap{sw})
	if err != nil {
		return false, failed("swap gate", err)
	}
	done := false
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		queueSwap(b, store.Instant(now), args, []store.Swap{sw}, func(string) { done = true })
		if err := tx.SendBatch(ctx, b).Close(); err != nil || !done {
			return err
		}
		return record(ctx, tx, now, order.Actor, order.Act, order.What, order.Detail)
	})
	if err != nil {
		return false, failed("swap gate", err)
	}
	if done && sw.Wake {
		s.wakes.now()
	}
	return done, nil
}
