package document

import (
	"context"
	"time"
)

// upkeepEvery is how often calls are added up into days, and jobs looked for
// that were left behind their documents.
const upkeepEvery = time.Minute

// Run does the upkeep until the context ends.
func (s *Service) Run(ctx context.Context) error {
	t := time.NewTicker(upkeepEvery)
	defer t.Stop()
	for {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.Fold(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("document: accounts: tried again in a minute", "error", err)
			}
		}
		if _, err := s.Mend(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("document: jobs left behind: tried again in a minute", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-s.suspects:
		}
	}
}
