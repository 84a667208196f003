package telemetry

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

const (
	webhookRules     = "../ops/prometheus/ebb-webhook.rules.yml"
	webhookRulesTest = "../ops/prometheus/ebb-webhook.rules.test.yml"
	webhookDocs      = "../docs/webhooks-metrics.md"
)

// Retries that wait are counted by queue: not first attempts, not what runs,
// not other queues, and not again before the count is old.
func TestRetryDepth(t *testing.T) {
	machine := clock.NewFake(t0)
	s := memory.New(memory.Config{Clock: machine})
	enqueue(t, s,
		job.New{Kind: "hook", Queue: "webhook", Target: "a"}, job.New{Kind: "hook", Queue: "webhook", Target: "a"},
		job.New{Kind: "hook", Queue: "webhook", Target: "b"}, job.New{Kind: "mail", Queue: "mail", Target: "a"})
	depth := NewRetryDepth(s, machine, "webhook")
	registry := prometheus.NewRegistry()
	registry.MustRegister(depth)
	check := func(jobs, targets float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil || len(families) != 2 {
			t.Fatalf("gathered %v: %v", families, err)
		}
		for i, want := range []float64{jobs, targets} {
			m := families[i].GetMetric()
			if len(m) != 1 || m[0].GetGauge().GetValue() != want || m[0].GetLabel()[0].GetValue() != "webhook" {
				t.Errorf("%s: %v, want %g of webhook alone", families[i].GetName(), m, want)
			}
		}
	}
	check(0, 0)
	retryAll(t, s, "webhook", 3)
	check(0, 0) // still fresh
	machine.Advance(depthFresh)
	check(3, 2)
}

// retryAll starts what is due in the queue once, and each start fails.
func retryAll(t *testing.T, s store.Store, queue string, n int) {
	t.Helper()
	p, err := s.Register(t.Context(), time.Time{}, store.Process{Host: "h", Kinds: []string{"hook"}, Queues: []string{queue}})
	if err != nil {
		t.Fatal(err)
	}
	turned, err := s.Turn(t.Context(), store.Turn{
		Process: p.ID, Lanes: []store.LaneClaim{{Queue: queue, Kinds: []string{"hook"}, Lanes: 10, Firsts: 10, Retries: 10, Limit: 10}},
	})
	if err != nil || len(turned.Claimed) != n {
		t.Fatalf("claimed %d, want %d: %v", len(turned.Claimed), n, err)
	}
	next := store.Turn{Process: p.ID}
	var refs []store.Ref
	for _, j := range turned.Claimed {
		ref := store.Ref{Seq: j.Seq, Epoch: j.Epoch}
		refs = append(refs, ref)
		next.Settles = append(next.Settles, store.Settle{
			Ref: ref, To: job.Queued, Delay: time.Hour, History: retry.History{Starts: 1, Attempts: 1, FirstStartAt: t0},
			Attempt: &job.Attempt{Seq: j.Seq, Start: 1, Epoch: j.Epoch, Process: p.ID},
		})
	}
	if _, err := s.Turn(t.Context(), store.Turn{Process: p.ID, Begin: refs}); err != nil {
		t.Fatal(err)
	}
	done, err := s.Turn(t.Context(), next)
	if err != nil || slices.Contains(done.Settled, false) {
		t.Fatalf("settled %v: %v", done.Settled, err)
	}
}

// The webhooks' own rules: promtool accepts them, their tests pass, and every
// alert fires in one and has its runbook.
func TestWebhookRules(t *testing.T) {
	promtool(t, "", "check", "rules", webhookRules)
	promtool(t, "", "test", "rules", webhookRulesTest)
	var r rules
	if err := yaml.Unmarshal([]byte(read(t, webhookRules)), &r); err != nil {
		t.Fatal(err)
	}
	tests, headings := read(t, webhookRulesTest), anchors(read(t, webhookDocs))
	names := exposed(t)
	names["ebb_retry_queue_jobs"], names["ebb_retry_queue_targets"] = true, true
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			names[rule.Record] = true
		}
	}
	alerts := 0
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			for _, name := range metricName.FindAllString(rule.Expr, -1) {
				if !names[name] {
					t.Errorf("%s%s: there is no metric %s", rule.Alert, rule.Record, name)
				}
			}
			if rule.Alert == "" {
				continue
			}
			alerts++
			if !strings.Contains(tests, "alertname: "+rule.Alert+"\n        exp_alerts:\n") {
				t.Errorf("%s: no test in which it fires", rule.Alert)
			}
			page, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
			if page != "docs/webhooks-metrics.md" || !slices.Contains(headings, anchor) {
				t.Errorf("%s: the runbook %q is not there", rule.Alert, rule.Annotations["runbook_url"])
			}
		}
	}
	if alerts != 6 {
		t.Errorf("read %d alerts, want 6", alerts)
	}
	for _, seed := range []string{"webhook.retry.queue_depth", "webhook.delivery.latency_p95"} {
		if !strings.Contains(read(t, webhookDocs), "`"+seed+"`") {
			t.Errorf("the page does not say where %s is", seed)
		}
	}
}
