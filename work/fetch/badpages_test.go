package fetch

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
)

// badPages is a healthy site of which some pages next to each other answer an
// error: for good, or for a while from the first request to each.
type badPages struct {
	pages []string
	code  int
	last  time.Duration // 0 = for good

	mu    sync.Mutex
	first map[string]time.Time
	calls int // of the bad pages
}

func (b *badPages) answer(path string, at time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.pages, path) {
		return http.StatusOK
	}
	b.calls++
	if b.first == nil {
		b.first = map[string]time.Time{}
	}
	if b.first[path].IsZero() {
		b.first[path] = at
	}
	if b.last > 0 && at.Sub(b.first[path]) >= b.last {
		return http.StatusOK
	}
	return b.code
}

// fetchBad fetches the incident's pages under a policy, n of them bad from
// page `from` on. It returns the account, when the last good page came, and how
// long the whole took.
func fetchBad(t *testing.T, name string, from, n int, b *badPages) (f Fetch, good, whole time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		all := pagesOf("", incidentPages)
		b.pages = all[from : from+n]
		began, lastGood := time.Now(), time.Now()
		site := &fake{took: 50 * time.Millisecond, answer: func(path string, at time.Time) (int, error) {
			code := b.answer(path, at)
			if code == http.StatusOK {
				b.mu.Lock()
				lastGood = at
				b.mu.Unlock()
			}
			return code, nil
		}}
		f = virtually(t, site, policy.MustPreset(name), incidentPages, nil)
		good, whole = lastGood.Sub(began), time.Since(began)
	})
	return f, good, whole
}

// A bad page is not a bad host: all good pages come, soon, and the bad ones get
// the tries that were promised and no more.
func TestABadPageIsNotABadHost(t *testing.T) {
	_, healthy, _ := fetchBad(t, "polite", 0, 0, &badPages{})
	for _, n := range []int{1, 2, 5} {
		for _, from := range []int{0, 400, incidentPages - n} {
			t.Run(fmt.Sprintf("%d from %d on", n, from), func(t *testing.T) {
				b := &badPages{code: http.StatusInternalServerError}
				f, good, whole := fetchBad(t, "polite", from, n, b)
				_, _, bare := fetchBad(t, "scrape", from, n, &badPages{code: http.StatusInternalServerError})
				t.Logf("good pages after %s (a healthy site %s), all of it after %s (scrape %s), %d requests for bad pages", good, healthy, whole, bare, b.calls)
				if want := int64(incidentPages - n); f.Tally.OK != want {
					t.Errorf("%d of %d good pages", f.Tally.OK, want)
				}
				if b.calls > 12*n {
					t.Errorf("%d requests for %d bad pages, at most %d", b.calls, n, 12*n)
				}
				if good > 2*healthy {
					t.Errorf("the good pages took %s, a healthy site takes %s", good, healthy)
				}
				if whole > 2*bare {
					t.Errorf("the whole took %s, scrape %s", whole, bare)
				}
			})
		}
	}
}

// A part of a site that is down for a while costs no more time than without a
// guard, and no page.
func TestABadPartOfASiteIsNotABadHost(t *testing.T) {
	for _, from := range []int{0, 400, incidentPages - 55} {
		t.Run(fmt.Sprintf("55 from %d on", from), func(t *testing.T) {
			part := func() *badPages { return &badPages{code: http.StatusServiceUnavailable, last: 200 * time.Second} }
			b, bare := part(), part()
			f, _, whole := fetchBad(t, "polite", from, 55, b)
			_, _, took := fetchBad(t, "scrape", from, 55, bare)
			t.Logf("took %s with %d requests for bad pages; scrape %s with %d", whole, b.calls, took, bare.calls)
			if f.Tally.OK != incidentPages {
				t.Errorf("lost %d pages", incidentPages-f.Tally.OK)
			}
			if b.calls > bare.calls {
				t.Errorf("%d requests for bad pages, scrape %d", b.calls, bare.calls)
			}
			// Where the bad part is all that is left, nothing tells it from a host
			// that is down: then it is tried once a minute.
			if left := incidentPages - from - 55; left > 0 && whole > took {
				t.Errorf("took %s, scrape %s", whole, took)
			}
		})
	}
}

// The same over real connections, on SQLite and files, 40 times faster.
func TestABadPageIsNotABadHostForReal(t *testing.T) {
	b := &badPages{code: http.StatusInternalServerError, pages: pagesOf("", incidentPages)[400:405]}
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		code := b.answer(r.URL.Path, time.Now())
		w.WriteHeader(code)
		fmt.Fprintf(w, "<title>%s</title>%s", r.URL.Path, strings.Repeat("vote ", 400))
	})
	at := clock.Scaled{Start: time.Now(), Factor: 40}
	f := run(t, t.TempDir(), func(o *Options) { o.Policy, o.Clock, o.Waiver = policy.MustPreset("polite"), at, "" }, pagesOf(s.URL, incidentPages)...).Fetch()
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Tally.OK != incidentPages-5 || b.calls > 60 {
		t.Errorf("%d of %d good pages, %d requests for the bad ones; want all, and at most 60", f.Tally.OK, incidentPages-5, b.calls)
	}
}
