package console_test

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// counted is how many jobs of the filter there are.
func (s *site) counted(f engine.Filter) int {
	s.Helper()
	list, err := s.ops.Jobs(s.Context(), f, engine.Page{Limit: engine.MaxLimit})
	if err != nil {
		s.Fatal(err)
	}
	return len(list.Jobs)
}

func TestActsOnAllThatMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k := kept(t)
		for range 450 {
			s.add(engine.NewJob{Kind: "mail", Key: "order-1"})
		}
		other := s.add(engine.NewJob{Kind: "bill"})
		s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}})
		s.page(200, "/jobs?kind=mail", `action="/jobs/all"`, `value="cancel"`, `value="run"`)
		if strings.Contains(s.page(200, "/jobs?kind=mail&state=succeeded"), `action="/jobs/all"`) {
			t.Error("what has ended well is offered for an act")
		}
		form := url.Values{"kind": {"mail"}, "key": {"order-"}, "act": {"cancel"}}
		text := s.order(200, "/jobs/all", form)
		wellFormed(t, "all", text)
		if !strings.Contains(text, "Cancel: 450 jobs?") || s.counted(engine.Filter{State: job.Queued}) != 451 {
			t.Errorf("dry run: %s", text)
		}
		form.Set("sure", "yes")
		if got := s.order(303, "/jobs/all", form); got != "/jobs?done=begun&key=order-&kind=mail" {
			t.Errorf("went to %s", got)
		}
		synctest.Wait()
		s.page(200, "/jobs?done=begun", "Begun.", `<th scope="row">Cancel</th><td class="wrap">any state · kind mail · key with “order-”</td><td>maya</td><td class="n">450</td>`, `<span class="state done">`)
		if n := s.counted(engine.Filter{State: job.Cancelled}); n != 450 {
			t.Errorf("%d cancelled", n)
		}
		if j, err := s.ops.Job(t.Context(), other); err != nil || j.State != job.Queued {
			t.Errorf("the other is %s, %v", j.State, err)
		}
		rows, err := s.store.Audit(t.Context(), 1000)
		if err != nil || rows[0].Actor != "maya" || rows[0].Act != "job.cancel" {
			t.Errorf("audit %+v, %v", rows[0], err)
		}
		s.order(400, "/jobs/all", url.Values{"act": {"burn"}})
		s.order(400, "/jobs/all", url.Values{"act": {"run"}, "state": {"failed"}})
	})
}

// blocking is an Ops whose cancels wait.
type blocking struct {
	engine.Ops
	free chan struct{}
}

func (b *blocking) Cancel(ctx context.Context, id string) (engine.Job, error) {
	select {
	case <-b.free:
		return b.Ops.Cancel(ctx, id)
	case <-ctx.Done():
		return engine.Job{}, ctx.Err()
	}
}

func TestActsCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k := kept(t)
		slow := &blocking{Ops: s.ops, free: make(chan struct{})}
		s.reopen(k, slow)
		for range 3 {
			s.add(engine.NewJob{Kind: "mail", Queue: "own"})
		}
		s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}})
		form := url.Values{"queue": {"own"}, "act": {"cancel"}, "sure": {"yes"}}
		s.order(303, "/jobs/all", form)
		s.order(303, "/jobs/all", form)
		s.order(429, "/jobs/all", form)
		slow.free <- struct{}{}
		synctest.Wait()
		s.page(200, "/jobs", "under way", `action="/jobs/all/stop"`)
		if got := s.order(303, "/jobs/all/stop", url.Values{"id": {"1"}}); got != "/jobs?done=stopped&queue=own" {
			t.Errorf("went to %s", got)
		}
		s.order(303, "/jobs/all/stop", url.Values{"id": {"2"}})
		synctest.Wait()
		s.page(200, "/jobs?done=stopped", `<span class="state stopped">`, "Stopped where it was")
		if n := s.counted(engine.Filter{State: job.Cancelled}); n != 1 {
			t.Errorf("%d cancelled, want the one that was let through", n)
		}
		s.order(404, "/jobs/all/stop", url.Values{"id": {"9"}})
		s.login(k, access.Principal{Name: "reader", Scopes: []access.Scope{access.Read}})
		s.order(403, "/jobs/all", form)
		s.order(403, "/jobs/all/stop", url.Values{"id": {"1"}})
	})
}

// TestALongListSaysHowFarItLooked: a page that found nothing among many jobs
// offers to look further, and finds it there.
func TestALongListSaysHowFarItLooked(t *testing.T) {
	s := open(t)
	rare := s.add(engine.NewJob{Kind: "rare"})
	many := make([]engine.NewJob, engine.PageRows)
	for i := range many {
		many[i].Kind = "mail"
	}
	if _, err := s.ops.Enqueue(t.Context(), many...); err != nil {
		t.Fatal(err)
	}
	text := s.page(200, "/jobs?kind=rare", "None of the 20\u2009000 jobs that were looked at matches.", "Look further")
	at := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(text)
	if at == nil {
		t.Fatal("there is no way on")
	}
	s.page(200, strings.ReplaceAll(at[1], "&amp;", "&"), rare)
}
