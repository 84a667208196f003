package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/wave"
)

// RecordKind is the kind of a fetch's record in the store; its Ref is the
// fetch's name.
const RecordKind = "fetch"

// Phase is where a fetch stands.
type Phase string

const (
	Loading Phase = "loading" // the input is being taken in
	Passing Phase = "passing" // the first pass, or the last of Waves, is under way
	Cooling Phase = "cooling" // the last of Waves waits for its cooldown
	Ended   Phase = "ended"
)

// Wave is what one wave did. Planned is decided before the cooldown, the rest
// when it is over.
type Wave struct {
	Number      int           `json:"number"`
	Planned     int64         `json:"planned"`
	Tried       int64         `json:"tried"`
	Recovered   int64         `json:"recovered"`
	Classes     []string      `json:"classes"` // of the failures it takes up
	Cooldown    time.Duration `json:"cooldown_ns"`
	Concurrency int           `json:"concurrency"`
	Spacing     time.Duration `json:"spacing_ns"`
	PlannedAt   time.Time     `json:"planned_at"`
	StartAt     time.Time     `json:"start_at"` // end of the cooldown
	EndedAt     time.Time     `json:"ended_at,omitzero"`
}

// Fetch is the record of one fetch.
type Fetch struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Phase     Phase     `json:"phase"`
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Policy is the name and version of what was promised.
	Policy  string `json:"policy"`
	Version string `json:"policy_version"`
	Waiver  string `json:"waiver,omitempty"`
	// Input counts the distinct URLs of the input, Repeated what named one of
	// them again. Pages found by following links are not in it.
	Input    int64 `json:"input"`
	Repeated int64 `json:"repeated,omitempty"`
	// Follows says that links are followed.
	Follows     bool `json:"follows,omitempty"`
	Conditional bool `json:"conditional,omitempty"`
	// SameBody are the digests of pages that turned out to be one error page,
	// Recalled how many had been taken for fetched: each has a job anew, and
	// its first one is in no account.
	SameBody []string  `json:"same_body,omitempty"`
	Recalled int64     `json:"recalled,omitempty"`
	Waves    []Wave    `json:"waves,omitempty"`
	Earlier  []Wave    `json:"earlier_waves,omitempty"` // before a retry by order
	Stopped  wave.Stop `json:"stopped,omitempty"`       // why there is no further wave
	Previous string    `json:"previous,omitempty"`
	Tally    *Tally    `json:"tally,omitempty"` // of a fetch that ended
	// Settings are the caller's own, for whoever goes on with the fetch.
	Settings json.RawMessage `json:"settings,omitempty"`

	version int64
}

// Wave returns the number of the wave under way; 0 = the first pass.
func (f *Fetch) Wave() int { return len(f.Waves) }

// Queue is the queue of the fetch's jobs; its batch is the fetch's id.
func (f *Fetch) Queue() string { return "fetch/" + f.ID }

func decode(r store.Record) (Fetch, error) {
	var f Fetch
	if err := json.Unmarshal(r.Body, &f); err != nil {
		return f, fmt.Errorf("fetch: record %s: %w", r.ID, err)
	}
	f.version = r.Version
	return f, nil
}

func (f *Fetch) record() (store.Record, error) {
	body, err := json.Marshal(f)
	return store.Record{Kind: RecordKind, ID: f.ID, Ref: f.Name, Version: f.version, Body: body}, err
}

// List returns fetches, the newest first; of all names if name is empty.
func List(ctx context.Context, s store.Records, name, after string, limit int) ([]Fetch, error) {
	records, err := s.Records(ctx, store.RecordFilter{Kind: RecordKind, Ref: name, After: after, Down: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	list := make([]Fetch, len(records))
	for i, r := range records {
		if list[i], err = decode(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Find returns the fetch of that id; store.ErrNotFound if there is none.
func Find(ctx context.Context, s store.Records, id string) (Fetch, error) {
	r, err := s.Record(ctx, RecordKind, id)
	if err != nil {
		return Fetch{}, err
	}
	return decode(r)
}

// latest returns the newest fetch of the name, if there is any.
func latest(ctx context.Context, s store.Records, name string) (Fetch, bool, error) {
	list, err := List(ctx, s, name, "", 1)
	if err != nil || len(list) == 0 {
		return Fetch{}, false, err
	}
	return list[0], true, nil
}

// number is the running number in an id, NAME.000001.
func (f *Fetch) number() int {
	var n int
	_, err := fmt.Sscanf(f.ID[strings.LastIndexByte(f.ID, '.')+1:], "%d", &n)
	if err != nil {
		return 0
	}
	return n
}

// change applies what do says to the fetch's record, however often others
// change it meanwhile. do returns false if nothing is to be done any more.
func (r *Runner) change(ctx context.Context, do func(*Fetch) bool) error {
	for {
		next := r.Fetch()
		if !do(&next) {
			return nil
		}
		rec, err := next.record()
		if err != nil {
			return err
		}
		_, err = r.o.Store.Write(ctx, r.o.now(), store.Write{Puts: []store.Record{rec}})
		switch {
		case err == nil:
			next.version++
			r.set(next)
			return nil
		case !errors.Is(err, store.ErrConflict):
			return fmt.Errorf("fetch: %s: %w", next.ID, err)
		}
		if err := r.reload(ctx); err != nil {
			return err
		}
	}
}

// reload reads the record again.
func (r *Runner) reload(ctx context.Context) error {
	now, err := Find(ctx, r.o.Store, r.Fetch().ID)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	r.set(now)
	return nil
}

// Fetch returns the record as this process knows it.
func (r *Runner) Fetch() Fetch {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fetch
	f.Waves = append([]Wave(nil), f.Waves...)
	return f
}

func (r *Runner) set(f Fetch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fetch = f
}
