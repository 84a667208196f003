package ebbtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/ebbtest"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
)

// TestSpacedKeptWorkComesToRest: policies whose starts are spaced and whose
// retries keep their slots drain with few slots too, with a target and without.
func TestSpacedKeptWorkComesToRest(t *testing.T) {
	for _, preset := range []string{"scrape", "polite", "annual-crawl"} {
		for _, slots := range []int{1, 3} {
			for _, target := range []string{"", "host"} {
				t.Run(fmt.Sprintf("%s/slots=%d/target=%s", preset, slots, target), func(t *testing.T) {
					e := ebbtest.New(t, ebb.WithConcurrency(slots))
					ebb.Handle(e.Client, "k", func(context.Context, *ebb.Task, int) error {
						if e.Now().Sub(ebbtest.Epoch) < 5*time.Minute {
							return &failure.Error{Failure: failure.Status(503)}
						}
						return nil
					})
					var ids []string
					for i := range 9 {
						ids = append(ids, e.Enqueue(ebb.Job{Kind: "k", Policy: preset, Args: i, Target: target}))
					}
					e.Drain()
					for _, id := range ids {
						j, err := e.Client.Job(t.Context(), id)
						if err != nil {
							t.Fatal(err)
						}
						if j.State != job.Succeeded && j.State != job.Failed {
							t.Errorf("job %s is %s after all came to rest", id, j.State)
						}
					}
				})
			}
		}
	}
}
