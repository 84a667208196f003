package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
)

const (
	// tallyEvery is how often the audit is told of enqueues: one row for each
	// who and queue, not one for each job, for jobs tell of themselves.
	tallyEvery = time.Hour
	// maxTally bounds the rows of one telling; the rest is told together.
	maxTally = 100
	// lastTally is how long the last telling may take.
	lastTally = 5 * time.Second
)

// tally counts who enqueued how many jobs into which queue, for the audit.
type tally struct {
	engine.Ops
	records store.Records

	mu     sync.Mutex
	counts map[enqueuer]int
}

type enqueuer struct{ who, queue string }

func newTally(o engine.Ops, r store.Records) *tally {
	return &tally{Ops: o, records: r, counts: map[enqueuer]int{}}
}

// Enqueue adds the jobs and counts those that were made.
func (t *tally) Enqueue(ctx context.Context, jobs ...engine.NewJob) ([]engine.Enqueued, error) {
	added, err := t.Ops.Enqueue(ctx, jobs...)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range added {
		if added[i].Existing {
			continue
		}
		by := enqueuer{engine.ActorOf(ctx), added[i].Queue}
		if _, known := t.counts[by]; !known && len(t.counts) >= maxTally {
			by = enqueuer{"others", "others"}
		}
		t.counts[by]++
	}
	return added, err
}

// run tells the audit until the context ends, and once more then.
func (t *tally) run(ctx context.Context) error {
	every := time.NewTicker(tallyEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-every.C:
			_ = t.tell(ctx) // what could not be written is told the next time
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTally)
	defer cancel()
	_ = t.tell(last) // the server ends whether or not its audit is complete
	return nil
}

// tell writes what was counted; after an error it is still counted.
func (t *tally) tell(ctx context.Context) error {
	t.mu.Lock()
	counts := t.counts
	t.counts = map[enqueuer]int{}
	t.mu.Unlock()
	if len(counts) == 0 {
		return nil
	}
	var rows []store.AuditRow
	for _, by := range slices.SortedFunc(maps.Keys(counts), func(a, b enqueuer) int {
		return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.queue, b.queue))
	}) {
		rows = append(rows, store.AuditRow{Actor: cmp.Or(by.who, "unknown"), Act: "job.enqueue", What: by.queue, Detail: count(counts[by], "job")})
	}
	_, err := t.records.Write(ctx, time.Time{}, store.Write{Audit: rows})
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		for by, n := range counts {
			t.counts[by] += n
		}
	}
	return err
}
