package crashtest

import (
	"context"
	"fmt"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Account is what the store says of itself.
type Account struct {
	Jobs      map[int64]job.Job
	Ledger    map[int64][]job.Attempt
	Counts    map[job.State]int64 // as it keeps them, over all queues
	Processes []store.Process
}

var states = []job.State{job.Queued, job.Running, job.Succeeded, job.Failed, job.Parked, job.Cancelled}

// ReadAccount reads everything.
func ReadAccount(ctx context.Context, s store.Store) (Account, error) {
	a := Account{Jobs: map[int64]job.Job{}, Ledger: map[int64][]job.Attempt{}}
	for _, state := range states {
		if err := a.list(ctx, s, state); err != nil {
			return a, fmt.Errorf("crashtest: account: %w", err)
		}
	}
	for seq := range a.Jobs {
		rows, err := s.Attempts(ctx, seq)
		if err != nil {
			return a, fmt.Errorf("crashtest: account: %w", err)
		}
		a.Ledger[seq] = rows
	}
	var err error
	if a.Counts, err = counts(ctx, s); err != nil {
		return a, err
	}
	if a.Processes, err = s.Processes(ctx); err != nil {
		return a, fmt.Errorf("crashtest: account: %w", err)
	}
	return a, nil
}

func (a *Account) list(ctx context.Context, s store.Store, state job.State) error {
	const page = 1000
	for before := int64(0); ; {
		jobs, err := s.List(ctx, store.Filter{State: state}, store.Page{Before: before, Limit: page})
		if err != nil {
			return err
		}
		for i := range jobs {
			before = jobs[i].Seq
			if twin, twice := a.Jobs[before]; twice {
				return fmt.Errorf("%s is listed as %s and as %s", job.FormatID(before), twin.State, state)
			}
			a.Jobs[before] = jobs[i]
		}
		if len(jobs) < page {
			return nil
		}
	}
}

// counts adds up what the queues keep.
func counts(ctx context.Context, s store.Store) (map[job.State]int64, error) {
	queues, err := s.Queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("crashtest: counts: %w", err)
	}
	sum := map[job.State]int64{}
	for _, q := range queues {
		for state, n := range q.Counts {
			sum[state] += n
		}
	}
	return sum, nil
}

// looks is how many looks at the evidence come to one question to the store.
const looks = 10

// Drained waits until nothing is queued or running and no process is listed
// but the living ones of the fleet.
func (f *Fleet) Drained(ctx context.Context, s store.Store) error {
	n := 0
	return f.Until(ctx, "everything is drained", func() (bool, error) {
		if n++; n%looks != 0 {
			return false, nil
		}
		sum, err := counts(ctx, s)
		if err != nil || sum[job.Queued]+sum[job.Running] > 0 {
			return false, err
		}
		listed, err := s.Processes(ctx)
		return len(listed) == len(f.Alive()), err
	})
}
