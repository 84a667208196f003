package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// end fails or parks what waits for a target, as workers do.
func (s *site) end(target string, to job.State, cause job.Cause, n int) {
	s.Helper()
	got, err := s.store.EndWaiting(s.Context(), s.clock.Now(), store.Ending{
		Target: target, Any: true, DueBy: s.clock.Now(), To: to, Cause: cause, Limit: n,
	})
	if err != nil || store.EndTotal(got) != n {
		s.Fatalf("ended %v, want %d: %v", got, n, err)
	}
}

// Overview, dead letters and parked jobs are told by cause; of those that wait
// until their target is well, how many, for whom, and how to probe it now.
func TestEndsByCause(t *testing.T) {
	s := open(t)
	const crm, shop = "https://crm.example/in?a=b", "https://shop.example"
	for _, target := range []string{crm, crm, crm, shop, "old", "old", "late", "late"} {
		s.add(engine.NewJob{Kind: "hook", Target: target, Policy: "webhook"})
	}
	s.add(engine.NewJob{Kind: "mail"})
	s.work(job.DefaultQueue, fatal)
	s.end(crm, job.Parked, retry.CauseTargetDown, 3)
	s.end(shop, job.Parked, retry.CauseTargetDown, 1)
	s.end("old", job.Parked, job.Disabled, 2)
	s.end("late", job.Failed, retry.CauseExpired, 2)

	row := func(link, cause string, n int) string {
		return fmt.Sprintf(`<tr><th scope="row"><a href="%s">%s</a></th><td class="n">%d</td>`, link, cause, n)
	}
	parked := []string{
		row("/jobs?cause=target_down&amp;state=parked", "target_down", 4),
		row("/jobs?cause=disabled&amp;state=parked", "disabled", 2),
		`<a href="/jobs?cause=target_down&amp;state=parked&amp;target=https%3A%2F%2Fcrm.example%2Fin%3Fa%3Db">3 jobs wait</a> until <a href="/target?name=https%3a%2f%2fcrm.example%2fin%3fa%3db">https://crm.example/in?a=b</a> is well; it is probed once a minute.`,
		`<code>ebb target probe &#39;https://crm.example/in?a=b&#39;</code>`,
		`>1 job waits</a> until <a href="/target?name=https%3a%2f%2fshop.example">https://shop.example</a> is well`,
	}
	dead := []string{row("/dead?cause=expired", "expired", 2), row("/dead?cause=fatal", "fatal", 1), "their time ran out before their attempts did"}
	s.page(200, "/", append(append([]string{"4 jobs are parked until https://crm.example/in?a=b and 1 more are well"}, parked...), dead...)...)
	s.page(200, "/dead", append(append([]string{"which are no dead letters"}, parked...), dead...)...)
	s.page(200, "/jobs?state=parked", parked...)
	s.page(200, "/target?name="+shop, "1 job is parked until it is well (target_down), attempts unspent")

	text := s.page(200, "/jobs?state=parked&cause=disabled", "cause disabled")
	if n := strings.Count(text, `<td><span class="state parked">`); n != 2 {
		t.Errorf("%d jobs are listed for one cause, want 2", n)
	}
	if text := s.page(200, "/dead?cause=expired", row("/dead?cause=expired", "expired", 2)); strings.Contains(text, "which are no dead letters") {
		t.Error("one cause was chosen, and others are told of")
	}
	if text := s.page(200, "/jobs?state=queued"); strings.Contains(text, "by cause") {
		t.Error("what waits is told by cause")
	}
}

// Who may see one queue is told of its parked jobs alone.
func TestParkedOfOwnQueues(t *testing.T) {
	s, k := kept(t)
	for _, queue := range []string{"mine", "theirs", "theirs"} {
		s.add(engine.NewJob{Kind: "hook", Queue: queue, Target: "https://" + queue + ".example", Policy: "webhook"})
	}
	s.end("https://mine.example", job.Parked, retry.CauseTargetDown, 1)
	s.end("https://theirs.example", job.Parked, retry.CauseTargetDown, 2)
	s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Read}, Queues: []string{"mine", "other"}})
	for _, path := range []string{"/", "/dead", "/jobs?state=parked"} {
		if text := s.page(200, path, "1 job waits"); strings.Contains(text, "theirs") {
			t.Errorf("%s tells of another's jobs:\n%s", path, text)
		}
	}
}
