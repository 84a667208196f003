package fetch

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// The incident of seed 000: 882 pages of an old site.
const incidentPages = 882

// bare is scrape without its waves and with so many tries a page. No contract
// would let it run, which is the point: it is waived.
func bare(t testing.TB, tries int) policy.Policy {
	t.Helper()
	p := policy.MustPreset("scrape")
	p.Attempts, p.Waves = tries, policy.Waves{}
	for _, rule := range []string{"window", "budget", "metastable"} {
		p.Waivers = append(p.Waivers, policy.Waiver{Rule: rule, Reason: "what the seed had before its waves", Expires: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)})
	}
	sealed, err := policy.Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// down is a site that answers 503 from one instant to another.
func down(from, to time.Duration) *fake {
	began := time.Now()
	return &fake{took: 50 * time.Millisecond, answer: func(_ string, at time.Time) (int, error) {
		if since := at.Sub(began); since >= from && since < to {
			return http.StatusServiceUnavailable, nil
		}
		return http.StatusOK, nil
	}}
}

// (a) An outage in which three tries a page lose 55 and more. Waves lose none
// within two; more tries without waves still lose.
func TestIncidentOutage(t *testing.T) {
	const from, to = 40 * time.Second, 290 * time.Second
	for _, c := range []struct {
		name   string
		policy policy.Policy
		judge  func(t *testing.T, lost int64, waves []Wave)
	}{
		{"three tries", bare(t, 3), func(t *testing.T, lost int64, _ []Wave) {
			if lost < 55 {
				t.Errorf("three tries lost %d pages; the outage is too mild to show anything", lost)
			}
		}},
		{"six tries", bare(t, 6), func(t *testing.T, lost int64, _ []Wave) {
			if lost == 0 {
				t.Error("six tries lost nothing; the outage is too mild to show anything")
			}
		}},
		{"scrape", policy.MustPreset("scrape"), func(t *testing.T, lost int64, waves []Wave) {
			if lost != 0 || len(waves) == 0 || len(waves) > 2 {
				t.Errorf("lost %d pages after %d waves", lost, len(waves))
			}
		}},
		{"polite", policy.MustPreset("polite"), func(t *testing.T, lost int64, waves []Wave) {
			if lost != 0 || len(waves) > 2 {
				t.Errorf("lost %d pages after %d waves", lost, len(waves))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := virtually(t, down(from, to), c.policy, incidentPages, nil)
				c.judge(t, f.Tally.Input-f.Tally.OK, f.Waves)
			})
		})
	}
}

// touchy is a site that breaks down at a request and recovers only after a
// minute in which nobody asks.
type touchy struct {
	breakAt int
	quiet   time.Duration
	now     func() time.Time

	mu    sync.Mutex
	seen  int
	isOut bool
	last  time.Time
	into  int // requests that met the outage
}

func (s *touchy) answer() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.isOut && now.Sub(s.last) >= s.quiet {
		s.isOut = false
	}
	s.last = now
	if s.seen++; s.seen == s.breakAt {
		s.isOut = true
	}
	if s.isOut {
		s.into++
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// (b) An outage that ends only after 60 s without a request: polite loses
// nothing, with at least 50 times fewer requests into it than scrape.
func TestIncidentTouchy(t *testing.T) {
	into := map[string]int{}
	for _, name := range []string{"scrape", "polite"} {
		synctest.Test(t, func(t *testing.T) {
			broken := &touchy{breakAt: 300, quiet: time.Minute, now: time.Now}
			site := &fake{took: 50 * time.Millisecond, answer: func(string, time.Time) (int, error) { return broken.answer(), nil }}
			f := virtually(t, site, policy.MustPreset(name), incidentPages, nil)
			if lost := f.Tally.Input - f.Tally.OK; lost != 0 {
				t.Errorf("%s lost %d pages after %d waves", name, lost, len(f.Waves))
			}
			into[name] = broken.into
			t.Logf("%s: %d requests into the outage, %d waves", name, broken.into, len(f.Waves))
		})
	}
	if into["polite"]*50 > into["scrape"] {
		t.Errorf("%d requests into the outage by polite, %d by scrape: less than 50 times fewer", into["polite"], into["scrape"])
	}
}
