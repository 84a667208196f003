package document_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document"
)

// makeBucket makes s3://docs.
func makeBucket(t *testing.T, at string) {
	t.Helper()
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(at), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("ebbtest", "ebbsecret", ""),
	})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("docs")}); err != nil {
		t.Fatal(err)
	}
}

// drained reports whether all have ended.
func drained(t *testing.T, s *document.Service, batches []document.Batch) bool {
	t.Helper()
	for _, b := range batches {
		for _, d := range all(t, s, b) {
			if d.State == job.Queued || d.State == job.Running {
				return false
			}
		}
	}
	return true
}

func all(t *testing.T, s *document.Service, b document.Batch) []document.Document {
	t.Helper()
	got, err := s.Documents(t.Context(), document.Filter{Batch: b.ID, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return got.Documents
}

// fatal are the classes that seed 001 gives up on at once; all others are
// retriable.
var fatal = map[string]bool{
	failure.InvalidOutput.String(): true, failure.InvalidInput.String(): true, failure.Rejected.String(): true, failure.TooLarge.String(): true,
}

// judge holds every document against the table, its ledger and the evidence.
func (s *scene) judge(service *document.Service, ops *engine.Engine, batches []document.Batch) {
	t := s.t
	kept := s.evidence()
	count := map[string]int{}
	seen := 0
	for _, b := range batches {
		for _, d := range all(t, service, b) {
			seen++
			_, key, _ := strings.Cut(d.Input, "s3://docs/")
			key, _, _ = strings.Cut(key, "?")
			ledger, err := ops.Attempts(t.Context(), d.Job)
			if err != nil {
				t.Fatal(err)
			}
			plan := planOf(key)
			count[plan+" → "+string(d.State)]++
			for _, a := range ledger {
				if a.Class == failure.Crash.String() {
					count["crashes"]++
				}
			}
			s.judgeLedger(plan, &d, ledger)
			s.judgeResult(service, &d)
			s.judgeCalls(&d, key, kept[d.ID])
		}
	}
	if seen != s.documents {
		t.Errorf("%d documents, submitted %d", seen, s.documents)
	}
	t.Log(count)
}

// judgeLedger: retriable with attempts left goes on, exhausted and fatal fail.
func (s *scene) judgeLedger(plan string, d *document.Document, ledger []engine.Attempt) {
	t := s.t
	if len(ledger) == 0 || len(ledger) > 4 {
		t.Errorf("%s (%s): %d attempts", d.ID, plan, len(ledger))
		return
	}
	for i, a := range ledger {
		last := i == len(ledger)-1
		switch {
		case !a.OK && a.Counted != "attempt":
			t.Errorf("%s (%s): attempt %d counted %s", d.ID, plan, i+1, a.Counted)
		case !last && (a.OK || fatal[a.Class] || a.DueAt.IsZero() || ledger[i+1].StartedAt.Before(a.DueAt)):
			t.Errorf("%s (%s): attempt %d was %s, and yet another followed", d.ID, plan, i+1, a.Class)
		}
		nominal := []time.Duration{0, 30 * time.Second, 120 * time.Second, 480 * time.Second}
		if delay := time.Duration(a.Delay * float64(time.Second)); !last && (delay < nominal[i+1]*8/10 || delay > nominal[i+1]*12/10) && a.RetryAfter == 0 {
			t.Errorf("%s (%s): attempt %d waits %s", d.ID, plan, i+2, delay)
		}
	}
	end := ledger[len(ledger)-1]
	want := job.Failed
	if end.OK || d.Stage == document.StageDone { // done, and killed before its job heard of it for the fourth time
		want = job.Succeeded
	}
	switch {
	case d.State != want:
		t.Errorf("%s (%s): %s after %d attempts, the last %s", d.ID, plan, d.State, len(ledger), end.Class)
	case want == job.Failed && !fatal[end.Class] && len(ledger) != 4:
		t.Errorf("%s (%s): given up after %d attempts, %s", d.ID, plan, len(ledger), end.Class)
	}
	never := map[string]job.State{"schema": job.Succeeded, "unparseable": job.Succeeded, "400": job.Succeeded, "down": job.Succeeded}
	if bad, ok := never[plan]; ok && d.State == bad {
		t.Errorf("%s (%s): %s", d.ID, plan, d.State)
	}
	wrong := fatal[end.Class] && plan != "schema" && plan != "unparseable" && plan != "400"
	if !end.OK && wrong {
		t.Errorf("%s (%s): fatal %s: %s", d.ID, plan, end.Class, end.Error)
	}
}

func (s *scene) judgeResult(service *document.Service, d *document.Document) {
	if d.State != job.Succeeded {
		if d.Class == failure.InvalidOutput.String() {
			if raw, err := service.Raw(s.t.Context(), d.ID); err != nil || !strings.Contains(raw.Text, "total") {
				s.t.Errorf("%s: raw answer: %+v, %v", d.ID, raw, err)
			}
		}
		return
	}
	got, err := service.Result(context.WithoutCancel(s.t.Context()), d.ID)
	if err != nil || !strings.HasPrefix(string(got), `{"total": 7`) {
		s.t.Errorf("%s: %s, %v", d.ID, got, err)
	}
}

// judgeCalls: nothing was asked after an answer was kept.
func (s *scene) judgeCalls(d *document.Document, key string, keptAt []time.Time) {
	s.mu.Lock()
	asked := s.askedAt[key]
	s.mu.Unlock()
	if len(asked) > 4 {
		s.t.Errorf("%s: the model was asked %d times", d.ID, len(asked))
	}
	if len(keptAt) == 0 {
		return
	}
	for _, at := range asked {
		if at.After(keptAt[0]) {
			s.t.Errorf("%s: the model was asked %s after its answer was kept", d.ID, at.Sub(keptAt[0]))
		}
	}
}

// evidence reads when answers were kept, by document.
func (s *scene) evidence() map[string][]time.Time {
	b, err := os.ReadFile(s.orders.Evidence)
	if err != nil {
		s.t.Fatal(err)
	}
	kept := map[string][]time.Time{}
	for line := range strings.Lines(string(b)) {
		id, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		if nano, err := strconv.ParseInt(at, 10, 64); err == nil {
			kept[id] = append(kept[id], time.Unix(0, nano))
		}
	}
	return kept
}
