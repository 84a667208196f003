package campaign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// AutoActor is named in the audit for what AutoRecover does.
const AutoActor = "auto-recover"

// RecoverAll recovers one run of every campaign that needs it, and returns
// what was done.
func (s *Service) RecoverAll(ctx context.Context, now time.Time, actor string) ([]Recovered, error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	var done []Recovered
	var errs []error
	for i := range list {
		if list[i].State == "done" {
			continue
		}
		r, err := s.Recover(ctx, now, actor, list[i].Campaign, true)
		switch {
		case errors.Is(err, ErrBusy): // another server was faster
		case err != nil:
			errs = append(errs, fmt.Errorf("campaign %s: %w", list[i].Campaign, err))
		case r.Applied:
			done = append(done, r)
		}
	}
	return done, errors.Join(errs...)
}

// AutoRecover calls RecoverAll at once and then every so often, machine time,
// until the context ends. What it does and what it cannot do is logged.
func (s *Service) AutoRecover(ctx context.Context, every time.Duration, log *slog.Logger) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		now, err := s.store.Now(ctx)
		if err == nil {
			var done []Recovered
			done, err = s.RecoverAll(ctx, now, AutoActor)
			for i := range done {
				act := done[i].Acts()
				log.Warn("campaign: recovered", "campaign", done[i].Campaign, "run", act.Run, "verb", string(act.Verb), "why", act.Why)
			}
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("campaign: auto-recover", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
