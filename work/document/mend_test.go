package document_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
	"github.com/ebbhq/ebb/worker"
)

// spent leaves a document whose process died on its fourth attempt between the
// row and the settle: its job is a dead letter.
func spent(t *testing.T, r *rig) (document.Batch, job.Job) {
	t.Helper()
	r.put("a.txt", "A")
	b := r.submit(submission("a.txt"))
	w, err := worker.New(r.store, worker.Config{
		Handlers: map[string]worker.Handler{document.Kind: dying([]string{"early", "early", "early", "late"}, r.service.Handle)}, Queues: []string{document.Queue},
		Policies: []policy.Policy{policy.MustPreset("processing")}, Observe: r.note,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	d := r.ended(b)[0]
	w.Stop()
	w.Stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	j := r.job(d.Job)
	if d.State != job.Succeeded || d.Calls != 1 || j.State != job.Failed || j.History.Attempts != 4 {
		t.Fatalf("document %s after %d calls, job %s after %d attempts", d.State, d.Calls, j.State, j.History.Attempts)
	}
	return b, j
}

func (r *rig) job(id string) job.Job {
	r.t.Helper()
	seq, err := job.ParseID(id)
	if err != nil {
		r.t.Fatal(err)
	}
	j, err := r.store.Job(r.t.Context(), seq)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// settles runs a worker until the job has succeeded, without asking the model.
func (r *rig) settles(b document.Batch, j job.Job) {
	r.t.Helper()
	asked := len(r.provider.Calls())
	r.work([]policy.Policy{policy.MustPreset("processing")})
	d := r.ended(b)[0]
	if got := r.job(j.ID()); got.State != job.Succeeded || len(got.Result) == 0 || d.State != job.Succeeded || len(r.provider.Calls()) != asked {
		r.t.Errorf("job %s (result %s), document %s, %d calls after %d", got.State, got.Result, d.State, len(r.provider.Calls()), asked)
	}
}

// TestLastAttemptDiesBeforeItIsSettled: the result is durable, so the job is
// no dead letter: whoever queues it again, the upkeep by itself, a person's
// requeue or redrive, has it settled succeeded and pays for nothing.
func TestLastAttemptDiesBeforeItIsSettled(t *testing.T) {
	for name, again := range map[string]func(r *rig, b document.Batch, j job.Job){
		"upkeep": func(r *rig, _ document.Batch, _ job.Job) {
			if n, err := r.service.Mend(r.t.Context()); n != 1 || err != nil {
				r.t.Errorf("%d mended: %v", n, err)
			}
			if n, err := r.service.Mend(r.t.Context()); n != 0 || err != nil {
				r.t.Errorf("%d mended again: %v", n, err)
			}
			acts, err := r.store.Audit(r.t.Context(), 10)
			if err != nil || !slices.ContainsFunc(acts, func(a store.AuditRow) bool { return a.Actor == "ebb document: its result was kept" }) {
				r.t.Errorf("audit %+v: %v", acts, err)
			}
		},
		"requeue": func(r *rig, b document.Batch, _ job.Job) {
			id := r.documents(b)[0].ID
			if got, err := r.service.Requeue(r.t.Context(), document.Selection{IDs: []string{id}}); err != nil || len(got.Documents) != 1 {
				r.t.Errorf("%v: %v", got, err)
			}
			if _, err := r.service.Requeue(r.t.Context(), document.Selection{IDs: []string{id}}); !errors.Is(err, engine.ErrState) {
				r.t.Errorf("once more: %v", err)
			}
		},
		"redrive": func(r *rig, _ document.Batch, j job.Job) {
			if _, err := r.ops.Retry(r.t.Context(), j.ID()); err != nil {
				r.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, setup{piped: true, workers: -1})
				b, j := spent(t, r)
				again(r, b, j)
				r.settles(b, j)
			})
		})
	}
}

// TestMendedWithoutItsProvider: a document that is done needs neither its
// provider nor its model any more.
func TestMendedWithoutItsProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{piped: true, workers: -1})
		b, j := spent(t, r)
		var err error
		other := document.Settings{Providers: map[string]document.Provider{"other": {BaseURL: r.provider.Base()}}}
		if r.service, err = document.New(document.Config{Store: r.store, Ops: r.ops, Settings: other, Log: quiet}); err != nil {
			t.Fatal(err)
		}
		if n, err := r.service.Mend(t.Context()); n != 1 || err != nil {
			t.Errorf("%d mended: %v", n, err)
		}
		r.settles(b, j)
	})
}

// TestMendLeavesFailures: what truly failed, and what is parked, stays.
func TestMendLeavesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{piped: true, script: func(c providertest.Call) providertest.Act {
			return providertest.Act{Status: 503}
		}})
		r.put("a.txt", "A")
		r.put("b.txt", " ")
		for _, d := range r.ended(r.submit(submission("a.txt", "b.txt"))) {
			if d.State != job.Failed {
				t.Errorf("%s is %s", d.Input, d.State)
			}
		}
		if n, err := r.service.Mend(t.Context()); n != 0 || err != nil {
			t.Errorf("%d mended: %v", n, err)
		}
	})
}

// mortal is the store of a process that dies when it settles its first success:
// between its last write and the settle.
type mortal struct {
	store.Store
	dead *atomic.Bool
}

var errDead = errors.New("this process is dead")

func (m mortal) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	if slices.ContainsFunc(t.Settles, func(s store.Settle) bool { return s.To == job.Succeeded }) {
		m.dead.Store(true)
	}
	if m.dead.Load() {
		return store.Turned{}, errDead
	}
	return m.Store.Turn(ctx, t)
}

func (m mortal) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.Store.Beat(ctx, now, process)
}

func (m mortal) Processes(ctx context.Context) ([]store.Process, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.Store.Processes(ctx)
}

// TestReapedAfterItsLastWrite: a worker dies on the last attempt, another one
// reaps it, which makes the job a dead letter; the upkeep hears of it and the
// job ends succeeded, all by itself and long before the next minute.
func TestReapedAfterItsLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy.MustPreset("processing")
		r := newRig(t, setup{piped: true, workers: -1})
		r.put("a.txt", "A")
		b := r.submit(submission("a.txt"))
		dead := &atomic.Bool{}
		victim, err := worker.New(mortal{r.store, dead}, worker.Config{
			Handlers: map[string]worker.Handler{document.Kind: dying([]string{"early", "early", "early"}, r.service.Handle)}, Queues: []string{document.Queue},
			Policies: []policy.Policy{p},
		})
		if err != nil {
			t.Fatal(err)
		}
		life, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- victim.Run(life) }()
		for !dead.Load() {
			<-time.After(time.Second)
		}
		if d := r.documents(b)[0]; d.Stage != document.StageDone || d.Attempts != 3 {
			t.Fatalf("dead at %s after %d attempts", d.Stage, d.Attempts)
		}
		go func() { _ = r.service.Run(life) }()
		r.work([]policy.Policy{p})
		id := r.documents(b)[0].Job
		for began := time.Now(); r.job(id).State != job.Succeeded; {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("the job is %s", r.job(id).State)
			}
			<-time.After(time.Second)
		}
		if n := len(r.provider.Calls()); n != 1 {
			t.Errorf("%d calls", n)
		}
		if acts, err := r.store.Audit(t.Context(), 10); err != nil || len(acts) != 1 {
			t.Errorf("audit %+v: %v", acts, err)
		}
		victim.Stop()
		victim.Stop()
		end()
		<-ended
	})
}
