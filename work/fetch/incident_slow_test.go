//go:build slow

package fetch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
)

// speed is how much faster policy time and the site's clock run.
const speed = 60

// log is what the site saw: the judge of what was sent.
type requestLog struct {
	all, into int
}

// fetchIncident runs a policy against the site on loopback, with SQLite and
// files, and returns its account and the log.
func fetchIncident(t *testing.T, p policy.Policy, status func(since time.Duration) int) (Fetch, requestLog) {
	t.Helper()
	at := clock.Scaled{Start: time.Now(), Factor: speed}
	var log requestLog
	var s *site
	s = newSite(t, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		log.all++
		code := status(at.Now().Sub(at.Start))
		if code != http.StatusOK {
			log.into++
		}
		s.mu.Unlock()
		w.WriteHeader(code)
		fmt.Fprintf(w, "<title>%s</title>%s", r.URL.Path, strings.Repeat("vote ", 400))
	})
	f := run(t, t.TempDir(), func(o *Options) { o.Policy, o.Clock, o.Waiver = p, at, "" }, pagesOf(s.URL, incidentPages)...).Fetch()
	return f, log
}

// The incident over real connections, 60 times faster: (a).
func TestIncidentOutageForReal(t *testing.T) {
	const from, to = 40 * time.Second, 330 * time.Second
	outage := func(since time.Duration) int {
		if since >= from && since < to {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	for _, c := range []struct {
		name        string
		policy      policy.Policy
		least, most int64 // lost
	}{
		{"three tries", bare(t, 3), 55, incidentPages},
		{"six tries", bare(t, 6), 1, incidentPages},
		{"scrape", policy.MustPreset("scrape"), 0, 0},
		{"polite", policy.MustPreset("polite"), 0, 0},
	} {
		f, log := fetchIncident(t, c.policy, outage)
		lost := f.Tally.Input - f.Tally.OK
		t.Logf("%-12s lost %3d of %d, %4d requests, %4d into the outage, %d waves, took %s of policy time", c.name, lost, incidentPages, log.all, log.into, len(f.Waves), f.EndedAt.Sub(f.CreatedAt).Round(time.Second))
		if lost < c.least || lost > c.most || len(f.Waves) > 2 {
			t.Errorf("%s lost %d pages after %d waves, want %d to %d within 2", c.name, lost, len(f.Waves), c.least, c.most)
		}
	}
}

// … and (b): an outage that ends only after 60 s without a request.
func TestIncidentTouchyForReal(t *testing.T) {
	into := map[string]int{}
	for _, name := range []string{"scrape", "polite"} {
		var since time.Duration
		began := time.Unix(0, 0)
		broken := &touchy{breakAt: 300, quiet: time.Minute, now: func() time.Time { return began.Add(since) }}
		f, log := fetchIncident(t, policy.MustPreset(name), func(now time.Duration) int {
			since = now
			return broken.answer()
		})
		lost := f.Tally.Input - f.Tally.OK
		t.Logf("%-7s lost %3d of %d, %4d requests, %4d into the outage, %d waves, took %s of policy time", name, lost, incidentPages, log.all, log.into, len(f.Waves), f.EndedAt.Sub(f.CreatedAt).Round(time.Second))
		if lost != 0 {
			t.Errorf("%s lost %d pages", name, lost)
		}
		into[name] = log.into
	}
	if into["polite"]*50 > into["scrape"] {
		t.Errorf("%d requests into the outage by polite, %d by scrape: less than 50 times fewer", into["polite"], into["scrape"])
	}
}
