package wave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

func scrape(t testing.TB) *policy.Policy {
	t.Helper()
	p, err := policy.Preset("scrape")
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func of(class failure.Class) error { return failure.New(class, "", nil) }

// Each failed item of a wave class is planned exactly once, nothing else is.
func TestNextNeverLosesOrDoubles(t *testing.T) {
	p := scrape(t)
	rapid.Check(t, func(t *rapid.T) {
		ledger := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Entry {
			return Entry{OK: rapid.Bool().Draw(t, "ok"), Class: rapid.SampledFrom(failure.Classes()).Draw(t, "class")}
		})).Draw(t, "ledger")
		done := rapid.IntRange(0, 4).Draw(t, "done")
		w, stop := Next(p, done, ledger)
		var want []int
		failed := 0
		for i, e := range ledger {
			if e.OK {
				continue
			}
			failed++
			if g := e.Class.Group(); g == failure.Transient || g == failure.TimedOut || g == failure.Connection {
				want = append(want, i)
			}
		}
		switch {
		case failed == 0:
			if stop != Complete {
				t.Fatalf("all done, yet %q", stop)
			}
		case len(want) == 0:
			if stop != Permanent {
				t.Fatalf("only permanent failures, yet %q", stop)
			}
		case done >= 3:
			if stop != Spent {
				t.Fatalf("three waves done, yet %q", stop)
			}
		default:
			if stop != "" || !slices.Equal(w.Items, want) || w.Number != done+1 {
				t.Fatalf("planned %+v (%q), want items %v", w, stop, want)
			}
		}
	})
}

// Seed 000's figures: 90 s, 2 workers, 500 ms.
func TestWaveOfTheSeed(t *testing.T) {
	w, _ := Next(scrape(t), 0, []Entry{{OK: true}, {Class: failure.Server}, {Class: failure.Throttled}, {Class: failure.Rejected}})
	if w.Cooldown != 90*time.Second || w.Concurrency != 2 || w.Spacing != 500*time.Millisecond || !slices.Equal(w.Items, []int{1, 2}) {
		t.Errorf("planned %+v", w)
	}
	if first := First(scrape(t), 3); first.Concurrency != 5 || first.Spacing != 150*time.Millisecond || len(first.Items) != 3 || first.Cooldown != 0 {
		t.Errorf("first pass %+v", first)
	}
}

// site answers 503 while it is down.
type site struct {
	mu     sync.Mutex
	upAt   time.Time
	calls  map[int]int
	starts []time.Time
}

func (s *site) get(_ context.Context, page int) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[page]++
	s.starts = append(s.starts, time.Now())
	if time.Now().Before(s.upAt) {
		return "", of(failure.Server)
	}
	return fmt.Sprint("page ", page), nil
}

func pages(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// The incident: an outage longer than three tries, shorter than the waves.
func TestRunSurvivesTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{upAt: time.Now().Add(4 * time.Minute), calls: map[int]int{}}
		var planned []Wave
		r, err := Run(t.Context(), pages(55), s.get, scrape(t), Config{Seed: 1, OnWave: func(w Wave) { planned = append(planned, w) }})
		if err != nil || r.Stopped != Complete || len(r.Failed()) != 0 {
			t.Fatalf("%v, stopped %q, lost %v", err, r.Stopped, r.Failed())
		}
		for i, res := range r.Results {
			if res.Value != fmt.Sprint("page ", i) || res.Err != nil || res.Starts != s.calls[i] {
				t.Errorf("page %d: %+v after %d calls", i, res, s.calls[i])
			}
		}
		if len(r.Waves) != len(planned) || r.Waves[0].Planned != 55 || r.Waves[0].Tried != 55 {
			t.Errorf("waves %+v", r.Waves)
		}
		total := 0
		for _, w := range r.Waves {
			total += w.Recovered
		}
		if total != 55 {
			t.Errorf("%d recovered in waves, want all 55: %+v", total, r.Waves)
		}
	})
}

// At worst three cooldowns of 90 s: 270 s, and each wave gives three tries.
func TestWorstCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{upAt: time.Now().Add(24 * time.Hour), calls: map[int]int{}}
		start := time.Now()
		r, err := Run(t.Context(), pages(1), s.get, scrape(t))
		if err != nil || r.Stopped != Spent || len(r.Failed()) != 1 {
			t.Fatalf("%v, stopped %q", err, r.Stopped)
		}
		if s.calls[0] != 12 || r.Results[0].Starts != 12 || r.Results[0].Wave != 3 || len(r.Waves) != 3 {
			t.Errorf("%d calls: %+v", s.calls[0], r.Results[0])
		}
		// 270 s of cooldown and four passes of 5 s and 10 s, each up to half longer.
		took := time.Since(start)
		if took < 330*time.Second || took > 360*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestPermanentFailuresAreNotWaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		r, err := Run(t.Context(), []string{"missing"}, func(context.Context, string) (int, error) { calls++; return 0, of(failure.Rejected) }, scrape(t))
		if err != nil || r.Stopped != Permanent || calls != 1 || time.Since(start) != 0 {
			t.Errorf("%v, %q, %d calls in %s", err, r.Stopped, calls, time.Since(start))
		}
		if f := r.Results[0].Failure; f.Class != failure.Rejected {
			t.Errorf("failure %+v", f)
		}
	})
}

// Starts of one pass are spaced, and never more run than the pass allows.
func TestPaceAndConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{calls: map[int]int{}}
		var mu sync.Mutex
		running, most := 0, 0
		_, err := Run(t.Context(), pages(40), func(ctx context.Context, i int) (string, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			v, err := s.get(ctx, i)
			<-time.After(2 * time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return v, err
		}, scrape(t))
		if err != nil || most != 5 {
			t.Errorf("%v, %d at once", err, most)
		}
		for i := 1; i < len(s.starts); i++ {
			if gap := s.starts[i].Sub(s.starts[i-1]); gap < 150*time.Millisecond {
				t.Errorf("start %d came %s after the one before", i, gap)
			}
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("told to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &site{upAt: time.Now().Add(24 * time.Hour), calls: map[int]int{}}
		time.AfterFunc(2*time.Minute, func() { cancel(why) })
		r, err := Run(ctx, pages(10), s.get, scrape(t))
		if !errors.Is(err, why) || r.Stopped != Cancelled {
			t.Fatalf("%v, stopped %q", err, r.Stopped)
		}
		for i, res := range r.Results {
			if res.Err == nil {
				t.Errorf("page %d has no result: %+v", i, res)
			}
		}
	})
}

// Items that a stop cut off carry class interrupted, which no wave tries
// again: the run was once reported as ended by permanent failures, without an
// error.
func TestStopInTheFirstPassIsAnError(t *testing.T) {
	why := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := *scrape(t)
	p.Spacing = 0
	r, err := Run(ctx, pages(20), func(ctx context.Context, _ int) (int, error) {
		cancel(why)
		return 0, ctx.Err()
	}, &p)
	if !errors.Is(err, why) || r.Stopped != Cancelled || len(r.Failed()) != 20 {
		t.Errorf("%v, stopped %q, %d of 20 failed", err, r.Stopped, len(r.Failed()))
	}
}

func TestNothingToDo(t *testing.T) {
	r, err := Run(t.Context(), nil, func(context.Context, int) (int, error) { return 0, nil }, scrape(t))
	if err != nil || r.Stopped != Complete || len(r.Results) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func ExampleRun() {
	p := policy.MustPreset("scrape")
	p.Waves.Cooldown, p.Backoff.Base = time.Millisecond, time.Millisecond // the example should not take minutes
	calls := map[string]int{}
	fetch := func(_ context.Context, url string) (string, error) {
		if calls[url]++; url == "/b" && calls[url] <= 3 { // fails its first three tries
			return "", failure.New(failure.Server, "", errors.New("503"))
		}
		return "content of " + url, nil
	}
	p.Concurrency, p.Waves.Concurrency = 1, 1
	report, err := Run(context.Background(), []string{"/a", "/b"}, fetch, &p)
	fmt.Println(err, report.Stopped)
	for _, r := range report.Results {
		fmt.Println(r.Value, "after", r.Starts, "starts, wave", r.Wave)
	}
	// Output:
	// <nil> complete
	// content of /a after 1 starts, wave 0
	// content of /b after 4 starts, wave 1
}
