package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// ErrLive is returned where a run of the name is queued, running or parked.
var ErrLive = errors.New("it is queued, running or parked already")

// ErrUnchanged is returned where a run is parked for its command, and the
// command is the same as before.
var ErrUnchanged = errors.New("it is parked until its command changes, and the command is the same")

// Submission is a run to be queued.
type Submission struct {
	Spec  Spec
	Queue string    // default DefaultQueue
	DueAt time.Time // zero = now
	// Actor is named in the audit.
	Actor string
}

// BatchOf is the batch of all jobs of a run: lists of jobs select by it.
func BatchOf(name string) string { return "run/" + name }

// Submit keeps the runs and queues a job for each, all or nothing. now is
// policy time; zero = the database's clock. A run whose last job has ended is
// done anew; ErrLive if it has not.
func (s *Service) Submit(ctx context.Context, now time.Time, list ...Submission) ([]store.Enqueued, error) {
	var w store.Write
	for i := range list {
		sub := &list[i]
		spec, err := Seal(sub.Spec)
		if err != nil {
			return nil, fmt.Errorf("supervise: run %s: %w", sub.Spec.Name, err)
		}
		if err := s.known(&spec); err != nil {
			return nil, err
		}
		if err := s.addRun(ctx, &w, sub, &spec); err != nil {
			return nil, err
		}
	}
	got, err := s.config.Store.Write(ctx, now, w)
	if err != nil {
		return nil, fmt.Errorf("supervise: submit: %w", err)
	}
	newest := make(map[string]int64, len(got))
	for i, e := range got {
		if e.Existing {
			return got, fmt.Errorf("supervise: run %s: %w", list[i].Spec.Name, ErrLive)
		}
		newest[list[i].Spec.Name] = e.Seq
	}
	return got, s.point(ctx, newest)
}

// addRun adds one run to a write.
func (s *Service) addRun(ctx context.Context, w *store.Write, sub *Submission, spec *Spec) error {
	last, err := s.lastJob(ctx, spec.Name)
	if err != nil {
		return err
	}
	if last != nil && last.State.Live() {
		return fmt.Errorf("supervise: run %s: %w (job %s)", spec.Name, ErrLive, last.ID())
	}
	put, err := putSpec(spec)
	if err != nil {
		return err
	}
	body, err := json.Marshal(args{Run: spec.Name})
	if err != nil {
		return err
	}
	queue := sub.Queue
	if queue == "" {
		queue = DefaultQueue
	}
	w.Puts = append(w.Puts, put)
	w.Jobs = append(w.Jobs, job.New{
		Kind: Kind, Queue: queue, Unique: BatchOf(spec.Name), Policy: spec.Policy, DueAt: sub.DueAt, Batch: BatchOf(spec.Name), Args: body,
	})
	w.Audit = append(w.Audit, store.AuditRow{Actor: sub.Actor, Act: "run.submit", What: spec.Name, Detail: spec.Command.String()})
	return nil
}

func putSpec(spec *Spec) (store.Record, error) {
	body, err := json.Marshal(spec)
	return store.Record{Kind: specRecord, ID: spec.Name, Version: store.AnyVersion, Body: body}, err
}

// known refuses a spec that the workers here would judge otherwise than it
// says: restarts and their delays are the named policy's.
func (s *Service) known(spec *Spec) error {
	p := s.policies[spec.Policy]
	if p == nil {
		return fmt.Errorf("supervise: run %s: no policy %q; one of the presets, or of the policies file", spec.Name, spec.Policy)
	}
	own, err := spec.Apply(*p)
	if err != nil {
		return fmt.Errorf("supervise: run %s: %w", spec.Name, err)
	}
	if own.Restarts != p.Restarts || !reflect.DeepEqual(own.Backoff, p.Backoff) {
		return fmt.Errorf("supervise: run %s: %d restarts, %s apart, are not what policy %s says; declare a policy with these figures in the policies file and name it",
			spec.Name, own.Restarts.Max, policy.FormatDuration(own.Backoff.Base), p.Name)
	}
	return nil
}

// Change replaces the spec of a run and, where it is parked or has failed,
// lets it go on with fresh restarts. A run that is parked for its command is
// refused the same command again. While it runs, the change holds from its
// next attempt on.
func (s *Service) Change(ctx context.Context, now time.Time, actor string, spec Spec) (job.State, error) {
	spec, err := Seal(spec)
	if err != nil {
		return "", fmt.Errorf("supervise: run %s: %w", spec.Name, err)
	}
	if err := s.known(&spec); err != nil {
		return "", err
	}
	old, err := s.spec(ctx, spec.Name)
	if err != nil {
		return "", err
	}
	last, err := s.lastJob(ctx, spec.Name)
	if err != nil {
		return "", err
	}
	parked := last != nil && last.State == job.Parked
	if parked && reflect.DeepEqual(old, spec) {
		return last.State, fmt.Errorf("supervise: run %s: %w: %s", spec.Name, ErrUnchanged, last.LastError)
	}
	put, err := putSpec(&spec)
	if err != nil {
		return "", err
	}
	audit := store.AuditRow{Actor: actor, Act: "run.change", What: spec.Name, Detail: spec.Command.String()}
	if _, err := s.config.Store.Write(ctx, now, store.Write{Puts: []store.Record{put}, Audit: []store.AuditRow{audit}}); err != nil {
		return "", fmt.Errorf("supervise: run %s: %w", spec.Name, err)
	}
	if last == nil {
		return "", nil
	}
	if parked || last.State == job.Failed {
		return job.Queued, s.config.Store.Retry(ctx, now, actor, last.Seq)
	}
	return last.State, nil
}

// Release says that the process of a lost host is gone for good, and lets the
// run go on here.
func (s *Service) Release(ctx context.Context, now time.Time, actor, name string) error {
	last, err := s.lastJob(ctx, name)
	if err != nil {
		return err
	}
	if last == nil {
		return &unknownError{name}
	}
	st, err := s.status(ctx, name)
	if err != nil {
		return err
	}
	if last.State == job.Running {
		return fmt.Errorf("supervise: run %s: it runs, under a lease that is alive: %w", name, store.ErrState)
	}
	st.Released = true
	if err := s.keep(ctx, name, &st); err != nil {
		return err
	}
	if last.State != job.Parked {
		return nil
	}
	return s.config.Store.Retry(ctx, now, actor, last.Seq)
}

// lastJob is the newest job of a run; nil if it has none.
func (s *Service) lastJob(ctx context.Context, name string) (*job.Job, error) {
	if seq, err := s.pointed(ctx, name); err != nil {
		return nil, err
	} else if seq > 0 {
		j, err := s.config.Store.Job(ctx, seq)
		if err == nil {
			return &j, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("supervise: run %s: %w", name, err)
		}
	}
	list, err := s.config.Store.List(ctx, store.Filter{Batch: BatchOf(name)}, store.Page{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("supervise: run %s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return &list[0], nil
}
