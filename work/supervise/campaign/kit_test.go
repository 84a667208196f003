package campaign

import (
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/supervise"
)

const annual = `version: 1
policy: annual-crawl
command: [wget, --recursive, --level=inf, "--warc-file={run}"]
sources:
  - name: hc
    seeds: ["https://www.canada.ca/en/health-canada.html"]
    scope: {include: ['^https://www\.canada\.ca/en/health-canada'], exclude: ['\.zip$', '/search']}
  - name: phac
    seeds: ["https://www.canada.ca/en/public-health.html"]
  - name: cihr
    seeds: ["https://cihr-irsc.gc.ca/e/193.html"]
    error_threshold_timeout: 80
`

var t0 = time.Date(2026, 1, 19, 12, 0, 0, 0, time.UTC)

// desk is a campaign's service over a store in memory, on a clock that stands.
type desk struct {
	*testing.T
	*drill
}

func newDesk(t *testing.T, text string) *desk {
	t.Helper()
	c, err := Parse("annual.yaml", []byte(text), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return deskOver(t, &c, clock.NewFake(t0), nil)
}

func deskOver(t *testing.T, c *Campaign, fake *clock.Fake, s store.Store) *desk {
	t.Helper()
	if s == nil {
		s = memory.New(memory.Config{Clock: fake})
		t.Cleanup(func() { _ = s.Close() })
	}
	runs, err := supervise.New(supervise.Config{Store: s, Self: []string{"ebb"}, Clock: fake})
	if err != nil {
		t.Fatal(err)
	}
	service, err := New(Config{Store: s, Runs: runs})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Register(t.Context(), t0, store.Process{Host: "desk", Kinds: []string{supervise.Kind}, Queues: []string{c.Queue}})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{T: t, drill: &drill{campaign: c, year: 2026, clock: fake, store: s, service: service, process: p.ID}}
}

func (d *desk) schedule(apply bool) Plan {
	d.Helper()
	p, err := d.service.Schedule(d.Context(), d.clock.Now(), "maya", d.campaign, 2026, apply)
	if err != nil {
		d.Fatal(err)
	}
	return p
}

// fail lets the next run of the queue fail until its policy ends it, and
// returns its name.
func (d *desk) fail(f failure.Failure) string {
	d.Helper()
	j, ok, err := d.exhaust(d.Context(), f)
	if err != nil || !ok {
		d.Fatalf("nothing to run: %v", err)
	}
	return strings.TrimPrefix(j.Batch, "run/")
}

func (d *desk) recovers(apply bool) Recovered {
	d.Helper()
	r, err := d.service.Recover(d.Context(), d.clock.Now(), "maya", "annual", apply)
	if err != nil {
		d.Fatal(err)
	}
	return r
}

func (d *desk) run(name string) supervise.Run {
	d.Helper()
	r, err := d.service.runs.Show(d.Context(), name)
	if err != nil {
		d.Fatal(err)
	}
	return r
}

// status writes how far a run has come.
func (d *desk) units(run, text string) {
	d.Helper()
	_, err := d.store.Write(d.Context(), d.clock.Now(), store.Write{Puts: []store.Record{{Kind: "run-status", ID: run, Version: store.AnyVersion, Body: []byte(text)}}})
	if err != nil {
		d.Fatal(err)
	}
}

func (d *desk) acts() []string {
	d.Helper()
	rows, err := d.store.Audit(d.Context(), 100)
	if err != nil {
		d.Fatal(err)
	}
	var list []string
	for _, r := range rows {
		if strings.HasPrefix(r.Act, "campaign.") {
			list = append(list, r.Act+" "+r.What)
		}
	}
	return list
}

var timeouts = failure.Of(failure.Timeout)

func states(p *Plan) string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, s.Run+":"+string(s.Action))
	}
	return strings.Join(list, " ")
}
