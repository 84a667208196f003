package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

func newCampaignBench(t *testing.T) *bench {
	t.Helper()
	s := memory.New(memory.Config{})
	runs, err := supervise.New(supervise.Config{Store: s, Self: []string{"ebb"}})
	if err != nil {
		t.Fatal(err)
	}
	service, err := campaign.New(campaign.Config{Store: s, Runs: runs})
	if err != nil {
		t.Fatal(err)
	}
	text := "version: 1\ncommand: [wget, --mirror]\nsources: [{name: hc, seeds: [https://hc.example/]}, {name: phac, seeds: [https://phac.example/]}]\n"
	c, err := campaign.Parse("annual.yaml", []byte(text), "/srv")
	if err != nil {
		t.Fatal(err)
	}
	old, err := c.RunSpec("hc", 2026)
	if err != nil {
		t.Fatal(err)
	}
	old.Options = supervise.Options{MaxContainerRestarts: 5, ErrorThresholdTimeout: 10, ErrorThresholdHTTP: 10}
	if _, err := runs.Submit(t.Context(), time.Now(), supervise.Submission{Spec: old, Queue: c.Queue}); err != nil {
		t.Fatal(err)
	}
	if _, err := service.Schedule(t.Context(), time.Now(), "maya", &c, 2026, true); err != nil {
		t.Fatal(err)
	}
	return newBenchOn(t, s, func(c *api.Config, _ *api.LeasesConfig) { c.Runs, c.Campaigns = runs, service })
}

func TestCampaignsOverHTTP(t *testing.T) {
	b := newCampaignBench(t)
	ops, reader := b.token("ops", access.Operate), b.token("eye", access.Read)
	b.expect(b.do(reader, "GET", "/v1/campaigns", ""), http.StatusOK, `"campaign":"annual-2026"`, `"state":"waiting"`)
	b.expect(b.do(reader, "GET", "/v1/campaigns/annual", ""), http.StatusOK, `"place":2,"source":"phac"`, `"name":"phac-2026"`)
	b.expect(b.do(reader, "GET", "/v1/campaigns/annual-2026/report", ""), http.StatusOK, `"complete":false`, `"waiting":2`)
	b.expect(b.do(reader, "GET", "/v1/campaigns/none", ""), http.StatusNotFound, "none of that name")
	b.expect(b.do(reader, "POST", "/v1/campaigns/annual/recover", `{}`), http.StatusForbidden, "scope operate")
	b.expect(b.do(ops, "POST", "/v1/campaigns/annual/lock", `{"reason":""}`), http.StatusUnprocessableEntity, "say why")
	b.expect(b.do(ops, "POST", "/v1/campaigns/annual/lock", `{"reason":"new disk","seconds":3600}`), http.StatusOK, `"reason":"new disk"`, `"actor":"ops"`)
	b.expect(b.do(ops, "POST", "/v1/campaigns/annual/recover", `{"apply":true}`), http.StatusOK, `"applied":false`, "new disk", `"verb":"wait"`)
	b.expect(b.do(ops, "POST", "/v1/campaigns/annual/unlock", ""), http.StatusOK, `"campaign":"annual-2026"`)
	b.expect(b.do(ops, "POST", "/v1/campaigns/annual/recover", `{}`), http.StatusOK, `"applied":false`, `"verb":"raise"`)
	b.expect(b.do(ops, "POST", "/v1/campaigns/annual/recover", `{"apply":true}`), http.StatusOK, `"applied":true`, `"to":{"max_container_restarts":20,"error_threshold_timeout":50,"error_threshold_http":50}`)
	b.expect(b.do(ops, "POST", "/v1/campaigns/annual/recover", `{"apply":true}`), http.StatusOK, `"applied":false`)
}

func TestServerWithoutCampaignsSaysSo(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/v1/campaigns", "/v1/campaigns/annual"} {
		b.expect(b.do(b.token("eye", access.Read), "GET", path, ""), http.StatusNotFound, "no_campaigns", "this server has none")
	}
}
