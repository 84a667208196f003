package document

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/document/text"
)

// Check says what is wrong with a submission before anything is asked.
func Check(s *Submission) error {
	if _, err := prepare(&s.Pipeline); err != nil {
		return err
	}
	for _, in := range s.Inputs {
		o, err := parsePattern(in)
		if err != nil {
			return err
		}
		if !isPattern(o.Key) && !text.Supported(o.Key) {
			return invalidf("document: %s: one of %s can be read", in, strings.Join(text.Extensions(), ", "))
		}
	}
	if s.Output != "" {
		if _, err := ParseOutput(s.Output); err != nil {
			return err
		}
	}
	if s.Priority < 0 || s.Priority > job.MaxPriority {
		return invalidf("document: priority %d: must be from 0 to %d", s.Priority, job.MaxPriority)
	}
	return nil
}

// submitSize is how many documents one write takes in.
const submitSize = 500

// Submit takes documents in: their rows and their jobs become durable
// together, in parts of 500. Patterns skip what cannot be read.
func (s *Service) Submit(ctx context.Context, in Submission) (Batch, error) {
	switch {
	case len(in.Inputs) == 0:
		return Batch{}, invalidf("document: no inputs; name objects or patterns")
	case in.Output == "":
		return Batch{}, invalidf("document: no output; name a bucket or directory for the results")
	}
	if err := Check(&in); err != nil {
		return Batch{}, err
	}
	ready, err := prepare(&in.Pipeline)
	if err != nil {
		return Batch{}, err
	}
	if _, ok := s.providers[ready.provider]; !ok {
		return Batch{}, invalidf("document: model %q: no provider %q; the configuration has %s", in.Model, ready.provider, strings.Join(s.Providers(), ", "))
	}
	out, err := ParseOutput(in.Output)
	if err != nil {
		return Batch{}, err
	}
	objects, err := s.expand(ctx, in.Inputs)
	if err != nil {
		return Batch{}, err
	}
	objects = readable(objects)
	if len(objects) == 0 {
		return Batch{}, invalidf("document: nothing that can be read: %s", strings.Join(text.Extensions(), ", "))
	}
	return s.enqueue(ctx, &in, ready, objects, out)
}

func readable(objects []Object) []Object {
	var all []Object
	seen := map[Object]bool{}
	for _, o := range objects {
		if text.Supported(o.Key) && !seen[o] {
			seen[o] = true
			all = append(all, o)
		}
	}
	return all
}

func (s *Service) enqueue(ctx context.Context, in *Submission, ready *ready, objects []Object, out Object) (Batch, error) {
	now := s.clock.Now().UTC()
	b := Batch{
		ID: batchID(now), Name: in.Name, Model: in.Model, Policy: s.settings.PolicyName(in.Policy, ready.provider),
		Documents: len(objects), SubmittedAt: now.Truncate(time.Microsecond), Output: Object{out.Bucket, out.Key}.String(),
	}
	if err := s.policyKnown(ctx, b.Policy); err != nil {
		return Batch{}, err
	}
	hash := hashOf(&in.Pipeline)
	first := []store.Record{
		{Kind: pipelineKind, ID: hash, Version: store.AnyVersion, Body: body(in.Pipeline)},
		{Kind: batchKind, ID: b.ID, Body: body(b)},
	}
	for from := 0; from < len(objects); from += submitSize {
		part := objects[from:min(len(objects), from+submitSize)]
		w := store.Write{Puts: first}
		first = nil
		rows := make([]store.Record, len(part))
		for i, o := range part {
			id := fmt.Sprintf("%s-%06d", b.ID, from+i+1)
			r := row{
				Batch: b.ID, Pipeline: hash, Model: in.Model, Input: o, SubmittedAt: b.SubmittedAt,
				Output: Object{out.Bucket, out.Key + o.Key + ".json"},
			}
			rows[i] = store.Record{Kind: rowKind, ID: id, Ref: b.ID, Body: body(r)}
			w.Jobs = append(w.Jobs, job.New{
				Kind: Kind, Queue: Queue, Target: ready.provider, Policy: b.Policy, Priority: in.Priority, Batch: b.ID, Args: body(args{id}),
			})
		}
		w.Puts = append(w.Puts, rows...)
		jobs, err := s.store.Write(ctx, s.storeNow(), w)
		if err != nil {
			return Batch{}, fmt.Errorf("document: submit: %w", err)
		}
		if err := s.link(ctx, rows, jobs); err != nil {
			s.log.Warn("document: rows learn of their jobs when these start", "batch", b.ID, "error", err)
		}
	}
	return b, nil
}

// storeNow is what the store's calls are given: zero lets it take its own.
func (s *Service) storeNow() time.Time {
	if s.ownClock {
		return s.clock.Now()
	}
	return time.Time{}
}

// link writes the jobs' ids into rows that no start has touched yet.
func (s *Service) link(ctx context.Context, rows []store.Record, jobs []store.Enqueued) error {
	var w store.Write
	for i := range rows {
		var r row
		if err := json.Unmarshal(rows[i].Body, &r); err != nil {
			return err
		}
		r.Job = job.FormatID(jobs[i].Seq)
		rows[i].Version, rows[i].Body = 1, body(r)
	}
	w.Puts = rows
	_, err := s.store.Write(ctx, time.Time{}, w)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	// A worker was faster with some of them: one by one then.
	for i := range rows {
		if _, err := s.store.Write(ctx, time.Time{}, store.Write{Puts: rows[i : i+1]}); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// policyKnown refuses a policy that would park every job.
func (s *Service) policyKnown(ctx context.Context, name string) error {
	if s.ops == nil {
		return nil
	}
	list, err := s.ops.Policies(ctx)
	if err != nil {
		return fmt.Errorf("document: policies: %w", err)
	}
	var names []string
	for i := range list {
		if list[i].Name == name {
			return nil
		}
		names = append(names, list[i].Name)
	}
	return invalidf("document: policy %q: not known here; one of %s", name, strings.Join(names, ", "))
}

// batchID sorts by time and cannot be guessed to collide.
func batchID(now time.Time) string {
	return "d" + strings.Replace(now.Format("20060102t150405.000"), ".", "", 1) + "-" + strings.ToLower(rand.Text()[:6])
}

// Allowed reports whether a submission reads and writes below the configured
// buckets alone.
func (s *Service) Allowed(in Submission) error {
	if err := Check(&in); err != nil {
		return err
	}
	for _, at := range in.Inputs {
		o, err := parsePattern(at)
		if err != nil {
			return err
		}
		if !s.below(o) {
			return denied(at)
		}
	}
	if in.Output == "" {
		return nil
	}
	o, err := ParseOutput(in.Output)
	if err != nil {
		return err
	}
	if !s.below(o) {
		return denied(in.Output)
	}
	return nil
}

// Guarded is the service for callers who may not use the server's own files
// and buckets: submissions are held to the configured ones.
func (s *Service) Guarded() Ops { return guarded{s} }

type guarded struct{ *Service }

func (g guarded) Submit(ctx context.Context, in Submission) (Batch, error) {
	if err := g.Allowed(in); err != nil {
		return Batch{}, err
	}
	return g.Service.Submit(ctx, in)
}

func denied(at string) error {
	return fmt.Errorf("document: %s: %w (document.buckets)", at, ErrDenied)
}

// below compares scheme, bucket, parameters and path: another endpoint is
// another server.
func (s *Service) below(o Object) bool {
	u, err := url.Parse(o.Bucket)
	if err != nil {
		return false
	}
	at := path.Join("/", u.Path, o.Key)
	for _, allowed := range s.settings.Buckets {
		a, err := url.Parse(allowed)
		if err != nil || a.Scheme != u.Scheme || a.Host != u.Host {
			continue
		}
		if u.Scheme != "file" && a.Query().Encode() != u.Query().Encode() {
			continue
		}
		root := strings.TrimSuffix(path.Join("/", a.Path), "/")
		if root == "" || at == root || strings.HasPrefix(at, root+"/") {
			return true
		}
	}
	return false
}
