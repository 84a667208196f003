package document_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
	"github.com/ebbhq/ebb/worker"
)

// dying does the work and dies before its job hears of it, or dies before it
// has done anything, as the deaths say; a crash is what the reaper makes of it.
func dying(deaths []string, next worker.Handler) worker.Handler {
	return func(ctx context.Context, t *worker.Task) error {
		if len(deaths) == 0 {
			return next(ctx, t)
		}
		if deaths[0] == "late" {
			_ = next(ctx, t)
		}
		deaths = deaths[1:]
		return failure.New(failure.Crash, "", nil)
	}
}

// TestDiesBeforeItIsSettled: a process that dies after its last write and
// before the settle has nothing left to ask: not for an answer that was good,
// nor for one that was refused. Fresh attempts ask anew.
func TestDiesBeforeItIsSettled(t *testing.T) {
	for text, want := range map[string]job.State{`{"total": 1}`: job.Succeeded, `no`: job.Failed} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, setup{piped: true, workers: -1, script: func(providertest.Call) providertest.Act { return providertest.Act{Text: text} }})
			r.put("a.txt", "A")
			b := r.submit(submission("a.txt"))
			w, err := worker.New(r.store, worker.Config{
				Handlers: map[string]worker.Handler{document.Kind: dying([]string{"late", "early"}, r.service.Handle)}, Queues: []string{document.Queue},
				Policies: []policy.Policy{policy.MustPreset("processing")}, Observe: r.note,
			})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- w.Run(context.Background()) }()
			d := r.ended(b)[0]
			if d.State != want || d.Attempts != 3 || len(r.provider.Calls()) != 1 {
				t.Errorf("%s: %s after %d attempts, %d calls: %s", text, d.State, d.Attempts, len(r.provider.Calls()), d.Error)
			}
			if want == job.Failed {
				if _, err := r.service.Requeue(t.Context(), document.Selection{IDs: []string{d.ID}}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if d = r.ended(b)[0]; d.State != job.Failed || len(r.provider.Calls()) != 2 || d.Attempts != 1 {
					t.Errorf("requeued: %s after %d attempts, %d calls", d.State, d.Attempts, len(r.provider.Calls()))
				}
			}
			w.Stop()
			w.Stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
