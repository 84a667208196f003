package fetch

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/internal/oneshot/oneshottest"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// alone is scrape with one slot, for a clock that runs a thousand times faster:
// only its timeout is longer, so that a slow machine does not reach it.
func alone(t *testing.T) policy.Policy {
	t.Helper()
	p := policy.MustPreset("scrape")
	p.Spacing, p.Waves.Spacing, p.Concurrency, p.Waves.Concurrency, p.Timeout = 0, 0, 1, 1, 3*time.Hour
	p, err := policy.Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tries fetches the pages by the product's own transport and returns how many
// tries the ledger has, and how many of them failed.
func tries(t *testing.T, s *oneshottest.Server, robots bool, list ...string) (all, failed int) {
	t.Helper()
	db := memory.New(memory.Config{})
	defer db.Close()
	to := transport(1)
	to.TLSClientConfig = s.TLS
	defer to.CloseIdleConnections()
	r, err := Open(t.Context(), Options{
		Store: db, Name: "test", Policy: alone(t), Transport: to, Robots: robots, Exclusive: true, Waiver: "a test on loopback",
		Clock: clock.Scaled{Start: time.Now(), Factor: 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context(), urls(list...)); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs, err := db.List(t.Context(), store.Filter{Kind: Kind}, store.Page{Limit: 100})
	if err != nil || len(jobs) != len(list) {
		t.Fatalf("%d jobs of %d pages, %v", len(jobs), len(list), err)
	}
	for i := range jobs {
		rows, err := db.Attempts(t.Context(), jobs[i].Seq)
		if err != nil {
			t.Fatal(err)
		}
		for k := range rows {
			if !rows[k].OK {
				failed++
			}
		}
		all += len(rows)
	}
	return all, failed
}

func page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.WriteString(w, "this is "+r.URL.Path)
}

// Whatever a host does, it gets one request for each try in the ledger.
func TestOneTryIsOneRequest(t *testing.T) {
	for _, fault := range oneshottest.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			s := oneshottest.Start(t, fault, http.HandlerFunc(page))
			all, failed := tries(t, s, false, pagesOf(s.URL, 6)...)
			if n := s.Requests(); n != all || failed != s.Faults() || failed == 0 {
				t.Errorf("%d requests, %d tries; %d failed, the host broke %d off", n, all, failed, s.Faults())
			}
		})
	}
}

// A robots.txt that cannot be had is asked for once in each try of its page:
// three, and three in each of three waves.
func TestRobotsOncePerTry(t *testing.T) {
	for _, fault := range []oneshottest.Fault{oneshottest.GoAway, oneshottest.RefuseStream, oneshottest.ProtocolError, oneshottest.CloseFirst} {
		t.Run(string(fault), func(t *testing.T) {
			s := oneshottest.Start(t, fault, nil)
			all, failed := tries(t, s, true, s.URL+"/page")
			if n := s.Requests(); n != all || failed != all || all != 12 {
				t.Errorf("%d requests, %d tries, %d failed", n, all, failed)
			}
		})
	}
}

// The hops of a redirect are requests of one try. None of them is sent twice.
func TestRedirectHopOncePerTry(t *testing.T) {
	for _, fault := range []oneshottest.Fault{oneshottest.GoAway, oneshottest.RefuseStream, oneshottest.CloseReused, oneshottest.ResetReused} {
		t.Run(string(fault), func(t *testing.T) {
			s := oneshottest.Start(t, fault, http.HandlerFunc(page))
			from := newSite(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, s.URL+r.URL.Path, http.StatusTemporaryRedirect)
			})
			all, failed := tries(t, s, false, pagesOf(from.URL, 4)...)
			hops := 0
			for i := range 4 {
				hops += from.count(fmt.Sprintf("/page/%d", i))
			}
			if n := s.Requests(); n != all || hops != all || failed != s.Faults() || failed == 0 {
				t.Errorf("%d and %d requests, %d tries; %d failed, the host broke %d off", hops, n, all, failed, s.Faults())
			}
		})
	}
}
