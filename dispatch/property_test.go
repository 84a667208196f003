package dispatch_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/dispatch"
)

var (
	targets  = []string{"", "a", "b", "c", "d", "e"}
	policies = []string{"p", "q", "r"}
)

// hall drives floor and model alike, with gates that open and shut.
type hall struct {
	*rapid.T
	f      *dispatch.Floor
	m      *model
	now    time.Time
	nextID int64
	shut   map[string]time.Time // by target and kind; zero: until opened
	passed map[string]int       // turns that others had while a lane could go
	asked  []int64

	tickets map[string]uint64 // the places that passed counts for
}

func gateOf(target string, retry bool) string { return fmt.Sprint(target, retry) }

func newHall(t *rapid.T) *hall {
	slots := rapid.IntRange(1, 8).Draw(t, "slots")
	h := &hall{
		T: t, f: dispatch.New(slots, born), m: newModel(slots), now: born,
		shut: map[string]time.Time{}, passed: map[string]int{},
	}
	for _, name := range policies {
		h.limit(name)
	}
	return h
}

func (h *hall) limit(name string) {
	l := dispatch.Limits{
		Concurrency: rapid.IntRange(0, 5).Draw(h.T, "concurrency"),
		FirstShare:  rapid.SampledFrom([]float64{0, 0.25, 0.5, 0.9}).Draw(h.T, "share"),
		Spacing:     rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(h.T, "spacing"),
		Batch:       rapid.IntRange(0, 3).Draw(h.T, "batch"),
	}
	h.f.SetPolicy(name, l)
	h.m.limits[name] = l
}

func (h *hall) add() {
	i := h.item()
	if len(h.m.waiting) > 0 && rapid.IntRange(0, 9).Draw(h.T, "same") == 0 {
		i.ID = h.m.waiting[0].ID
	}
	h.f.Add(i)
	h.m.add(i)
	h.forget()
}

// seat: an item that does not wait starts as it would if it did, or is refused as it
// would be, where nobody else is asked; or not, and nothing has changed.
func (h *hall) seat() {
	i := h.item()
	seated, waits := h.f.Seat(&i, h.now, func() dispatch.Answer { return h.admit(i) })
	h.m.add(i)
	h.forget()
	if !seated && !waits {
		h.f.Add(i)
		return
	}
	h.asked = nil
	if got, ok := h.m.next(h.now, h.admit); ok != seated || ok && got != i || !slices.Equal(h.asked, []int64{i.ID}) {
		h.Fatalf("seated %t, waits %t: %+v; want %+v, %t (asked %v)", seated, waits, i, got, ok, h.asked)
	}
	h.forget()
}

func (h *hall) item() dispatch.Item {
	i := dispatch.Item{
		Target: rapid.SampledFrom(targets).Draw(h.T, "target"), Policy: rapid.SampledFrom(policies).Draw(h.T, "policy"),
		Retry: rapid.Bool().Draw(h.T, "retry"), Priority: rapid.IntRange(0, 2).Draw(h.T, "priority"),
		DueAt: h.now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(h.T, "late")) * time.Second),
	}
	h.nextID++
	i.ID = h.nextID
	return i
}

func (h *hall) remove() {
	id := int64(rapid.IntRange(0, int(h.nextID)).Draw(h.T, "id"))
	if got, want := h.f.Remove(id), h.m.remove(id); got != want {
		h.Fatalf("removed %d: %t, want %t", id, got, want)
	}
	h.forget()
}

// forget: a lane from which work was taken away may have lost its place.
func (h *hall) forget() {
	for target := range h.passed {
		if target != "" && h.m.tickets[target] != h.tickets[target] {
			h.passed[target] = 0
		}
	}
	h.tickets = maps.Clone(h.m.tickets)
}

func (h *hall) end() {
	if len(h.m.running) > 0 {
		i := rapid.SampledFrom(h.m.running).Draw(h.T, "ended")
		h.f.Ended(i.Place(), h.now)
		h.m.ended(i.ID)
	}
}

func (h *hall) turnGate() {
	target := rapid.SampledFrom(targets).Draw(h.T, "target")
	gate := gateOf(target, rapid.Bool().Draw(h.T, "retry"))
	switch rapid.IntRange(0, 2).Draw(h.T, "gate") {
	case 0:
		h.shut[gate] = time.Time{}
	case 1:
		h.shut[gate] = h.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(h.T, "for")) * time.Second)
	case 2:
		delete(h.shut, gate)
		h.f.Wake(target)
		h.m.wake(target)
	}
}

func (h *hall) admit(i dispatch.Item) dispatch.Answer {
	h.asked = append(h.asked, i.ID)
	until, shut := h.shut[gateOf(i.Target, i.Retry)]
	return dispatch.Answer{Admit: !shut || !until.IsZero() && !until.After(h.now), Until: until}
}

func (h *hall) next() bool {
	could := h.startable()
	h.asked = nil
	want, wantOK := h.m.next(h.now, h.admit)
	wantAsked := h.asked
	h.asked = nil
	got, ok := h.f.Next(h.now, h.admit)
	if got != want || ok != wantOK || !slices.Equal(h.asked, wantAsked) {
		h.Fatalf("next %+v, %t (asked %v); want %+v, %t (asked %v)", got, ok, h.asked, want, wantOK, wantAsked)
	}
	if !ok && len(could) > 0 {
		h.Fatalf("nothing started, though %v could", could)
	}
	if ok {
		h.judge(got, could)
	}
	return ok
}

// startable lists the lanes of which something could start now.
func (h *hall) startable() (lanes []string) {
	if len(h.m.running) >= h.m.slots {
		return nil
	}
	for _, i := range h.m.waiting {
		until, aside := h.m.aside[placeOf(i)]
		switch {
		case slices.Contains(lanes, i.Target) || !h.m.open(i, h.now) || !h.m.caughtUp(i, h.now).IsZero():
		case aside && (until.IsZero() || until.After(h.now)): // nobody told
		case h.admit(i).Admit:
			lanes = append(lanes, i.Target)
		}
	}
	return lanes
}

// judge checks what must hold whatever the plan.
func (h *hall) judge(got dispatch.Item, could []string) {
	if !slices.Contains(could, got.Target) {
		h.Fatalf("started %+v, though only %v could go", got, could)
	}
	for _, target := range targets {
		if target == got.Target || !slices.Contains(could, target) {
			h.passed[target] = 0
			continue
		}
		// Each other lane once, and as often the plain one.
		if h.passed[target]++; h.passed[target] > 2*(len(targets)-1) || target == "" && h.passed[""] > 1 {
			h.Fatalf("%q was passed over %d times", target, h.passed[target])
		}
	}
	if len(h.m.running) > h.m.slots || h.f.Free() != h.m.slots-len(h.m.running) {
		h.Fatalf("%d running in %d slots, %d free", len(h.m.running), h.m.slots, h.f.Free())
	}
	h.judgeCatchUp(got)
	h.tickets = maps.Clone(h.m.tickets)
}

// judgeCatchUp looks at the 30 s that end with the start.
func (h *hall) judgeCatchUp(got dispatch.Item) {
	batch := h.m.limits[got.Policy].Batch
	if !placeOf(got).overdue || !h.m.late[got.Target] || batch == 0 {
		return
	}
	n := 0
	for _, b := range h.m.ledger {
		if b.Target == got.Target && placeOf(b.Item).overdue && h.now.Sub(b.at) < dispatch.CatchUpEvery {
			n++
		}
	}
	if n > batch {
		h.Fatalf("%d overdue retries of %q in 30 s, at most %d", n, got.Target, batch)
	}
}

func (h *hall) counts(*rapid.T) {
	for _, target := range targets {
		firsts, retries := 0, 0
		for _, i := range h.m.waiting {
			switch {
			case i.Target != target:
			case i.Retry:
				retries++
			default:
				firsts++
			}
		}
		if f, r := h.f.Waiting(target); f != firsts || r != retries {
			h.Fatalf("%q: %d and %d wait, want %d and %d", target, f, r, firsts, retries)
		}
	}
}

// drain opens all gates and expects all that waits to start, at the times
// that the floor itself names.
func (h *hall) drain() {
	clear(h.shut)
	for _, target := range targets {
		h.f.Wake(target)
		h.m.wake(target)
	}
	for len(h.m.waiting) > 0 {
		before := len(h.m.waiting)
		for h.next() {
			continue
		}
		ran := slices.Clone(h.m.running)
		for _, i := range ran {
			h.f.Ended(i.Place(), h.now)
			h.m.ended(i.ID)
		}
		at := h.f.NextAt(h.now)
		if len(h.m.waiting) > 0 && at.IsZero() || len(ran) == 0 && before == len(h.m.waiting) && !at.After(h.now) {
			h.Fatalf("%d wait, next at %s", len(h.m.waiting), at)
		}
		if at.After(h.now) {
			h.now = at
		}
	}
}

func TestFloorAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHall(t)
		t.Repeat(map[string]func(*rapid.T){
			"add":   func(*rapid.T) { h.add() },
			"add2":  func(*rapid.T) { h.add() },
			"add3":  func(*rapid.T) { h.add() },
			"seat":  func(*rapid.T) { h.seat() },
			"next":  func(*rapid.T) { h.next() },
			"next2": func(*rapid.T) { h.next() },
			"end":   func(*rapid.T) { h.end() },
			"gate":  func(*rapid.T) { h.turnGate() },
			"other": func(*rapid.T) {
				switch rapid.IntRange(0, 3).Draw(t, "other") {
				case 0:
					h.remove()
				case 1:
					h.limit(rapid.SampledFrom(policies).Draw(t, "policy"))
				default:
					h.now = h.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "wait")) * 300 * time.Millisecond)
				}
			},
			"": h.counts,
		})
		h.drain()
	})
}
