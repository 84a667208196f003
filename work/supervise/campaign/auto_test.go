package campaign

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
)

// It recovers at once, then at its times, within the same limits as a person.
func TestAutoRecover(t *testing.T) {
	c, err := Parse("annual.yaml", []byte(annual), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := deskOver(t, &c, clock.NewFake(time.Now()), nil)
		d.schedule(true)
		for range 3 {
			d.fail(timeouts)
		}
		var told strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- d.service.AutoRecover(ctx, 5*time.Minute, slog.New(slog.NewTextHandler(&told, nil)))
		}()
		synctest.Wait()
		if r := d.run("hc-2026"); r.State != job.Queued {
			t.Errorf("%+v", r)
		}
		<-time.After(6 * time.Minute) // of the bubble's clock
		synctest.Wait()
		if r := d.run("phac-2026"); r.State != job.Parked {
			t.Errorf("a second one was recovered before the first got further: %+v", r)
		}
		d.units("hc-2026", `{"high":3}`)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if r := d.run("phac-2026"); r.State != job.Queued {
			t.Errorf("%+v", r)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if text := told.String(); strings.Count(text, "campaign: recovered") != 2 || !strings.Contains(text, "run=hc-2026 verb=restart") {
			t.Error(text)
		}
		if rows, err := d.store.Audit(t.Context(), 10); err != nil || rows[0].Actor != AutoActor {
			t.Errorf("%+v %v", rows, err)
		}
	})
}
