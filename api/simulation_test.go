package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate/report"
)

// small is a scenario that is played at once.
const small = `version: 1
name: small
length: {time: 2m}
callers: [{name: app, arrivals: [{kind: poisson, rate: 5}], targets: [{downstream: service}], policy: default}]
downstreams: [{name: service, servers: 4, service: {kind: exponential, mean: 50ms}}]
`

func simulationBench(t *testing.T, change ...func(*api.Config, *api.LeasesConfig)) (b *bench, token string) {
	t.Helper()
	b = newBench(t, append(change, func(c *api.Config, _ *api.LeasesConfig) {
		for _, name := range policy.PresetNames() {
			c.Policies = append(c.Policies, policy.MustPreset(name))
		}
	})...)
	token = b.token("reader", access.Read)
	return b, token
}

func order(t *testing.T, o api.SimulationOrder) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSimulations: what is played is what was asked for, and the same order
// has the same answer.
func TestSimulations(t *testing.T) {
	b, token := simulationBench(t)
	if g := b.do(token, "GET", "/v1/simulations", ""); g.status != 200 || !strings.Contains(string(g.body), `"pr-247"`) {
		t.Fatalf("list: %d %s", g.status, g.body)
	}
	seed := int64(7)
	for name, c := range map[string]struct {
		order    api.SimulationOrder
		cases    string
		compared string
	}{
		"built-in": {api.SimulationOrder{Scenario: "pr-247", Variants: []string{"old", "new"}}, "old new", "old new"},
		"given":    {api.SimulationOrder{Source: small, Seed: &seed, Seeds: 3}, "small", ""},
		"policy":   {api.SimulationOrder{Source: small, Policy: "webhook"}, "webhook", ""},
		"against":  {api.SimulationOrder{Source: small, Against: "webhook"}, "default webhook", "webhook default"},
		"both":     {api.SimulationOrder{Source: small, Policy: "webhook", Against: "scrape", Caller: "app"}, "webhook scrape", "scrape webhook"},
		"the same": {api.SimulationOrder{Source: small, Against: "default"}, "default of the scenario,default", "default,default of the scenario"},
	} {
		first := b.do(token, "POST", "/v1/simulations", order(t, c.order))
		if first.status != 200 {
			t.Errorf("%s: %d %s", name, first.status, first.body)
			continue
		}
		var told report.Told
		if err := json.Unmarshal(first.body, &told); err != nil {
			t.Fatal(err)
		}
		var cases []string
		for _, one := range told.Cases {
			cases = append(cases, one.Name)
			if one.Result == nil || len(one.Result.Runs) != max(c.order.Seeds, 1) || one.Result.Runs[0].Events == 0 {
				t.Errorf("%s: %s: result %+v", name, one.Name, one.Result)
			}
			if c.order.Seed != nil && one.Result.Runs[0].Seed != 7 {
				t.Errorf("%s: seed %d", name, one.Result.Runs[0].Seed)
			}
		}
		between := " "
		if strings.Contains(c.cases, ",") {
			between = ","
		}
		if strings.Join(cases, between) != c.cases || strings.Join(told.Compared, between) != c.compared {
			t.Errorf("%s: cases %q, compared %q", name, cases, told.Compared)
		}
		if again := b.do(token, "POST", "/v1/simulations", order(t, c.order)); string(again.body) != string(first.body) {
			t.Errorf("%s: the same order had another answer", name)
		}
	}
}

// TestBadSimulations: what is wrong is named, where, and what would be right.
func TestBadSimulations(t *testing.T) {
	b, token := simulationBench(t, func(c *api.Config, _ *api.LeasesConfig) { c.MaxSimulation = 200 * time.Millisecond })
	endless := strings.Replace(small, "{time: 2m}", "{time: 100000h}", 1)
	negative := int64(-1)
	for name, c := range map[string]struct {
		order  api.SimulationOrder
		status int
		says   string
	}{
		"nothing":            {api.SimulationOrder{}, 422, "one of scenario and source"},
		"both":               {api.SimulationOrder{Scenario: "pr-247", Source: small}, 422, "one of scenario and source"},
		"unknown":            {api.SimulationOrder{Scenario: "pr-248"}, 404, "pr-247"},
		"unknown variant":    {api.SimulationOrder{Scenario: "pr-247", Variants: []string{"odd"}}, 422, "has no variant \\\"odd\\\"; it has: old"},
		"unknown policy":     {api.SimulationOrder{Source: small, Policy: "odd"}, 404, "no policy \\\"odd\\\""},
		"unknown caller":     {api.SimulationOrder{Source: small, Policy: "webhook", Caller: "odd"}, 422, "it has: app"},
		"caller alone":       {api.SimulationOrder{Source: small, Caller: "app"}, 422, "none is given"},
		"variants, policies": {api.SimulationOrder{Scenario: "pr-247", Variants: []string{"old"}, Policy: "webhook"}, 422, "not on its variants"},
		"the same twice":     {api.SimulationOrder{Source: small, Policy: "webhook", Against: "webhook"}, 422, "policy and against are both"},
		"seeds":              {api.SimulationOrder{Source: small, Seeds: 101}, 422, "1 to 100"},
		"seed":               {api.SimulationOrder{Source: small, Seed: &negative}, 422, "0 or more"},
		"bad scenario":       {api.SimulationOrder{Source: "version: 1\nnonsense: 2\n"}, 422, "source:2:1"},
		"a file of ours":     {api.SimulationOrder{Source: strings.Replace(small, "policy: default", "policy: /etc/passwd#x", 1)}, 422, "files cannot be named here"},
		"too long":           {api.SimulationOrder{Source: endless}, 422, "that takes longer than 200ms"},
	} {
		g := b.do(token, "POST", "/v1/simulations", order(t, c.order))
		if g.status != c.status || !strings.Contains(string(g.body), c.says) {
			t.Errorf("%s: %d %s, want %d and %s", name, g.status, g.body, c.status, c.says)
		}
	}
}
