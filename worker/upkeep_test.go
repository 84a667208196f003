package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// TestUpkeepAlone: a worker without handlers claims nothing, and does what
// somebody must do: it takes over from the dead, carries out redrives and
// fires schedules.
func TestUpkeepAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		broken := newRig(t, s, Config{Handlers: map[string]Handler{"bad": func(context.Context, *Task) error {
			return failure.Fatal(errors.New("broken"))
		}}})
		dead := broken.enqueue(job.New{Kind: "bad"})[0]
		pass(time.Second)
		broken.stop()
		state(t, s, dead, job.Failed, retry.CauseFatal)
		lost := enqueue(t, s, job.New{Kind: "k"}, job.New{Kind: "k", Policy: "processing"})
		crash(t, s, Config{})

		r := newRig(t, s, Config{})
		begin := time.Now()
		if err := s.PutPeriodic(t.Context(), time.Time{}, "op", store.Periodic{Name: "reports", Cron: "*/10 * * * *", Job: job.New{Kind: "report"}, NextAt: begin.Add(10 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.StartRedrive(t.Context(), time.Time{}, store.Redrive{Filter: store.Filter{State: job.Failed}, Actor: "me"}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		for _, seq := range append(lost, dead) {
			state(t, s, seq, job.Queued, "")
		}
		reports, err := s.List(t.Context(), store.Filter{Kind: "report"}, store.Page{Limit: 10})
		if err != nil || len(reports) != 1 {
			t.Errorf("%d reports, %v; want 1", len(reports), err)
		}
		if n := len(r.seen(Reaped)); n != 1 {
			t.Errorf("%d processes were taken for dead, want 1", n)
		}
		if claimed := r.seen(Claimed); len(claimed) != 0 {
			t.Errorf("it claimed %+v", claimed)
		}
	})
}
