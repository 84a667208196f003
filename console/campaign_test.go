package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

const annual = `version: 1
command: [wget, --mirror, "--warc-file={run}"]
sources:
  - {name: hc, seeds: ["https://www.canada.ca/en/health-canada.html"]}
  - {name: phac, seeds: ["https://www.canada.ca/en/public-health.html"]}
  - {name: cihr, seeds: ["https://cihr-irsc.gc.ca/e/193.html"]}
`

func campaigns(t *testing.T, keeps store.Store, c clock.Clock) (*supervise.Service, *campaign.Service) {
	t.Helper()
	runs, err := supervise.New(supervise.Config{Store: keeps, Self: []string{"ebb"}, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	s, err := campaign.New(campaign.Config{Store: keeps, Runs: runs})
	if err != nil {
		t.Fatal(err)
	}
	return runs, s
}

// livedCampaign is one whose first source was recovered twice and got no
// further, and whose second had an old job's figures.
func livedCampaign(t *testing.T, keeps store.Store, c *clock.Fake) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	runs, s := campaigns(t, keeps, c)
	file, err := campaign.Parse("annual.yaml", []byte(annual), "/srv/crawls")
	must(err)
	old, err := file.RunSpec("phac", 2026)
	must(err)
	old.Options = supervise.Options{MaxContainerRestarts: 5, ErrorThresholdTimeout: 10, ErrorThresholdHTTP: 10}
	_, err = runs.Submit(t.Context(), c.Now(), supervise.Submission{Spec: old, Queue: file.Queue, DueAt: c.Now().Add(time.Second), Actor: "maya"})
	must(err)
	_, err = s.Schedule(t.Context(), c.Now(), "maya", &file, 2026, true)
	must(err)
	p, err := keeps.Register(t.Context(), c.Now(), store.Process{Host: "crawler-1", Kinds: []string{supervise.Kind}, Queues: []string{file.Queue}})
	must(err)
	for range 3 { // twice recovered; then its breaker is open, and phac is raised
		got, err := keeps.Turn(t.Context(), store.Turn{Process: p.ID, Now: c.Now(), Claims: []store.Claim{{Queue: file.Queue, Kinds: []string{supervise.Kind}, Limit: 1}}})
		must(err)
		j := got.Claimed[0]
		h := j.History.Started(c.Now())
		h.Attempts = 21
		_, err = keeps.Turn(t.Context(), store.Turn{Process: p.ID, Now: c.Now(), Settles: []store.Settle{{
			Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Parked, Cause: retry.CauseNoProgress, History: h,
			Attempt: &job.Attempt{
				Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: p.ID, StartedAt: c.Now(), EndedAt: c.Now(), Class: failure.Timeout, Reason: "no_progress",
				Error: "no rise of pages for 1h", Action: "park", Cause: retry.CauseNoProgress, Counted: retry.CountedAttempt,
			},
		}}})
		must(err)
		_, err = s.Recover(t.Context(), c.Now(), campaign.AutoActor, "annual", true)
		must(err)
	}
	must(keeps.Leave(t.Context(), p.ID))
	status := store.Record{Kind: "run-status", ID: "hc-2026", Version: store.AnyVersion, Body: []byte(`{"attempt":63,"workers":1}`)}
	_, err = keeps.Write(t.Context(), c.Now(), store.Write{Puts: []store.Record{status}})
	must(err)
}

// logged are runs whose logs are told here: the world's have no directories.
type logged struct{ *supervise.Service }

func (logged) Log(context.Context, string, int64) (stdout, stderr string, err error) {
	return "", strings.Repeat("--2026-03-01 12:00:00--  https://www.canada.ca/en/health-canada/services/drugs-health-products/index.html\n"+
		"HTTP request sent, awaiting response... 200 OK\n2026-03-01 12:00:01 (1.2 MB/s) - 'index.html' saved [4711]\n\n", 20), nil
}

// campaignWorld gives the world a campaign.
var campaignWorld = worldPart{
	open: func(t *testing.T, keeps store.Store, c *clock.Fake, config *console.Config) {
		runs, service := campaigns(t, keeps, c)
		config.Runs, config.Campaigns = logged{runs}, service
	},
	live: func(w *world) { livedCampaign(w.T, w.store, w.clock) },
}

func openCampaigns(t *testing.T, keeper func(*site) *access.Keeper) (*site, *access.Keeper) {
	t.Helper()
	s := open(t)
	livedCampaign(t, s.store, s.clock)
	runs, service := campaigns(t, s.store, s.clock)
	var k *access.Keeper
	if keeper != nil {
		k = keeper(s)
	}
	var err error
	if s.handler, err = console.New(console.Config{Ops: s.ops, Keeper: k, Now: s.clock.Now, Runs: runs, Campaigns: service}); err != nil {
		t.Fatal(err)
	}
	return s, k
}

func TestCampaigns(t *testing.T) {
	s, _ := openCampaigns(t, nil)
	s.page(http.StatusOK, "/campaigns", `<a href="/campaigns/annual-2026">annual-2026</a>`, "0 of 3", `<a href="/runs/hc-2026">hc</a>`)
	s.page(http.StatusOK, "/campaigns/annual-2026", "Campaign annual-2026", "the breaker is open until", "at most 3 a day, 2 without progress", "auto-recover", "as the policy says")
	s.page(http.StatusNotFound, "/campaigns/none", "There is no such campaign.")
}

func TestOrdersOfACampaignNeedTheScope(t *testing.T) {
	s, k := openCampaigns(t, func(s *site) *access.Keeper {
		k, err := access.New(s.store, s.clock, nil)
		if err != nil {
			t.Fatal(err)
		}
		return k
	})
	lock := url.Values{"reason": {"new disk"}, "for": {"2h"}}
	order := func(verb string, form url.Values) int {
		return s.ask("POST", "/campaigns/annual-2026/"+verb, strings.NewReader(form.Encode()), "Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded").Code
	}
	s.login(k, access.Principal{Name: "eye", Scopes: []access.Scope{access.Read}})
	for _, verb := range []string{"lock", "unlock", "recover"} {
		if got := order(verb, lock); got != http.StatusForbidden {
			t.Errorf("%s: status %d", verb, got)
		}
	}
	s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Read, access.Operate}})
	if got := order("lock", url.Values{"reason": {" "}}); got != http.StatusBadRequest {
		t.Errorf("a lock without a reason: status %d", got)
	}
	if got := order("lock", lock); got != http.StatusSeeOther {
		t.Errorf("lock: status %d", got)
	}
	s.page(http.StatusOK, "/campaigns/annual-2026", "new disk", "Locked by maya since", "Unlock")
	if got := order("unlock", nil); got != http.StatusSeeOther {
		t.Errorf("unlock: status %d", got)
	}
	if got := order("recover", nil); got != http.StatusConflict {
		t.Errorf("recover with nothing to do: status %d", got)
	}
}
