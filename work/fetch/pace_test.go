package fetch

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/memory"
)

// machines lets n of them share one fetch of a fake site, and returns the
// starts of pages in their order.
func machines(t *testing.T, n, pages int, site *fakeText, change func(*Options)) []time.Time {
	t.Helper()
	s := memory.New(memory.Config{})
	defer s.Close()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			o := Options{Store: s, Name: "shared", Policy: policy.MustPreset("polite"), Transport: site, Shared: true}
			change(&o)
			r, err := Open(t.Context(), o)
			if err == nil {
				err = r.Load(t.Context(), urls(pagesOf("http://site.test", pages)...))
			}
			if err == nil {
				err = r.Run(t.Context())
			}
			if f := r.Fetch(); err != nil || f.Tally == nil || f.Tally.OK != int64(pages) {
				t.Errorf("%+v, %v", f.Tally, err)
			}
		})
	}
	all.Wait()
	var starts []time.Time
	for _, c := range site.calls {
		if strings.HasPrefix(c.path, "/page/") {
			starts = append(starts, c.at)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	if len(starts) != pages {
		t.Errorf("%d calls for %d pages", len(starts), pages)
	}
	return starts
}

func closest(starts []time.Time) time.Duration {
	least := time.Hour
	for i := range starts[1:] {
		least = min(least, starts[i+1].Sub(starts[i]))
	}
	return least
}

// A Crawl-delay holds over all machines of a fetch, those included that begin
// later.
func TestCrawlDelayOfAllMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &fakeText{answer: func(path string) (int, string) {
			if path == "/robots.txt" {
				return 200, "User-agent: *\nCrawl-delay: 3\n"
			}
			return 200, "page"
		}}
		starts := machines(t, 3, 30, site, func(o *Options) { o.Robots = true })
		if d := closest(starts); d < 3*time.Second {
			t.Errorf("two starts %s apart, want 3s", d)
		}
		if took := starts[len(starts)-1].Sub(starts[0]); took > 2*30*3*time.Second {
			t.Errorf("30 pages took %s", took)
		}
	})
}

// The spacing of the policy is the host's where machines share it.
func TestSpacingOfAllMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &fakeText{answer: func(string) (int, string) { return 200, "page" }}
		starts := machines(t, 3, 90, site, func(*Options) {})
		if d := closest(starts); d < 149*time.Millisecond {
			t.Errorf("two starts %s apart, want 150ms", d)
		}
		if took := starts[len(starts)-1].Sub(starts[0]); took > 2*90*150*time.Millisecond {
			t.Errorf("90 pages took %s", took)
		}
	})
}

// After an outage the host gets half of what it bore before, and more only by
// and by. A process that begins anew knows it.
func TestResumesAtHalfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		from, to := 40*time.Second, 100*time.Second
		site := down(from, to)
		virtually(t, site, policy.MustPreset("polite"), 1200, nil)
		count := func(from, to time.Duration) (n int) {
			for _, c := range site.calls {
				if at := c.at.Sub(began); at >= from && at < to {
					n++
				}
			}
			return n
		}
		var back time.Duration // the first call after the outage
		for _, c := range site.calls {
			if at := c.at.Sub(began); back == 0 && at > to {
				back = at
			}
		}
		before, after := count(from-20*time.Second, from), count(back, back+20*time.Second)
		if before < 130 || after > before*6/10 || after < before/4 {
			t.Errorf("%d calls in the 20 s before the outage, %d in the first 20 s after it", before, after)
		}
		later := count(back+60*time.Second, back+80*time.Second)
		if later <= after {
			t.Errorf("%d calls in 20 s a minute later, no more than %d", later, after)
		}
	})
}
