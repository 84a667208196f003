package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
)

// streak is what this process saw of one endpoint since upkeep looked last.
type streak struct {
	okAt     time.Time // the last success; zero = none
	failedAt time.Time // the first failure after it; zero = none
	lastAt   time.Time // the last failure
	failures int       // since okAt
	gone     bool
}

// watch gathers outcomes. A success costs a map's entry, and nothing is
// written for endpoints that are well.
type watch struct {
	mu   sync.Mutex
	seen map[string]*streak
	gone map[string]int // answered 410: looks left until its gate must say so
}

// goneLooks is how often an endpoint that answered 410 is looked at; the sweep
// finds those whose gate took longer.
const goneLooks = 6

func newWatch() *watch { return &watch{seen: map[string]*streak{}, gone: map[string]int{}} }

// saw notes the end of an attempt; an err speaks against the endpoint.
func (w *watch) saw(endpoint string, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.seen[endpoint]
	if k == nil {
		k = &streak{}
		w.seen[endpoint] = k
	}
	if err == nil {
		*k = streak{okAt: now}
		return
	}
	if k.failures++; k.failedAt.IsZero() {
		k.failedAt = now
	}
	k.lastAt = now
	k.gone = k.gone || failure.Classify(err).Class == failure.Gone
}

// expect notes that the endpoint's gate may be about to shut.
func (w *watch) expect(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[id] = goneLooks
}

func (w *watch) unexpect(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.gone, id)
}

// expected lists what to look at, each a few times.
func (w *watch) expected() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := slices.Sorted(maps.Keys(w.gone))
	for _, id := range ids {
		if w.gone[id]--; w.gone[id] <= 0 {
			delete(w.gone, id)
		}
	}
	return ids
}

func (w *watch) take() map[string]*streak {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = make(map[string]*streak, len(seen))
	return seen
}

// healthDoc is what is remembered of an endpoint that fails, or that was
// disabled or enabled again.
type healthDoc struct {
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failures     int       `json:"failures,omitempty"`
	FailedAt     time.Time `json:"failed_at,omitzero"`   // the last of them
	EnabledAt    time.Time `json:"enabled_at,omitzero"`  // by the last Resume of a disabled one
	DisabledAt   time.Time `json:"disabled_at,omitzero"` // its owner was told

	version int64
}

func healthOf(r *store.Record) (healthDoc, error) {
	h := healthDoc{version: r.Version}
	if err := json.Unmarshal(r.Body, &h); err != nil {
		return h, fmt.Errorf("webhook: health: %s: its record cannot be read: %w", r.ID, err)
	}
	return h, nil
}

// failing reads the health of one endpoint; zero = it is well.
func (s *Service) failing(ctx context.Context, id string) (healthDoc, error) {
	r, err := s.store.Record(ctx, recordHealth, id)
	if errors.Is(err, store.ErrNotFound) {
		return healthDoc{}, nil
	}
	if err != nil {
		return healthDoc{}, fmt.Errorf("webhook: health: %s: %w", id, err)
	}
	return healthOf(&r)
}

// healths reads the health of endpoints that are in the order of their ids.
func (s *Service) healths(ctx context.Context, docs []*endpointDoc) (map[string]healthDoc, error) {
	switch len(docs) {
	case 0:
		return nil, nil
	case 1:
		h, err := s.failing(ctx, docs[0].ID)
		return map[string]healthDoc{docs[0].ID: h}, err
	}
	first := docs[0].ID
	return s.ailing(ctx, first[:len(first)-1], docs[len(docs)-1].ID) // what begins alike comes after its beginning
}

// heed adds to what is remembered what was seen.
func (h *healthDoc) heed(k *streak) (changed bool) {
	if !k.okAt.IsZero() && !h.FailingSince.IsZero() && !k.okAt.Before(h.FailingSince) {
		h.FailingSince, h.FailedAt, h.Failures, changed = time.Time{}, time.Time{}, 0, true
	}
	if k.failures > 0 {
		if h.FailingSince.IsZero() {
			h.FailingSince = k.failedAt
		}
		h.Failures += k.failures
		if k.lastAt.After(h.FailedAt) {
			h.FailedAt = k.lastAt
		}
		changed = true
	}
	return changed
}

// change is the write of a health record: none is kept of the well.
func (h *healthDoc) change(w *store.Write, id string) error {
	version := h.version
	if h.FailingSince.IsZero() && h.EnabledAt.IsZero() && h.DisabledAt.IsZero() {
		if version != 0 {
			w.Drops = append(w.Drops, store.Record{Kind: recordHealth, ID: id, Version: version})
		}
		return nil
	}
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	w.Puts = append(w.Puts, store.Record{Kind: recordHealth, ID: id, Version: version, Body: body})
	return nil
}

// editHealth reads, changes and writes the health of one endpoint. A change
// that says no ends it. more, if not nil, adds to the write.
func (s *Service) editHealth(ctx context.Context, id string, change func(*healthDoc) bool, more func(*healthDoc, *store.Write) error) error {
	for try := 1; ; try++ {
		h, err := s.failing(ctx, id)
		if err != nil {
			return err
		}
		if !change(&h) {
			return nil
		}
		var w store.Write
		if err := h.change(&w, id); err != nil {
			return err
		}
		if more != nil {
			if err := more(&h, &w); err != nil {
				return err
			}
		}
		_, err = s.store.Write(ctx, s.storeNow(), w)
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrConflict) || try == editTries {
			return fmt.Errorf("webhook: health: %s: %w", id, err)
		}
	}
}

// forgive begins the grace of an endpoint that is enabled again.
func (s *Service) forgive(ctx context.Context, id string) error {
	s.health.forget(id)
	return s.editHealth(ctx, id, func(h *healthDoc) bool {
		*h = healthDoc{EnabledAt: s.now(), version: h.version}
		return true
	}, nil)
}

func (w *watch) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, id)
}

// giveBack returns what could not be written, for the next look.
func (w *watch) giveBack(id string, old *streak) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.seen[id]
	switch {
	case k == nil:
		w.seen[id] = old
	case k.okAt.IsZero():
		k.okAt, k.failures, k.gone = old.okAt, k.failures+old.failures, k.gone || old.gone
		if !old.failedAt.IsZero() {
			k.failedAt = old.failedAt
		}
		if old.lastAt.After(k.lastAt) {
			k.lastAt = old.lastAt
		}
	}
}

func (w *watch) giveBackAll(seen map[string]*streak) {
	for id, k := range seen {
		w.giveBack(id, k)
	}
}
