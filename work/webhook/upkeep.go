package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

const (
	// sweepEvery is how often all endpoints are looked over for those that
	// were disabled and whose owners were not told. Policy time.
	sweepEvery = 5 * time.Minute
	// sweepPage is how many of them are read at once.
	sweepPage = 500
	// flushDelay is how long a failed attempt waits for company before its
	// log is written. Machine time.
	flushDelay = 500 * time.Millisecond
)

// Run does the upkeep until ctx ends: it disables endpoints of which all
// fails, tells their owners, and writes the log of attempts. Each process
// that delivers runs it once, beside its worker.
func (s *Service) Run(ctx context.Context) error {
	s.log.run(true)
	defer s.Close() //nolint:contextcheck // what is left is written after ctx ended
	var group sync.WaitGroup
	group.Go(func() { s.log.loop(ctx) })
	defer group.Wait()
	waits := s.waits()
	sweepAt := waits.Now().Add(s.config.Health.Every)
	for clock.Sleep(ctx, waits, s.config.Health.Every) == nil {
		err := s.review(ctx)
		if now := waits.Now(); !now.Before(sweepAt) {
			sweepAt = now.Add(sweepEvery)
			err = errors.Join(err, s.sweep(ctx))
		}
		if err != nil && ctx.Err() == nil {
			s.config.Log.Warn("webhook: upkeep", "error", err)
		}
	}
	return nil
}

// Close writes what the log still holds and closes idle connections. The
// service can be used on.
func (s *Service) Close() {
	s.log.run(false)
	s.log.flush(context.Background())
	s.idle()
}

func (l *journal) run(running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = running
}

// loop writes the log a moment after there is something to write.
func (l *journal) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.some:
		}
		if clock.Sleep(ctx, l.service.config.Machine, flushDelay) != nil {
			return
		}
		l.flush(ctx)
	}
}

// counts reports whether a failed attempt speaks against the endpoint.
func counts(ctx context.Context, err error) bool {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), worker.ErrTimeout) {
		return false // we were told to stop
	}
	return failure.Classify(err).Blame != failure.BlameUs
}

// review writes down what was seen of endpoints and disables those that have
// failed for long enough.
func (s *Service) review(ctx context.Context) error {
	seen := s.health.take()
	known, err := s.ailing(ctx, "", "")
	if err != nil {
		s.health.giveBackAll(seen)
		return err
	}
	var errs []error
	w, batch := store.Write{}, map[string]*streak{}
	for id, k := range seen {
		if k.gone {
			s.health.expect(id)
		}
		h := known[id]
		if !h.heed(k) {
			continue
		}
		if err := h.change(&w, id); err != nil {
			return err
		}
		known[id], batch[id] = h, k
		if len(batch) == sweepPage {
			errs = append(errs, s.record(ctx, w, batch))
			w, batch = store.Write{}, map[string]*streak{}
		}
	}
	errs = append(errs, s.record(ctx, w, batch))
	for id, h := range known {
		if h.spent(&s.config.Health, s.now()) {
			errs = append(errs, s.giveUp(ctx, id, h))
		}
	}
	for _, id := range s.health.expected() {
		errs = append(errs, s.tellIfDisabled(ctx, id))
	}
	return errors.Join(errs...)
}

// ailing lists what is remembered of endpoints that are not simply well, whose
// ids are beyond after and, unless it is empty, up to last.
func (s *Service) ailing(ctx context.Context, after, last string) (map[string]healthDoc, error) {
	known := map[string]healthDoc{}
	filter := store.RecordFilter{Kind: recordHealth, After: after, Limit: 1000}
	for {
		rows, err := s.store.Records(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("webhook: health: %w", err)
		}
		for i := range rows {
			if known[rows[i].ID], err = healthOf(&rows[i]); err != nil {
				return nil, err
			}
		}
		if len(rows) < filter.Limit || last != "" && rows[len(rows)-1].ID >= last {
			return known, nil
		}
		filter.After = rows[len(rows)-1].ID
	}
}

// record writes a batch; if another process was faster with one of them, one
// by one.
func (s *Service) record(ctx context.Context, w store.Write, batch map[string]*streak) error {
	if len(batch) == 0 {
		return nil
	}
	_, err := s.store.Write(ctx, s.storeNow(), w)
	if errors.Is(err, store.ErrConflict) {
		err = nil
		for id, k := range batch {
			if one := s.editHealth(ctx, id, func(h *healthDoc) bool { return h.heed(k) }, nil); one != nil {
				s.health.giveBack(id, k)
				err = one
			}
		}
		return err
	}
	if err != nil {
		s.health.giveBackAll(batch)
		return fmt.Errorf("webhook: health: %w", err)
	}
	return nil
}

// spent reports whether all has failed for the time and the count. The time is
// that between the first failure and the last: of an endpoint that is paused,
// or that nothing is sent to, nothing is known.
func (h *healthDoc) spent(c *Health, now time.Time) bool {
	return c.After > 0 && h.DisabledAt.IsZero() && !h.FailingSince.IsZero() && h.Failures >= c.Failures &&
		h.FailedAt.Sub(h.FailingSince) >= c.After && (h.EnabledAt.IsZero() || now.Sub(h.EnabledAt) >= c.Grace)
}

func (s *Service) giveUp(ctx context.Context, id string, h healthDoc) error {
	doc, err := s.endpoint(ctx, id)
	if errors.Is(err, ErrNotFound) {
		_, err := s.store.Write(ctx, s.storeNow(), store.Write{Drops: []store.Record{{Kind: recordHealth, ID: id, Version: store.AnyVersion}}})
		return err
	}
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("all %d attempts since %s failed", h.Failures, h.FailingSince.UTC().Format(time.RFC3339))
	if err := errors.Join(s.shut(ctx, id, reason), s.parkWaiting(ctx, id)); err != nil {
		return err
	}
	return s.announce(ctx, doc)
}

// announce tells the owner that the endpoint was disabled, once, and notes it
// in the same transaction.
func (s *Service) announce(ctx context.Context, doc *endpointDoc) error {
	gates, err := s.store.Gates(ctx, []string{doc.ID})
	if err != nil {
		return fmt.Errorf("webhook: endpoint: %s: %w", doc.ID, err)
	}
	to, err := s.listeners(ctx, doc)
	if err != nil {
		return err
	}
	now := s.now()
	return s.editHealth(ctx, doc.ID, func(h *healthDoc) bool {
		told := !h.DisabledAt.IsZero()
		h.DisabledAt = now
		return !told
	}, func(h *healthDoc, w *store.Write) error {
		payload, err := operational(TypeDisabled, now, disabledNews{
			Endpoint: doc.ID, URL: doc.URL, Owner: doc.Owner, Reason: gates[0].Disabled, FailingSince: h.FailingSince, Failures: h.Failures,
		})
		if err != nil {
			return err
		}
		_, event, err := s.draft(&Message{Type: TypeDisabled, Payload: payload, Owner: doc.Owner}, to)
		w.Puts, w.Jobs = append(w.Puts, event.Puts...), event.Jobs
		return err
	})
}

// disabledNews is the data of TypeDisabled.
type disabledNews struct {
	Endpoint     string    `json:"endpoint"`
	URL          string    `json:"url"`
	Owner        string    `json:"owner,omitempty"`
	Reason       string    `json:"reason"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failures     int       `json:"failures,omitempty"`
}

// listeners are the endpoints that are told of a disabled one: its owner's,
// and those of nobody in particular, that ask for it; never itself.
func (s *Service) listeners(ctx context.Context, of *endpointDoc) ([]*endpointDoc, error) {
	owners := []string{of.Owner}
	if of.Owner != "" {
		owners = append(owners, "")
	}
	var to []*endpointDoc
	for _, owner := range owners {
		docs, err := s.cache.owner(ctx, owner)
		if err != nil {
			return nil, fmt.Errorf("webhook: endpoint: %s: %w", of.ID, err)
		}
		for _, d := range docs {
			if d.ID != of.ID && d.wants(TypeDisabled) {
				to = append(to, d)
			}
		}
	}
	return to, nil
}

// sweep finds endpoints that were disabled, by a 410 or an order, and whose
// owners were not told.
func (s *Service) sweep(ctx context.Context) error {
	var errs []error
	filter := store.RecordFilter{Kind: recordEndpoint, Limit: sweepPage}
	for {
		rows, err := s.store.Records(ctx, filter)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("webhook: endpoints: %w", err))...)
		}
		ids := make([]string, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		gates, err := s.store.Gates(ctx, ids)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("webhook: endpoints: %w", err))...)
		}
		for i := range gates {
			if gates[i].Disabled != "" {
				errs = append(errs, s.tellIfDisabled(ctx, ids[i]))
			}
		}
		if len(rows) < filter.Limit {
			return errors.Join(append(errs, s.noticeEnabled(ctx))...)
		}
		filter.After = ids[len(ids)-1]
	}
}

// noticeEnabled begins the grace of endpoints that were enabled by their gate
// alone, as `ebb target resume` does.
func (s *Service) noticeEnabled(ctx context.Context) error {
	known, err := s.ailing(ctx, "", "")
	if err != nil {
		return err
	}
	var ids []string
	for id, h := range known {
		if !h.DisabledAt.IsZero() {
			ids = append(ids, id)
		}
	}
	gates, err := s.store.Gates(ctx, ids)
	if err != nil {
		return fmt.Errorf("webhook: endpoints: %w", err)
	}
	var errs []error
	for i := range gates {
		if gates[i].Disabled == "" {
			errs = append(errs, s.forgive(ctx, ids[i]))
		}
	}
	return errors.Join(errs...)
}

// tellIfDisabled announces an endpoint whose gate is shut for good.
func (s *Service) tellIfDisabled(ctx context.Context, id string) error {
	gates, err := s.store.Gates(ctx, []string{id})
	if err != nil || gates[0].Disabled == "" {
		return err
	}
	s.health.unexpect(id)
	doc, err := s.endpoint(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.announce(ctx, doc)
}
