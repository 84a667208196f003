package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ebbhq/ebb/store"
)

// swaps replaces the gates whose versions have not moved, and tells which of
// the others did.
func (t *tx) swaps(list []store.Swap, lost map[string]bool) ([]bool, error) {
	answers := answersFor(len(list))
	for i := range list {
		ok, err := t.swap(&list[i])
		if err != nil {
			return nil, err
		}
		if answers[i] = ok; !ok {
			lost[list[i].Target] = true
		}
	}
	return answers, nil
}

func (t *tx) swap(sw *store.Swap) (bool, error) {
	name := "gate_swap"
	if sw.Version == 0 {
		name = "gate_add"
	}
	state, err := json.Marshal(sw.State)
	if err != nil {
		return false, fmt.Errorf("sqlite: gate %q: %w", sw.Target, err)
	}
	open := store.Instant(sw.OpenAt)
	n, err := t.run(name, sw.Target, sw.Version, micros(open), int64(sw.Room), grantsText(sw.Grants), orNull(sw.Disabled), orNull(sw.Policy), string(state))
	if err != nil || n == 0 {
		return false, err
	}
	if sw.Wake {
		return true, t.wakeLanes(sw.Target, open)
	}
	return true, nil
}

// wakeLanes lets discovery look at the target's lanes from an instant on, or
// from now.
func (t *tx) wakeLanes(target string, from time.Time) error {
	if now := t.instant(); from.Before(now) {
		from = now
	}
	t.queued = true
	_, err := t.run("lane_wake", target, from.UnixMicro())
	return err
}

// grantsText writes [process, firsts, retries, probe] for each grant that is
// not empty.
func grantsText(grants []store.Grant) any {
	var list [][4]int64
	for _, g := range grants {
		if g.Size() > 0 {
			list = append(list, [4]int64{g.Process, int64(g.Firsts), int64(g.Retries), flag(g.Probe)})
		}
	}
	if list == nil {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // numbers always encode
	}
	return string(text)
}

func readGrants(text string) ([]store.Grant, error) {
	if text == "" {
		return nil, nil
	}
	var list [][4]int64
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	grants := make([]store.Grant, len(list))
	for i, g := range list {
		grants[i] = store.Grant{Process: g[0], Firsts: int(g[1]), Retries: int(g[2]), Probe: g[3] != 0}
	}
	return grants, nil
}

// gates reads the rows of the targets, in their order.
func (c *conn) gates(ctx context.Context, targets []string) ([]store.Gate, error) {
	list := make([]store.Gate, len(targets))
	for i, target := range targets {
		list[i].Target, list[i].Room = target, store.NoLimit
	}
	err := c.query(ctx, "gates", []any{jsonTexts(targets)}, func(r row) error {
		return c.store.readGate(&list[r.int(0)], r)
	})
	return list, err
}

// changed leaves those of the targets out whose gates have the versions that are
// known: most are, and to read one takes ten times as long as to see that.
func (t *tx) changed(targets []string, known map[string]int64) ([]string, error) {
	same := make(map[string]bool, len(known))
	err := t.query(t.ctx, "gate_versions", []any{jsonTexts(targets)}, func(r row) error {
		target := targets[r.int(0)]
		same[target] = known[target] == r.int(1)
		return nil
	})
	return slices.DeleteFunc(targets, func(target string) bool { return same[target] }), err
}

func (s *Store) readGate(g *store.Gate, r row) error {
	g.Version, g.OpenAt, g.Room, g.Disabled, g.Policy = r.int(1), r.at(4), int(r.int(5)), r.text(6), r.text(7)
	if err := s.gateTexts.Read(g, r.text(2), r.text(3), readGrants); err != nil {
		return fmt.Errorf("sqlite: gate %q: %w", g.Target, err)
	}
	return nil
}

// grantedTo lists the targets of which the process holds permits.
func (t *tx) grantedTo(process int64) ([]string, error) {
	var targets []string
	err := t.query(t.ctx, "gates_granted", nil, func(r row) error {
		grants, err := readGrants(r.text(1))
		g := store.Gate{Grants: grants}
		if held := g.GrantOf(process); held.Size() > 0 {
			targets = append(targets, r.text(0))
		}
		return err
	})
	return targets, err
}

// abandon gives back the permits of a process that is gone.
func (t *tx) abandon(process int64) error {
	targets, err := t.grantedTo(process)
	if err != nil || len(targets) == 0 {
		return err
	}
	gates, err := t.gates(t.ctx, targets)
	if err != nil {
		return err
	}
	for _, g := range gates {
		if _, err := t.swap(&store.Swap{Gate: store.Abandoned(g, process, t.now), Wake: true}); err != nil {
			return err
		}
	}
	return nil
}

// Gates returns the gates of the targets, in their order.
func (s *Store) Gates(ctx context.Context, targets []string) ([]store.Gate, error) {
	var list []store.Gate
	err := s.read(ctx, "gates", false, func(c *conn) (err error) {
		list, err = c.gates(ctx, targets)
		return err
	})
	return list, err
}

// Targets lists the targets that have a gate or waiting work.
func (s *Store) Targets(ctx context.Context, after string, limit int) ([]store.Gate, error) {
	var list []store.Gate
	err := s.read(ctx, "targets", true, func(c *conn) error {
		var names []string
		err := c.query(ctx, "targets", []any{after, int64(max(limit, 0))}, func(r row) error {
			names = append(names, r.text(0))
			return nil
		})
		if err != nil {
			return err
		}
		list, err = c.gates(ctx, names)
		return err
	})
	return list, err
}

// Lanes lists what waits for the target, by queue.
func (s *Store) Lanes(ctx context.Context, target string, limit int) ([]store.Lane, error) {
	all, err := s.LanesOf(ctx, []string{target}, limit)
	return all[0], err
}

// LanesOf is Lanes of several targets.
func (s *Store) LanesOf(ctx context.Context, targets []string, limit int) ([][]store.Lane, error) {
	all := make([][]store.Lane, len(targets))
	err := s.read(ctx, "lanes", len(targets) > 1, func(c *conn) error {
		for i, target := range targets {
			list, err := c.lanesOf(ctx, target, limit)
			if err != nil {
				return err
			}
			all[i] = list
		}
		return nil
	})
	return all, err
}

func (c *conn) lanesOf(ctx context.Context, target string, limit int) ([]store.Lane, error) {
	list := []store.Lane{}
	err := c.query(ctx, "lane_sizes", []any{target, int64(limit)}, func(r row) error {
		if r.int(3) == 0 {
			return nil
		}
		if n := len(list); n == 0 || list[n-1].Queue != r.text(0) {
			list = append(list, store.Lane{Queue: r.text(0), Target: target, LookAt: r.at(2)})
		}
		l := &list[len(list)-1]
		if look := r.at(2); look.Before(l.LookAt) {
			l.LookAt = look
		}
		count := &l.Firsts
		if retries := r.flag(1); retries {
			count = &l.Retries
		}
		*count = min(limit, *count+int(r.int(3)))
		return nil
	})
	return list, err
}

// SwapGate swaps one gate by an operator's order.
func (s *Store) SwapGate(ctx context.Context, now time.Time, order store.AuditRow, sw store.Swap) (bool, error) {
	swapped := false
	err := s.write(ctx, "swap gate", now, func(t *tx) (err error) {
		if swapped, err = t.swap(&sw); err != nil || !swapped {
			return err
		}
		return t.audit(order.Actor, order.Act, order.What, order.Detail)
	})
	return swapped && err == nil, err
}
