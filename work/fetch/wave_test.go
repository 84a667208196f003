package fetch

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/memory"
)

// call is one request that a fake site saw.
type call struct {
	path string
	at   time.Time
}

// fake is a site without a network, on the clock of its bubble.
type fake struct {
	answer func(path string, at time.Time) (int, error)
	took   time.Duration

	mu    sync.Mutex
	calls []call
	now   int
	most  int // at once
}

func (f *fake) RoundTrip(req *http.Request) (*http.Response, error) {
	at := time.Now()
	f.mu.Lock()
	f.calls = append(f.calls, call{req.URL.Path, at})
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	fired := time.NewTimer(f.took)
	defer fired.Stop()
	<-fired.C
	f.mu.Lock()
	f.now--
	f.mu.Unlock()
	code, err := f.answer(req.URL.Path, at)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{}, ContentLength: 4, Request: req,
		Body: io.NopCloser(strings.NewReader("page")), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// fakeText is a fake site that says something.
type fakeText struct {
	answer func(path string) (int, string)
	mu     sync.Mutex
	calls  []call
}

func (f *fakeText) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call{req.URL.Path, time.Now()})
	code, text := f.answer(req.URL.Path)
	return &http.Response{
		StatusCode: code, Header: http.Header{}, ContentLength: int64(len(text)), Request: req,
		Body: io.NopCloser(strings.NewReader(text)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// since returns the calls at or after an instant, and the most at once is
// counted anew from now on.
func (f *fake) since(at time.Time) (list []call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if !c.at.Before(at) {
			list = append(list, c)
		}
	}
	return list
}

// virtually fetches n pages of a fake site on virtual time.
func virtually(t *testing.T, site *fake, p policy.Policy, n int, change func(*Options)) Fetch {
	t.Helper()
	s := memory.New(memory.Config{})
	defer s.Close()
	o := Options{Store: s, Name: "test", Policy: p, Transport: site, Seed: 1}
	if change != nil {
		change(&o)
	}
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context(), urls(pagesOf("http://site.test", n)...)); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.Fetch()
}

// Seed 000, all down for ever: 3 tries a page after 5 and 10 s with jitter,
// 5 workers 150 ms apart, then three waves of 2 workers 500 ms apart, each
// after 90 s: 270 s of cooldown at worst.
func TestScrapeIsTheSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &fake{took: 20 * time.Millisecond, answer: func(string, time.Time) (int, error) { return 503, nil }}
		began := time.Now()
		const pages = 6
		f := virtually(t, site, policy.MustPreset("scrape"), pages, nil)
		if f.Stopped != "spent" || len(f.Waves) != 3 {
			t.Fatalf("stopped %q after %d waves", f.Stopped, len(f.Waves))
		}
		if want := (Tally{Input: pages, Exhausted: pages}); *f.Tally != want {
			t.Errorf("tally %+v, want %+v", *f.Tally, want)
		}
		var cooldown time.Duration
		edges := []time.Time{began}
		for i, w := range f.Waves {
			cooldown += w.StartAt.Sub(w.PlannedAt)
			if w.Number != i+1 || w.Planned != pages || w.Tried != pages || w.Recovered != 0 || w.Concurrency != 2 || w.Spacing != 500*time.Millisecond {
				t.Errorf("wave %+v", w)
			}
			edges = append(edges, w.StartAt)
		}
		if cooldown != 270*time.Second {
			t.Errorf("cooldown %s, want 270s", cooldown)
		}
		for pass := range edges {
			spacing := 500 * time.Millisecond
			if pass == 0 {
				spacing = 150 * time.Millisecond
			}
			end := time.Now().Add(time.Hour)
			if pass+1 < len(edges) {
				end = edges[pass+1]
			}
			judgePass(t, pass, site.since(edges[pass]), end, pages, spacing)
		}
		if site.most > 5 {
			t.Errorf("%d at once", site.most)
		}
		if n := len(site.calls); n != 4*3*pages {
			t.Errorf("%d calls, want %d", n, 4*3*pages)
		}
	})
}

// judgePass holds the calls of one pass against the seed's figures.
func judgePass(t *testing.T, pass int, calls []call, end time.Time, pages int, spacing time.Duration) {
	t.Helper()
	tries := map[string][]time.Time{}
	var last time.Time
	for _, c := range calls {
		if !c.at.Before(end) {
			break
		}
		if !last.IsZero() && c.at.Sub(last) < spacing {
			t.Errorf("pass %d: starts %s apart, want %s", pass, c.at.Sub(last), spacing)
		}
		last = c.at
		tries[c.path] = append(tries[c.path], c.at)
	}
	if len(tries) != pages {
		t.Errorf("pass %d: %d pages were tried, want %d", pass, len(tries), pages)
	}
	const took, slack = 20 * time.Millisecond, 5 * time.Second // slack: others' turns
	for path, at := range tries {
		if len(at) != 3 {
			t.Errorf("pass %d: %s was tried %d times", pass, path, len(at))
			continue
		}
		for i, base := range []time.Duration{5 * time.Second, 10 * time.Second} {
			gap := at[i+1].Sub(at[i]) - took
			if gap < base || gap > base+base/2+slack {
				t.Errorf("pass %d: %s: %s before try %d, want %s to %s", pass, path, gap, i+2, base, base+base/2)
			}
		}
	}
}

// Connection errors wait a flat 5 s, both times.
func TestConnectionErrorsWaitFlat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &fake{took: time.Millisecond, answer: func(string, time.Time) (int, error) { return 0, syscall.ECONNREFUSED }}
		f := virtually(t, site, policy.MustPreset("scrape"), 1, nil)
		if f.Tally.Exhausted != 1 || len(site.calls) != 4*3 {
			t.Fatalf("%+v after %d calls", f.Tally, len(site.calls))
		}
		for i := range 2 {
			if gap := site.calls[i+1].at.Sub(site.calls[i].at) - time.Millisecond; gap < 5*time.Second || gap > 5*time.Second+10*time.Millisecond {
				t.Errorf("%s before try %d, want 5s", gap, i+2)
			}
		}
	})
}

// A wave takes up what failed and nothing else, and a success overwrites.
func TestWaveRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(100 * time.Second)
		site := &fake{took: time.Millisecond, answer: func(path string, at time.Time) (int, error) {
			switch {
			case strings.HasSuffix(path, "/0"):
				return 404, nil
			case strings.HasSuffix(path, "/1"):
				return 200, nil
			case at.Before(up):
				return 0, errors.New("EOF: " + io.ErrUnexpectedEOF.Error())
			}
			return 200, nil
		}}
		f := virtually(t, site, policy.MustPreset("scrape"), 4, nil)
		want := Tally{Input: 4, OK: 3, Permanent: 1}
		if *f.Tally != want || len(f.Waves) != 1 || f.Waves[0].Planned != 2 || f.Waves[0].Recovered != 2 || f.Waves[0].Tried != 2 || f.Stopped != "permanent" {
			t.Errorf("%+v, waves %+v, stopped %s", *f.Tally, f.Waves, f.Stopped)
		}
		count := map[string]int{}
		for _, c := range site.calls {
			count[c.path]++
		}
		if count["/page/0"] != 1 || count["/page/1"] != 1 || count["/page/2"] != 4 || count["/page/3"] != 4 {
			t.Errorf("calls %v", count)
		}
	})
}
