package worker

import (
	"hash/fnv"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// grantLife is how long a permit may wait for its start, and how long what
// was last seen of a gate is good enough to use a permit again. Policy time.
const grantLife = time.Second

// booth is where this process admits work to one target, or to one queue with
// limits: the gate's row as last seen, what happened since, and the permits
// in hand. It is local memory: if the process is taken for dead, all of it is
// void, and the reaper has given the permits back.
type booth struct {
	target string
	number uint64 // of the target, for its draws
	config *gate.Config
	policy string // whose config that is; empty for a queue

	row          store.Gate // as last seen
	state        gate.State // of the row, or of the swap under way, with all that was told since
	events       []told     // what the row does not know yet
	urgent       bool       // some of it should be known at once
	until        time.Time  // permits may be used again before this instant
	rest         [2]gate.Verdict
	asked        [2]bool // rest says why the last ask for that kind was refused
	disabledTold string
	ban          string // why the target takes no work any more; told with the next swap

	firsts, retries int  // permits held: in use and idle
	probe           bool // one of them is the probe
	idle            int  // permits that nobody uses; all for first attempts

	draft *draft // while a turn is being prepared
	sent  *draft // the swap under way
	ghost *draft // a swap of which nobody knows whether it was done
	won   bool   // the last swap was done

	restsAt time.Time       // since when nothing is left to do
	waiting [2]int          // buffered first attempts and retries that must pass here
	awaited bool            // the turn that is being prepared leaves a lane of it to the next one
	coming  int             // asked for by name in turns under way
	deep    int             // lanes of it that may have more
	barred  map[string]bool // targets that were refused here, to be woken
}

// told is one outcome, and the config under which it counts. Most calls pass, and
// half a second of them is remembered: those are told in little.
type told struct {
	config *gate.Config
	at     gate.Instant
	event  gate.Outcome // nil = the call passed
	pass   gate.Pass    // then
}

// draft is a swap: being prepared, or under way.
type draft struct {
	gate            store.Gate // sent
	state           gate.State
	events          int // how many of the booth's are folded
	firsts, retries int // permits carved
	probe           bool
	at              time.Time
}

// permit is the right to one start at a booth.
type permit struct {
	booth  *booth
	retry  bool // counted among the retries
	probe  bool
	carved bool  // by the swap under way: not ours before it is done
	slot   *slot // where starts are paced; nil = any time
}

// slot bounds a start: not before the one, and before the other.
type slot struct{ startAt, lateAt time.Time }

func newBooth(target string) *booth {
	h := fnv.New64a()
	h.Write([]byte(target))
	return &booth{
		target: target, number: h.Sum64(),
		row:    store.Gate{Target: target, Room: store.NoLimit},
		barred: make(map[string]bool),
	}
}

// draw is the one random number of a step of the gate.
func (b *booth) draw(seed uint64, s *gate.State) float64 {
	return retry.Derive(seed, b.number, s.Trips+1).Unit()
}

// see takes in the row, unless a swap under way will tell more, or what is
// known is newer.
func (b *booth) see(row store.Gate, seed uint64) {
	if b.sent != nil || b.ghost != nil || row.Version <= b.row.Version {
		return
	}
	b.row = row
	b.refold(seed)
}

// refold makes the state anew from the row and what it does not know.
func (b *booth) refold(seed uint64) {
	b.state = b.row.State
	for i := range b.events {
		b.apply(&b.events[i], seed)
	}
	b.forget()
}

// apply folds what was told into the state.
func (b *booth) apply(e *told, seed uint64) {
	if e.event != nil {
		e.config.Apply(&b.state, e.event, e.at.Time(), b.draw(seed, &b.state))
		return
	}
	e.config.Passed(&b.state, &e.pass, e.at)
}

// forget lets refusals be asked for again: something has changed.
func (b *booth) forget() { b.asked = [2]bool{} }

// tell notes an outcome.
func (b *booth) tell(e told, seed uint64) {
	b.events = append(b.events, e)
	b.apply(&e, seed)
	b.forget()
}

// tellOf notes an outcome that is more than a call that passed.
func (b *booth) tellOf(o gate.Outcome, config *gate.Config, at time.Time, seed uint64) {
	b.tell(told{config: config, at: gate.InstantOf(at), event: o}, seed)
}

// roomAfter reports whether the gate would have room for a start by a permit
// that came back by the outcome, as far as this process knows.
func (b *booth) roomAfter(config *gate.Config, o gate.Outcome, now time.Time) bool {
	if !now.Before(b.until) || b.row.Disabled != "" || b.ban != "" {
		return false
	}
	return config.RoomAfter(&b.state, o, now)
}

func kindOf(retry bool) int {
	if retry {
		return 1
	}
	return 0
}

// takeIdle takes a permit in hand.
func (b *booth) takeIdle(config *gate.Config, retry bool, now time.Time) (permit, bool) {
	if b.idle == 0 || !config.Reuse(gate.Abandon{}, retry) || !b.roomAfter(config, gate.Abandon{}, now) {
		return permit{}, false
	}
	b.idle--
	return permit{booth: b}, true
}

// carve takes a permit out of the gate by the swap that is being prepared.
// The verdict tells why there is none.
func (b *booth) carve(config *gate.Config, retry bool, now time.Time, seed uint64) (permit, gate.Verdict) {
	k := kindOf(retry)
	if b.asked[k] && (b.rest[k].Until.IsZero() || now.Before(b.rest[k].Until)) {
		return permit{}, b.rest[k]
	}
	if b.row.Disabled != "" || b.ban != "" {
		return permit{}, b.refused(k, gate.Verdict{Held: gate.HeldOperator})
	}
	if at := b.slot(config); at.After(now) {
		return permit{}, b.refused(k, gate.Verdict{Held: gate.HeldRate, Until: at})
	}
	if b.draft == nil {
		b.draft = &draft{state: b.state, at: now}
	}
	d := b.draft
	want := gate.Want{Firsts: 1 - k, Retries: k}
	state, grant := gate.Carve(*config, d.state, want, now, b.draw(seed, &d.state))
	d.state = state
	if grant.Size() == 0 {
		return permit{}, b.refused(k, grant.Rest)
	}
	d.firsts, d.retries, d.probe = d.firsts+grant.Firsts, d.retries+grant.Retries, d.probe || grant.Probe
	p := permit{booth: b, retry: retry, probe: grant.Probe, carved: true}
	if grant.Every > 0 {
		p.slot = &slot{startAt: grant.StartAt, lateAt: grant.StartAt.Add(grant.Every)}
	}
	return p, gate.Verdict{Admit: true}
}

func (b *booth) refused(kind int, v gate.Verdict) gate.Verdict {
	b.rest[kind], b.asked[kind] = v, true
	return v
}

// Slots of a rate are carved when they are at hand; where they are narrower
// than a round trip to the store, a little ahead, so that none is lost.
const (
	narrowSlot = 50 * time.Millisecond
	slotsAhead = 100 * time.Millisecond
)

// slot is the earliest instant at which the next slot of the rate is carved.
func (b *booth) slot(config *gate.Config) time.Time {
	state := &b.state
	if b.draft != nil {
		state = &b.draft.state
	}
	every := config.Every(*state)
	if every == 0 {
		return time.Time{}
	}
	at := state.NextAt.Time()
	if every < narrowSlot {
		at = at.Add(-slotsAhead)
	}
	return at
}

// putBack undoes a permit that was taken and not used: one in hand is idle
// again. One that was carved belongs to its swap.
func (b *booth) putBack(p permit) {
	if !p.carved {
		b.idle++
	}
}

// ended takes a permit back with the outcome of its start. If keep is set, it
// stays in hand for the next one.
func (b *booth) ended(p *permit, config *gate.Config, done *gate.Done, at time.Time, keep bool, seed uint64) {
	if done.OK {
		b.tell(told{config: config, at: gate.InstantOf(at), pass: gate.Pass{
			StartedAt: gate.InstantOf(done.StartedAt), Retry: p.retry, Probe: p.probe, Again: keep,
		}}, seed)
	} else {
		b.tellOf(*done, config, at, seed)
		if keep {
			b.tellOf(gate.Again{}, config, at, seed)
		}
	}
	if keep {
		b.idle++
	}
	b.lose(p, keep)
	b.urgent = b.urgent || !keep || !done.OK
}

// lose counts a permit out; kept ones stay, as those of first attempts.
func (b *booth) lose(p *permit, keep bool) {
	if p.retry {
		b.retries--
	} else {
		b.firsts--
	}
	if keep {
		b.firsts++
	}
	b.probe = b.probe && !p.probe
}

// drop gives a permit back of which no use was made.
func (b *booth) drop(p permit, config *gate.Config, at time.Time, seed uint64) {
	b.tellOf(gate.Abandon{Retry: p.retry, Probe: p.probe, Unused: true}, config, at, seed)
	b.lose(&p, false)
	b.urgent = true
}

// spare gives idle permits back but for so many.
func (b *booth) spare(most int, at time.Time, seed uint64) {
	for b.idle > most {
		b.idle--
		b.drop(permit{booth: b}, b.config, at, seed)
	}
}

// reusable reports whether a permit that comes back by the outcome may stay in
// hand: work waits for it, or is about to, and nothing known forbids it.
func (b *booth) reusable(config *gate.Config, done gate.Done, now time.Time) bool {
	firsts := b.waiting[0] + b.coming
	if b.deep > 0 {
		firsts = b.idle + 1
	}
	switch {
	case b.idle < firsts && config.Reuse(done, false):
	case b.idle < firsts+b.waiting[1] && config.Reuse(done, true):
	default:
		return false
	}
	return b.roomAfter(config, done, now)
}

// empty reports whether nothing of the booth is worth remembering.
func (b *booth) empty() bool {
	return b.firsts == 0 && b.retries == 0 && len(b.events) == 0 && b.sent == nil && b.ghost == nil &&
		b.waiting == [2]int{} && b.coming == 0 && b.deep == 0 && b.ban == ""
}
