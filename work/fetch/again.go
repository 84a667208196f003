package fetch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// ErrWord is the error of a word that Again does not know.
var ErrWord = errors.New("no outcome, class or group of failures; such as exhausted, soft, permanent, parked, timeout, connection, server, all")

// again turns words into what is to be queued again: an outcome (exhausted,
// soft, permanent, robots, parked), a group of classes (transient, timeout,
// connection) or a class (server, refused); "all" is all that failed. Without
// a word it is what another try may mend: exhausted, with what a host that was
// down held back, and soft.
func again(words []string) ([]store.Filter, error) {
	if len(words) == 0 {
		words = []string{string(Exhausted), string(Soft)}
	}
	var filters []store.Filter
	add := func(f store.Filter) {
		if f.State == "" {
			f.State = job.Failed
		}
		filters = append(filters, f)
	}
	for _, word := range words {
		switch Outcome(word) {
		case "all":
			add(store.Filter{})
			continue
		case Exhausted:
			for _, cause := range []job.Cause{retry.CauseExhausted, retry.CauseExpired, retry.CausePoison} {
				add(store.Filter{Cause: cause})
			}
			add(store.Filter{State: job.Parked, Cause: retry.CauseTargetDown}) // its host was down
			continue
		case Soft:
			add(store.Filter{Class: failure.SoftError})
			add(store.Filter{Class: failure.Empty})
			continue
		case Permanent:
			add(store.Filter{Cause: retry.CauseFatal})
			continue
		case Robots:
			add(store.Filter{Class: failure.PolicyDenied})
			continue
		case Parked:
			add(store.Filter{State: job.Parked})
			continue
		}
		if class, err := failure.ParseClass(word); err == nil {
			add(store.Filter{Class: class})
			continue
		}
		group, err := failure.ParseGroup(word)
		if err != nil {
			return nil, fmt.Errorf("fetch: %q: %w", word, ErrWord)
		}
		for _, class := range failure.Classes() {
			if class.Group() == group {
				add(store.Filter{Class: class})
			}
		}
	}
	return filters, nil
}

// Again queues failed or parked pages of a fetch again, with fresh tries and
// waves, and opens it if it has ended. It returns how many; Run does the rest.
func (r *Runner) Again(ctx context.Context, words []string) (int64, error) {
	filters, err := again(words)
	if err != nil {
		return 0, err
	}
	f := r.Fetch()
	var moved int64
	for _, filter := range filters {
		filter.Batch = f.ID
		n, err := r.redrive(ctx, filter, "ebb fetch retry: "+strings.Join(words, " "))
		moved += n
		if err != nil {
			return moved, err
		}
	}
	if moved == 0 {
		return 0, nil
	}
	return moved, r.change(ctx, func(f *Fetch) bool {
		f.Phase, f.Tally, f.Stopped, f.EndedAt = Passing, nil, "", time.Time{}
		f.Earlier, f.Waves = append(f.Earlier, f.Waves...), nil
		return true
	})
}
