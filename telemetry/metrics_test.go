package telemetry

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/worker"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// eventKinds reads the kinds of events from the worker's source, so that a
// new one is not forgotten here.
func eventKinds(t *testing.T) []worker.EventKind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../worker/event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []worker.EventKind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "EventKind" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, worker.EventKind(text))
		}
		return true
	})
	if len(kinds) < 10 {
		t.Fatalf("found only %q", kinds)
	}
	return kinds
}

// goldenTelemetry has seen the script and reads a store with a bit of all.
func goldenTelemetry(t *testing.T) *Telemetry {
	t.Helper()
	fake := clock.NewFake(t0)
	s := memory.New(memory.Config{Clock: fake})
	enqueue(t, s,
		job.New{Kind: "deliver", Queue: "webhook", Policy: "webhook", Target: "shop.example"},
		job.New{Kind: "deliver", Queue: "webhook", Policy: "webhook", Target: "bank.example"},
		job.New{Kind: "mail"})
	if _, err := s.Register(t.Context(), time.Time{}, store.Process{Host: "a", PID: 1, Kinds: []string{"mail"}, Queues: []string{"default"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.PauseQueue(t.Context(), time.Time{}, "me", "webhook", true); err != nil {
		t.Fatal(err)
	}
	fake.Advance(10 * time.Second)
	open(t, s, "shop.example", t0.Add(time.Minute))
	tel := New(Config{Store: s, Clock: fake, Version: "v1.2.3"})
	for _, e := range script() {
		tel.Observe(e)
	}
	return tel
}

// open opens the breaker of a target until an instant.
func open(t *testing.T, s store.Gates, target string, until time.Time) {
	t.Helper()
	rows, err := s.Gates(t.Context(), []string{target})
	if err != nil {
		t.Fatal(err)
	}
	g := rows[0]
	c := gate.Config{Breaker: policy.Breaker{Consecutive: 1, Open: time.Minute, Cap: time.Minute}}
	at := until.Add(-time.Minute)
	g.State, _ = gate.Step(c, g.State, gate.Ask{}, at, 0.5)
	g.State, _ = gate.Step(c, g.State, gate.Done{Failure: failure.Of(failure.Server)}, at, 0.5)
	if g.State.Phase != gate.Open {
		t.Fatalf("the breaker is %s", g.State.Phase)
	}
	if ok, err := s.SwapGate(t.Context(), time.Time{}, store.AuditRow{Act: "test"}, store.Swap{Gate: g}); err != nil || !ok {
		t.Fatalf("swap: %v, %v", ok, err)
	}
}

// TestExposition pins all of /metrics, and promtool finds nothing to say.
func TestExposition(t *testing.T) {
	got := strings.ReplaceAll(exposition(t, goldenTelemetry(t)), runtime.Version(), "GO")
	const path = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("differs from %s; go test ./telemetry -update writes it anew:\n%s", path, diff)
	}
	if said := promtool(t, got, "check", "metrics"); said != "" {
		t.Errorf("promtool check metrics: %s", said)
	}
}

func TestCounts(t *testing.T) {
	tel := goldenTelemetry(t)
	lane := `{kind="deliver",queue="webhook"`
	settled := func(outcome, class string) string {
		return `ebb_jobs_settled_total{class="` + class + `",kind="deliver",outcome="` + outcome + `",queue="webhook"}`
	}
	want(t, tel, map[string]string{
		`ebb_jobs_started_total` + lane + `,try="first"}`:                                     "1",
		`ebb_jobs_started_total` + lane + `,try="retry"}`:                                     "1",
		settled("succeeded", "none"):                                                          "1",
		settled("retried", "server"):                                                          "1",
		settled("retried", "throttled"):                                                       "1",
		settled("snoozed", "none"):                                                            "1",
		settled("deferred", "disk_full"):                                                      "1",
		settled("parked", "config"):                                                           "1",
		settled("failed", "server"):                                                           "1",
		settled("cancelled", "interrupted"):                                                   "1",
		`ebb_dead_letters_total{cause="exhausted",kind="deliver",queue="webhook"}`:            "1",
		`ebb_dead_letters_total{cause="poison",kind="deliver",queue="webhook"}`:               "1",
		`ebb_dead_letters_total{cause="expired",kind="deliver",queue="webhook"}`:              "7",
		`ebb_dead_letters_total{cause="fatal",kind="deliver",queue="webhook"}`:                "0",
		`ebb_dead_letters_untried_total{by="deadline",kind="deliver",queue="webhook"}`:        "3",
		`ebb_dead_letters_untried_total{by="max_hold",kind="deliver",queue="webhook"}`:        "0",
		`ebb_jobs_parked_total{cause="config",kind="deliver",queue="webhook"}`:                "1",
		`ebb_jobs_parked_total{cause="target_down",kind="deliver",queue="webhook"}`:           "5",
		`ebb_jobs_parked_total{cause="disabled",kind="deliver",queue="webhook"}`:              "2",
		`ebb_jobs_parked_total{cause="head_failed",kind="deliver",queue="webhook"}`:           "1",
		`ebb_jobs_parked_total{cause="no_progress",kind="deliver",queue="webhook"}`:           "0",
		`ebb_holds_total{by="budget"}`:                                                        "1",
		`ebb_hold_duration_seconds_sum{by="budget"}`:                                          "0.25",
		`ebb_start_lag_seconds_bucket{queue="webhook",try="first",le="0.25"}`:                 "1",
		`ebb_start_lag_seconds_bucket{queue="webhook",try="first",le="0.1"}`:                  "0",
		`ebb_job_completion_seconds_sum{kind="deliver"}`:                                      "0.28",
		`ebb_handler_duration_seconds_sum{kind="deliver",result="ok"}`:                        "0.03",
		`ebb_handler_duration_seconds_count{kind="deliver",result="failed"}`:                  "6",
		`ebb_retry_interval_seconds_count{attempt="2",chosen_by="schedule",policy="webhook"}`: "1",
		`ebb_retry_interval_seconds_sum{attempt="2",chosen_by="target",policy="webhook"}`:     "130",
		`ebb_processes_reaped_total`:                                                          "1",
		`ebb_leases_reaped_total`:                                                             "3",
		`ebb_jobs_redriven_total`:                                                             "4",
		`ebb_schedule_jobs_total`:                                                             "1",
		`ebb_store_errors_total{call="turn"}`:                                                 "1",
		`ebb_store_errors_total{call="schedule"}`:                                             "1",
		`ebb_store_errors_total{call="stop"}`:                                                 "1",
		`ebb_settles_refused_total`:                                                           "1",
		`ebb_process_losses_total`:                                                            "1",
		`ebb_handlers_stuck_total{kind="deliver"}`:                                            "1",
		`ebb_cancel_orders_total`:                                                             "1",
		`ebb_target_transitions_total{target="shop.example",to="open"}`:                       "1",
		// of the store
		`ebb_store_up`: "1",
		`ebb_queue_jobs{queue="webhook",state="queued"}`: "2",
		`ebb_queue_jobs{queue="default",state="queued"}`: "1",
		`ebb_queue_due_lag_seconds{queue="webhook"}`:     "10",
		`ebb_queue_paused{queue="webhook"}`:              "1",
		`ebb_queue_paused{queue="default"}`:              "0",
		`ebb_queue_processes{queue="default"}`:           "1",
		`ebb_queue_processes{queue="webhook"}`:           "0",
		`ebb_processes{state="alive"}`:                   "1",
		`ebb_processes{state="silent"}`:                  "0",
		`ebb_targets{state="open"}`:                      "1",
		`ebb_targets{state="closed"}`:                    "1",
		`ebb_target_breaker_open{target="shop.example"}`: "1",
		`ebb_target_breaker_open{target="bank.example"}`: "",
		// of the policies
		`ebb_policy_delay_seconds{attempt="6",bound="most",policy="webhook"}`:  "1152",
		`ebb_policy_delay_seconds{attempt="2",bound="least",policy="webhook"}`: "48",
		`ebb_policy_delay_seconds{attempt="7",bound="most",policy="webhook"}`:  "",
		`ebb_policy_floor_seconds{policy="webhook"}`:                           "30",
	})
}

// TestIntervals: an interval is filed under the try that follows it and under
// what chose it; free starts are not filed.
func TestIntervals(t *testing.T) {
	tel := New(Config{})
	j := delivery(1, retry.History{Starts: 2, Attempts: 2, FirstStartAt: t0})
	tel.Observe(failedWith(j, failureOf(failure.Server, "503"), t0, time.Second)) // 192 to 288 s before try 4
	j.Policy = "scrape"
	j.History = retry.History{}
	tel.Observe(failedWith(j, failureOf(failure.Refused, "refused"), t0, time.Second)) // a flat 5 s by a rule of its own
	j.Policy = "default"
	tel.Observe(failedWith(j, failureOf(failure.Crash, "died"), t0, time.Second)) // free
	want(t, tel, map[string]string{
		`ebb_retry_interval_seconds_bucket{attempt="4",chosen_by="schedule",policy="webhook",le="192"}`: "0",
		`ebb_retry_interval_seconds_bucket{attempt="4",chosen_by="schedule",policy="webhook",le="288"}`: "1",
		`ebb_retry_interval_seconds_sum{attempt="2",chosen_by="rule",policy="scrape"}`:                  "5",
		`ebb_retry_interval_seconds_count{attempt="2",chosen_by="schedule",policy="default"}`:           "",
		`ebb_retry_interval_seconds_count{attempt="2",chosen_by="rule",policy="default"}`:               "",
	})
	for n, label := range map[int]string{2: "2", 21: "21", 22: "21+", 500: "21+"} {
		if got := attemptOf(n); got != label {
			t.Errorf("try %d is filed under %q, want %q", n, got, label)
		}
	}
}

// TestHoldNames: whatever the gate or the worker says of a hold is known.
func TestHoldNames(t *testing.T) {
	for _, h := range gate.Holds() {
		for _, until := range []time.Time{{}, t0} {
			text := gate.Verdict{Held: h, Until: until}.String()
			if text == "no verdict" {
				continue // the gate does not say that
			}
			if got := holdOf(text); got != h.String() {
				t.Errorf("%q is filed under %q, want %q", text, got, h)
			}
		}
	}
	// Texts of the worker, read from its source.
	texts := 0
	said := regexp.MustCompile(`(?:giveBack\(r, |What: Held, Text: |why := )"([^"]+)"`)
	files, err := os.ReadDir("../worker")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		src, err := os.ReadFile("../worker/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range said.FindAllStringSubmatch(string(src), -1) {
			texts++
			if holdOf(m[1]) == other {
				t.Errorf("%s: %q is filed under other", f.Name(), m[1])
			}
		}
	}
	if texts < 5 {
		t.Errorf("found only %d texts of holds in the worker", texts)
	}
}

// TestCardinality: a million names make no more series than the limit allows.
func TestCardinality(t *testing.T) {
	const limit, kinds, queues = 20, 300, 50
	tel := New(Config{MaxNames: limit})
	for k := range kinds {
		for q := range queues {
			j := delivery(1, retry.History{})
			j.Kind, j.Queue, j.Policy = fmt.Sprintf("kind-%d", k), fmt.Sprintf("queue-%d", q), "webhook"
			tel.Observe(worker.Event{What: worker.Started, At: t0, Job: j})
		}
		tel.Observe(worker.Event{What: worker.GateOpened, At: t0, Target: fmt.Sprintf("target-%d", k)})
		j := delivery(1, retry.History{})
		e := failedWith(j, failureOf(failure.Server, "503"), t0, 0)
		e.Job.Policy = fmt.Sprintf("policy-%d", k)
		tel.Observe(e)
		tel.Observe(worker.Event{What: worker.Erred, At: t0, Text: fmt.Sprintf("schedule s%d", k), Err: errCut})
	}
	byName, values := make(map[string]int), make(map[string]map[string]bool)
	label := regexp.MustCompile(`(\w+)="([^"]*)"`)
	for series := range samples(t, tel) {
		name, labels, _ := strings.Cut(series, "{")
		byName[name]++
		for _, m := range label.FindAllStringSubmatch(labels, -1) {
			if strings.HasPrefix(name, "ebb_policy_") {
				continue // those given, no more
			}
			if values[m[1]] == nil {
				values[m[1]] = make(map[string]bool)
			}
			values[m[1]][m[2]] = true
		}
	}
	for _, l := range []string{"kind", "queue", "target", "policy"} {
		if n := len(values[l]); n > limit+1 || !values[l][other] {
			t.Errorf("label %s has %d values, want at most %d and other among them", l, n, limit+1)
		}
	}
	// 20 pairs, 20 kinds with queue other, other/other; two tries each.
	if n := byName["ebb_jobs_started_total"]; n > 2*(limit+limit+1) {
		t.Errorf("%d series of starts, want at most %d", n, 2*(2*limit+1))
	}
	total := 0.0
	for series, v := range samples(t, tel) {
		if strings.HasPrefix(series, "ebb_jobs_started_total{") {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	if total != kinds*queues {
		t.Errorf("%v starts counted, want %d: folding loses none", total, kinds*queues)
	}
	want(t, tel, map[string]string{
		`ebb_label_folds_total{label="target"}`:                              strconv.Itoa(kinds - limit),
		`ebb_target_transitions_total{target="other",to="open"}`:             strconv.Itoa(kinds - limit),
		`ebb_jobs_started_total{kind="kind-0",queue="queue-19",try="first"}`: "1",
		`ebb_jobs_started_total{kind="kind-0",queue="other",try="first"}`:    strconv.Itoa(queues - limit),
		`ebb_store_errors_total{call="schedule"}`:                            strconv.Itoa(kinds),
	})
}

// TestOddNames: bytes that are no text do not take the scrape down.
func TestOddNames(t *testing.T) {
	tel := New(Config{})
	j := delivery(1, retry.History{})
	j.Kind, j.Queue = "k\xff", "\xfe\"\n"
	tel.Observe(worker.Event{What: worker.Started, At: t0, Job: j})
	tel.Observe(worker.Event{What: worker.GateOpened, At: t0, Target: "\xff"})
	want(t, tel, map[string]string{`ebb_jobs_started_total{kind="k�",queue="�\"\n",try="first"}`: "1"})
	if said := promtool(t, exposition(t, tel), "check", "metrics"); said != "" {
		t.Errorf("promtool check metrics: %s", said)
	}
}

func TestMarksForget(t *testing.T) {
	var m marks
	for seq := range int64(3 * maxMarks) {
		m.put(seq, "budget")
	}
	if n := len(m.young) + len(m.old); n != 2*maxMarks {
		t.Errorf("%d marks are kept, want %d", n, 2*maxMarks)
	}
	if _, ok := m.take(0); ok {
		t.Error("the oldest mark was kept")
	}
	if by, ok := m.take(3*maxMarks - 1); !ok || by != "budget" {
		t.Errorf("the newest mark is %q, %v", by, ok)
	}
	if _, ok := m.take(3*maxMarks - 1); ok {
		t.Error("a mark was taken twice")
	}
}

// BenchmarkObserve is what a job that succeeds costs here: three events.
func BenchmarkObserve(b *testing.B) {
	tel := New(Config{})
	j := delivery(1, retry.History{})
	events := []worker.Event{
		{What: worker.Claimed, At: t0, Job: j},
		{What: worker.Started, At: t0, Job: j},
		{What: worker.Settled, At: t0, Job: j, To: job.Succeeded, Took: time.Millisecond},
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range events {
			tel.Observe(events[i])
		}
	}
}
