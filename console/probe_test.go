package console_test

import (
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// breaks opens the breaker of a target for half a minute, as workers would.
func (s *site) breaks(target string) {
	s.Helper()
	rows, err := s.store.Gates(s.Context(), []string{target})
	if err != nil {
		s.Fatal(err)
	}
	p := policy.MustPreset("webhook")
	g, c, now := rows[0], gate.Of(&p), s.clock.Now()
	g.Policy = p.Name
	for range p.Breaker.Consecutive {
		g.State, _ = gate.Step(c, g.State, gate.Ask{}, now, 0.5)
		g.State, _ = gate.Step(c, g.State, gate.Done{Failure: failure.Of(failure.Server)}, now, 0.5)
	}
	g.OpenAt, _ = gate.Shut(c, g.State, now)
	if ok, err := s.store.SwapGate(s.Context(), now, store.AuditRow{Actor: "worker", Act: "target.step", What: target}, store.Swap{Gate: g}); err != nil || !ok {
		s.Fatalf("the gate was not swapped: %v", err)
	}
}

func (s *site) phase(target string, want gate.Phase) {
	s.Helper()
	t, err := s.ops.Target(s.Context(), target)
	if err != nil || t.Breaker.Phase != want {
		s.Errorf("the breaker is %s, want %s: %v", t.Breaker.Phase, want, err)
	}
}

// The page of a target whose breaker is open offers a probe and a close; that
// of a healthy one, or of a paused one, does not.
func TestProbeAndCloseOnTheTargetsPage(t *testing.T) {
	s, k := kept(t)
	s.add(engine.NewJob{Kind: "mail", Target: "mx"})
	s.login(k, operates)
	at, form := "/target?name=mx", url.Values{"name": {"mx"}}
	has := func(want bool, orders ...string) {
		t.Helper()
		text := s.page(200, at)
		for _, order := range orders {
			if got := strings.Contains(text, `action="/target/`+order+`"`); got != want {
				t.Errorf("the page offers %s: %t, want %t", order, got, want)
			}
		}
	}
	has(false, "probe", "close")
	s.breaks("mx")
	has(true, "probe", "close", "pause")

	if got, want := s.order(303, "/target/probe", form), "/target?name=mx&done=probed&probe=sent"; got != want {
		t.Errorf("went to %s, want %s", got, want)
	}
	s.page(200, at+"&done=probed&probe=sent", "A probe is ordered. The target is called now, as the probe that decides.", "by maya")
	s.phase("mx", gate.HalfOpen)
	s.order(303, "/target/close", form)
	s.page(200, at+"&done=closed", "The breaker is closed.", "target.close")
	s.phase("mx", gate.Closed)

	s.breaks("mx")
	s.order(303, "/target/pause", form)
	has(false, "probe")
	has(true, "close", "resume")
	s.order(409, "/target/probe", form)
	if got, want := s.order(303, "/target/resume", form), "/target?name=mx&done=resumed&probe=sent"; got != want {
		t.Errorf("went to %s, want %s", got, want)
	}
	s.phase("mx", gate.HalfOpen)
	if text := s.page(200, at+"&done=probed&probe=%3Cb%3Ehello"); strings.Contains(text, "hello") {
		t.Error("the address brings words of its own")
	}
}

// A retry on a page has the target called, and says so; an act on all that
// match does not.
func TestRetryOnAPageProbes(t *testing.T) {
	synctest.Test(t, retryOnAPageProbes)
}

func retryOnAPageProbes(t *testing.T) {
	s, k := kept(t)
	id := s.add(engine.NewJob{Kind: "mail", Target: "mx", DueAt: t0.Add(time.Hour)})
	s.login(k, operates)
	s.breaks("mx")
	s.order(303, "/jobs/all", url.Values{"act": {"run"}, "target": {"mx"}, "sure": {"yes"}})
	synctest.Wait()
	if j, err := s.ops.Job(t.Context(), id); err != nil || !j.DueAt.Equal(t0) {
		t.Fatalf("due %s, want now: %v", j.DueAt, err)
	}
	s.phase("mx", gate.Open)
	if got, want := s.order(303, "/jobs/"+id+"/retry", nil), "/jobs/"+id+"?done=retried&probe=sent"; got != want {
		t.Errorf("went to %s, want %s", got, want)
	}
	s.page(200, "/jobs/"+id+"?done=retried&probe=sent", "The job is queued again. The target is called now, as the probe that decides.")
	s.phase("mx", gate.HalfOpen)
	s.login(k, access.Principal{Name: "reader", Scopes: []access.Scope{access.Read}})
	for _, order := range []string{"probe", "close"} {
		s.order(403, "/target/"+order, url.Values{"name": {"mx"}})
		s.order(403, "/target/"+order, url.Values{"name": {"mx"}}, "Sec-Fetch-Site", "cross-site")
	}
}
