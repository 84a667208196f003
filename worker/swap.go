package worker

import (
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/store"
)

// renewAfter is how long outcomes that say nothing new may wait for company:
// calls that passed and whose permits were used again.
const renewAfter = grantLife / 2

// due reports whether the booth has something to tell the store now.
func (b *booth) due(now time.Time) bool {
	if b.sent != nil || b.ghost != nil {
		return false
	}
	d := b.draft
	return b.urgent || b.ban != "" && b.row.Disabled == "" || d != nil && (d.firsts+d.retries > 0 || d.state != b.state) ||
		len(b.events) > 0 && !now.Before(b.renewAt())
}

// renewAt is when what was told has to be in the store.
func (b *booth) renewAt() time.Time { return b.until.Add(-renewAfter) }

// swap writes the swap that is being prepared: what was told, folded, and the
// permits carved of what that leaves.
func (b *booth) swap(process int64, now time.Time) store.Swap {
	d := b.draft
	if d == nil {
		d = &draft{state: b.state, at: now}
	}
	b.draft, b.sent = nil, d
	d.events = len(b.events)
	before := b.row
	g := before
	g.State = d.state
	g.SetGrant(store.Grant{Process: process, Firsts: b.firsts + d.firsts, Retries: b.retries + d.retries, Probe: b.probe || d.probe})
	if g.Disabled == "" {
		g.Disabled = b.ban
	}
	if b.policy != "" {
		g.Policy = b.policy
	}
	g.OpenAt, g.Room = outlook(b.config, g.State, now)
	if g.Disabled != "" {
		g.OpenAt, g.Room = store.Never, 0
	}
	d.gate = g
	b.state, b.urgent = d.state, false
	return store.Swap{Gate: g, Wake: sooner(&before, &g, now)}
}

// outlook is when discovery may look at a target, and how much it may take.
func outlook(config *gate.Config, s gate.State, now time.Time) (openAt time.Time, room int) {
	at := now
	if until, shut := gate.Shut(*config, s, now); shut {
		if openAt = until; openAt.IsZero() {
			openAt = store.Never
		}
		at = openAt
	}
	switch room = gate.Room(*config, s, at); {
	case room >= gate.Unlimited:
		room = store.NoLimit
	case room > 0 && isProbed(config, &s): // one of so many will be the probe
		room = dispatch.ProbeReach
	}
	return openAt, room
}

// isProbed reports whether the next call decides whether others may go.
func isProbed(config *gate.Config, s *gate.State) bool {
	return config != nil && config.Breaker.On() && (s.Phase == gate.Open || s.Phase == gate.HalfOpen)
}

// probing is isProbed of a target, for the floor.
func (la *lanes) probing(target string) bool {
	b := la.booths[target]
	return b != nil && isProbed(b.config, &b.state)
}

// expectProbe remembers when a target may be probed, so that enough of its work
// is claimed then to choose from.
func (la *lanes) expectProbe(b *booth) {
	if b.state.Phase == gate.Open && isProbed(b.config, &b.state) {
		la.probeAt[b.target] = b.state.OpenUntil.Time()
	} else {
		delete(la.probeAt, b.target)
	}
}

// probeDue reports whether a target may be probed that it has not been said of.
func (la *lanes) probeDue(now time.Time) bool {
	due := false
	for target, at := range la.probeAt {
		if !at.After(now) {
			delete(la.probeAt, target)
			due = true
		}
	}
	return due
}

// sooner reports whether a target's lanes may be looked at earlier than the
// row had said.
func sooner(before, after *store.Gate, now time.Time) bool {
	if before.Version == 0 || after.Room == 0 {
		return false
	}
	was, is := before.OpenAt, after.OpenAt
	if is.Before(now) {
		is = now
	}
	return before.Room == 0 || is.Before(was)
}

// done means that the swap under way was done.
func (b *booth) done(config *gate.Config, now time.Time) {
	d := b.sent
	b.sent, b.won = nil, true
	b.row = d.gate
	b.row.Version++
	if b.row.Disabled == b.ban {
		b.ban = ""
	}
	b.events = append(b.events[:0], b.events[d.events:]...)
	b.firsts, b.retries, b.probe = b.firsts+d.firsts, b.retries+d.retries, b.probe || d.probe
	if _, shut := gate.Shut(*config, b.state, now); !shut && gate.Room(*config, b.state, now) >= 0 {
		b.until = d.at.Add(grantLife)
	}
}

// lost means that somebody else changed the gate first: the permits were
// never ours, and what was to be told is told next time.
func (b *booth) lost(row store.Gate, seed uint64) {
	b.sent, b.won = nil, false
	b.row = row
	b.urgent = len(b.events) > 0
	b.refold(seed)
}

// unsure means that nobody knows whether the swap under way was done.
func (b *booth) unsure() { b.sent, b.ghost, b.won = nil, b.sent, false }

// reconcile finds out by the row as it is now. Only this process changes its
// own grant: if that is not what was sent, the swap was not done. If it is, the
// swap may still not have been done, but then it would have left the grant as
// it was: as many permits came back as were carved. Either way what the row
// says beyond what is held here goes back, and the sums are right again.
func (b *booth) reconcile(process int64, row store.Gate, now time.Time, seed uint64) {
	d := b.ghost
	b.ghost = nil
	done := row.Version > d.gate.Version && row.GrantOf(process) == d.gate.GrantOf(process)
	if done {
		b.events = append(b.events[:0], b.events[d.events:]...)
	}
	b.row = row
	b.refold(seed)
	if done { // the permits that it carved were given to nobody
		b.firsts, b.retries = b.firsts+d.firsts, b.retries+d.retries
		for i := range d.firsts + d.retries {
			b.drop(permit{booth: b, retry: i >= d.firsts, probe: d.probe}, b.config, now, seed)
		}
	}
	b.urgent = len(b.events) > 0
}
