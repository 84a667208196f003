package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// recordKind is the kind of a campaign's record, by its name with the year.
const recordKind = "campaign"

// record is what is kept of a campaign beside its runs.
type record struct {
	Name        string     `json:"name"` // of the file
	Year        int        `json:"year"`
	Queue       string     `json:"queue"`
	Policy      string     `json:"policy"`
	Limits      Limits     `json:"limits"`
	ScheduledAt time.Time  `json:"scheduled_at"`
	Sources     []planned  `json:"sources"` // in their order
	Lock        *Lock      `json:"lock,omitempty"`
	Recoveries  []Recovery `json:"recoveries,omitempty"` // newest last

	version int64
}

// planned is one source of a record.
type planned struct {
	Name     string    `json:"name"`
	Run      string    `json:"run"`
	QueuedAt time.Time `json:"queued_at"`
	// Sum is of the run's spec as the file had it; empty for a run that was
	// there before.
	Sum string `json:"sum,omitempty"`
}

// Lock holds recover back while people work on the machine.
type Lock struct {
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero" doc:"missing = until it is unlocked"`
}

// holds reports whether the lock holds at an instant.
func (l *Lock) holds(now time.Time) bool {
	return l != nil && (l.Until.IsZero() || now.Before(l.Until))
}

func (l *Lock) String() string {
	text := fmt.Sprintf("locked by %s since %s: %s", l.Actor, l.At.UTC().Format(time.RFC3339), l.Reason)
	if !l.Until.IsZero() {
		text += ", until " + l.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// Recovery is one run that was given fresh restarts.
type Recovery struct {
	At    time.Time         `json:"at"`
	Run   string            `json:"run"`
	Actor string            `json:"actor"`
	Units int64             `json:"units" doc:"how far it had come"`
	Cause string            `json:"cause,omitempty" doc:"why it had ended"`
	From  supervise.Options `json:"from"`
	To    supervise.Options `json:"to"`
}

// keptRecoveries bounds the record.
const keptRecoveries = 200

// ID is a campaign's name in a year.
func ID(name string, year int) string { return fmt.Sprintf("%s-%d", name, year) }

// load reads a campaign by its id, or the newest year of a file's name;
// store.ErrNotFound if there is none.
func (s *Service) load(ctx context.Context, name string) (*record, error) {
	r, err := s.exact(ctx, name)
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	list, err := s.store.Records(ctx, store.RecordFilter{Kind: recordKind, Limit: maxCampaigns})
	if err != nil {
		return nil, fmt.Errorf("campaign %s: %w", name, err)
	}
	for i := range list {
		one, err := decode(&list[i])
		if err != nil {
			return nil, err
		}
		if one.Name == name && (r == nil || one.Year > r.Year) {
			r = one
		}
	}
	if r == nil {
		return nil, missingError(fmt.Sprintf("campaign %s: none of that name is scheduled", name))
	}
	return r, nil
}

// maxCampaigns bounds a list.
const maxCampaigns = 500

func (s *Service) exact(ctx context.Context, id string) (*record, error) {
	rec, err := s.store.Record(ctx, recordKind, id)
	if err != nil {
		return nil, fmt.Errorf("campaign %s: %w", id, err)
	}
	return decode(&rec)
}

func decode(rec *store.Record) (*record, error) {
	r := &record{version: rec.Version}
	if err := json.Unmarshal(rec.Body, r); err != nil {
		return nil, fmt.Errorf("campaign %s: its record cannot be read: %w", rec.ID, err)
	}
	return r, nil
}

// keep writes a record in place of the version that was read, with rows of
// the audit. ErrBusy if somebody else was faster.
func (s *Service) keep(ctx context.Context, now time.Time, r *record, audit ...store.AuditRow) error {
	if n := len(r.Recoveries); n > keptRecoveries {
		r.Recoveries = r.Recoveries[n-keptRecoveries:]
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	id := ID(r.Name, r.Year)
	for i := range audit {
		audit[i].What = id
	}
	_, err = s.store.Write(ctx, now, store.Write{
		Puts:  []store.Record{{Kind: recordKind, ID: id, Version: r.version, Body: body}},
		Audit: audit,
	})
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("campaign %s: %w", id, ErrBusy)
	}
	if err != nil {
		return fmt.Errorf("campaign %s: %w", id, err)
	}
	r.version++
	return nil
}

// Lock holds recover back; for ever where length is 0.
func (s *Service) Lock(ctx context.Context, now time.Time, actor, name, reason string, length time.Duration) error {
	if strings.TrimSpace(reason) == "" {
		return fmt.Errorf("campaign %s: lock: a reason is needed, for who finds it locked", name)
	}
	r, err := s.load(ctx, name)
	if err != nil {
		return err
	}
	r.Lock = &Lock{Actor: actor, Reason: reason, At: now.UTC()}
	if length > 0 {
		r.Lock.Until = now.Add(length).UTC()
	}
	return s.keep(ctx, now, r, store.AuditRow{Actor: actor, Act: "campaign.lock", Detail: reason})
}

// Unlock ends the lock, if there is one.
func (s *Service) Unlock(ctx context.Context, now time.Time, actor, name string) error {
	r, err := s.load(ctx, name)
	if err != nil || r.Lock == nil {
		return err
	}
	r.Lock = nil
	return s.keep(ctx, now, r, store.AuditRow{Actor: actor, Act: "campaign.unlock"})
}
