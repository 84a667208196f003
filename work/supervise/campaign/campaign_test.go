package campaign

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

func TestSpecsOfACampaign(t *testing.T) {
	c, err := Parse("annual.yaml", []byte(annual), "/srv/crawls")
	if err != nil {
		t.Fatal(err)
	}
	hc, err := c.RunSpec("hc", 2026)
	if err != nil {
		t.Fatal(err)
	}
	want := `wget --recursive --level=inf --warc-file=hc-2026 --accept-regex=^https://www\.canada\.ca/en/health-canada --reject-regex=(\.zip$|/search) --regex-type=pcre https://www.canada.ca/en/health-canada.html`
	if hc.Command.String() != want || hc.Name != "hc-2026" || hc.Dir != "/srv/crawls/hc-2026" || hc.Cwd != hc.Dir || hc.Success.Against != "hc-2025" || hc.Crawler != "wget@1" {
		t.Errorf("%+v", hc)
	}
	cihr, err := c.RunSpec("cihr", 2027)
	if err != nil || cihr.ErrorThresholdTimeout != 80 || cihr.Command.String() != "wget --recursive --level=inf --warc-file=cihr-2027 https://cihr-irsc.gc.ca/e/193.html" {
		t.Errorf("%+v %v", cihr, err)
	}
	if c.Name != "annual" || c.Queue != "campaign" || c.Recover != (Limits{3, 2}) {
		t.Errorf("%+v", c)
	}
}

func TestScopeInTheWayOfEachCrawler(t *testing.T) {
	for command, want := range map[string]string{
		"[ebb, fetch, --recursive, --warc]":              "ebb fetch --recursive --warc --include=regexp:a --include=regexp:b --exclude=regexp:c http://x/",
		"[zimit, --name, hc]":                            "zimit --name hc --include=a --include=b --exclude=c --url http://x/",
		`[mine, [--not, "{exclude}"], "{seeds}", --end]`: "mine --not c http://x/ --end",
		`[mine, [--only, "{include}"], "y={year}"]`:      "mine --only (a|b) y=2026 http://x/",
	} {
		c, err := Parse("c.yaml", []byte("version: 1\ncommand: "+command+"\nsources: [{name: s, seeds: [http://x/], scope: {include: [a, b], exclude: [c]}}]\n"), "/srv")
		if err != nil {
			t.Fatal(err)
		}
		if spec, err := c.RunSpec("s", 2026); err != nil || spec.Command.String() != want {
			t.Errorf("%s: %s, %v", command, spec.Command, err)
		}
	}
}

// Caps are errors, each where it stands.
func TestLint(t *testing.T) {
	head := "version: 1\nsources:\n  - name: hc\n    command: "
	for _, c := range []struct{ name, text, want string }{
		{"level", head + "[wget, -r, --level=5, x]", "c.yaml:4:25: cap: --level 5"},
		{"level apart", head + "[wget, -r, --level, '5', x]", "c.yaml:4:25: cap: --level 5"},
		{"abbreviated", head + "[wget, -r, --lev=5, x]", "c.yaml:4:25: cap: --level 5"},
		{"short", head + "[wget, -r, -l3, x]", "c.yaml:4:25: cap: -l 3"},
		{"in one word", head + "[wget, -nvrl3, x]", "c.yaml:4:21: cap: -l 3"},
		{"quota", head + "[wget, -m, -Q, 10m, x]", "c.yaml:4:25: cap: -Q 10m"},
		{"quota by its file", head + "[wget, -m, -e, quota=10m, x]", "c.yaml:4:25: cap: -e quota=10m"},
		{"wget's own depth", head + "[wget, --recursive, x]", "c.yaml:4:14: cap: wget --recursive without --level=inf stops at depth 5"},
		{"shell", head + "[sh, -c, 'exec wget -r --level=2 x']", "c.yaml:4:23: cap: --level 2"},
		{"group", head + "[zimit, [--pageLimit, '100']]", "c.yaml:4:23: cap: --pageLimit 100"},
		{"browsertrix", head + "[crawl, --depth, '3']", "c.yaml:4:22: cap: --depth 3"},
		{"zimit", head + "[zimit, --maxPages=100]", "c.yaml:4:22: cap: --maxPages 100"},
		{"kebab", head + "[zimit, --page-limit=100]", "c.yaml:4:22: cap: --page-limit 100"},
		{"container", head + "[docker, run, ghcr.io/openzim/zimit:2.1, zimit, --limit, '9']", "c.yaml:4:62: cap: --limit 9"},
		{"scrapy", head + "[scrapy, crawl, hc, -s, CLOSESPIDER_PAGECOUNT=50]", "c.yaml:4:38: cap: CLOSESPIDER_PAGECOUNT=50"},
		{"time", head + "[timeout, 1h, wget, -m, x]", "c.yaml:4:15: cap: timeout"},
		{"key", head + "[wget, -m, x]\n    max_pages: 100", "c.yaml:5:5: cap: max_pages"},
		{"key of all", "version: 1\npageLimit: 5\nsources: [{name: hc, command: [wget, -m, x]}]", "c.yaml:2:1: cap: pageLimit"},
		{"key of the scope", head + "[wget, -m, x]\n    scope: {depth: 3}", "c.yaml:5:13: cap: depth"},
		{"unknown key", head + "[wget, -m, x]\n    colour: red", `c.yaml:5:5: syntax: unknown field "colour"`},
		{"no sources", "version: 1\ncommand: [wget, -m, x]", "c.yaml:1:1: sources: nothing to crawl"},
		{"twice", "version: 1\ncommand: [wget, -m, x]\nsources: [{name: hc}, {name: hc}]", "c.yaml:3:30: name: \"hc\" is there twice"},
		{"no command", "version: 1\nsources: [{name: hc}]", "command: nothing to run"},
		{"expression", head + "[wget, -m, x]\n    scope: {include: ['(']}", "c.yaml:5:23: scope: "},
		{"unheeded scope", head + "[mine, x]\n    scope: {include: [a]}", "scope: nothing in the command heeds it"},
		{"unbounded", head + "[wget, -mH, x]", "unbounded: the crawl crosses hosts"},
		{"broken", "version: [", "c.yaml:1:"},
		{"empty", "", "c.yaml:1:1: version: 0 is not known; write version: 1\nc.yaml:1:1: sources: nothing to crawl"},
		{"two documents", head + "[wget, -m, x]\n---\nversion: 1", "c.yaml:5:1: syntax: 2 documents"},
		{"command of nothing", head + "[null]", "command: nothing to run"},
		{"zero byte", head + `[wget, "a\0b"]`, "c.yaml:3:9: command: \"wget a\\x00b\": a zero byte"},
		{"seed that is a flag", head + "[wget, -m]\n    seeds: ['http://x/', --output-document=/etc/passwd]", "c.yaml:5:26: seed: \"--output-document=/etc/passwd\": a URL is needed"},
		{"empty seed", head + "[wget, -m]\n    seeds: ['']", "c.yaml:5:13: seed: "},
		{"queue", head + "[wget, -m, x]\nqueue: 'a b'", "c.yaml:5:8: queue: \"a b\""},
		{"stagger", head + "[wget, -m, x]\nstagger: 2000000h", "c.yaml:5:10: stagger: 2000000h0m0s: at most 1h0m0s"},
	} {
		_, err := Parse("c.yaml", []byte(c.text+"\n"), "/srv")
		var found LintErrors
		if !errors.As(err, &found) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
	for _, command := range []string{
		"[wget, --recursive, --level=inf, --limit-rate=100k, x]", "[wget, -r, -l, inf, x]", "[wget, -mH, -Dexample.org, x]",
		"[crawl, --pageLimit, '0', --depth, '-1']", "[sh, -c, 'wget -m x; echo done']", "[wget, -r, -l0, -o, log, x]",
	} {
		if _, err := Parse("c.yaml", []byte(head+command+"\n"), "/srv"); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestScheduleIsStaggeredStrictAndIdempotent(t *testing.T) {
	d := newDesk(t, annual)
	if p := d.schedule(false); p.Changes() != 3 || p.Applied {
		t.Fatalf("%+v", p)
	}
	if _, err := d.service.Show(t.Context(), "annual"); !errors.Is(err, store.ErrNotFound) || len(d.acts()) != 0 {
		t.Fatalf("a dry run left something: %v %v", err, d.acts())
	}
	p := d.schedule(true)
	if got := states(&p); got != "hc-2026:enqueue phac-2026:enqueue cihr-2026:enqueue" {
		t.Fatal(got)
	}
	for i, s := range p.Steps {
		r := d.run(s.Run)
		if want := t0.Add(time.Duration(i) * time.Second); !r.DueAt.Equal(want) || r.State != job.Queued || r.Queue != "campaign" {
			t.Errorf("%s: due %s, want %s: %+v", s.Run, r.DueAt, want, r)
		}
	}
	queues, err := d.store.Queues(t.Context())
	if err != nil || !slices.ContainsFunc(queues, func(q store.QueueState) bool { return q.Name == "campaign" && q.Strict }) {
		t.Errorf("%+v %v", queues, err)
	}
	d.clock.Advance(time.Hour)
	for range 3 {
		if p := d.schedule(true); p.Changes() != 0 {
			t.Fatal(states(&p))
		}
	}
	if got := d.acts(); !slices.Equal(got, []string{"campaign.schedule annual-2026"}) {
		t.Error(got)
	}
	if got := []string{d.fail(timeouts), d.fail(timeouts), d.fail(timeouts)}; !slices.Equal(got, []string{"hc-2026", "phac-2026", "cihr-2026"}) {
		t.Error(got)
	}
	if p := d.schedule(true); p.Changes() != 0 { // ended, and still once
		t.Error(states(&p))
	}
}

// A server that dies between the record and the runs leaves work for the next
// call, with the same times.
func TestScheduleAfterACrash(t *testing.T) {
	d := newDesk(t, annual)
	plan := d.schedule(false)
	r := &record{Name: "annual", Year: 2026, Queue: "campaign", Policy: "annual-crawl", ScheduledAt: t0}
	for _, s := range plan.Steps {
		r.Sources = append(r.Sources, planned{Name: s.Source, Run: s.Run, QueuedAt: s.QueuedAt, Sum: s.sum})
	}
	if err := d.service.keep(t.Context(), t0, r, store.AuditRow{Actor: "maya", Act: "campaign.schedule"}); err != nil {
		t.Fatal(err)
	}
	d.clock.Advance(time.Hour)
	if p := d.schedule(true); p.Changes() != 3 || !p.Steps[2].QueuedAt.Equal(t0.Add(2*time.Second)) {
		t.Fatalf("%+v", p)
	}
}

func TestScheduleOfAChangedFile(t *testing.T) {
	d := newDesk(t, annual)
	d.schedule(true)
	wrong := failure.Of(failure.Config)
	wrong.Reason, wrong.Err = supervise.ReasonConfig, errors.New("unknown option --nope")
	if got := d.fail(wrong); got != "hc-2026" {
		t.Fatal(got)
	}
	text := strings.Replace(annual, "https://www.canada.ca/en/health-canada.html", "https://www.canada.ca/hc", 1)
	text = strings.Replace(text, "  - name: cihr", "  - name: fnihb\n    seeds: [https://x/]\n  - name: cihr", 1)
	c, err := Parse("annual.yaml", []byte(text), d.campaign.Dir)
	if err != nil {
		t.Fatal(err)
	}
	*d.campaign = c
	p := d.schedule(true)
	if got := states(&p); got != "hc-2026:change phac-2026:keep fnihb-2026:enqueue cihr-2026:keep" {
		t.Fatal(got)
	}
	if at := p.Steps[2].QueuedAt; !at.Equal(t0.Add(1500 * time.Millisecond)) {
		t.Errorf("a source in between is due %s", at)
	}
	if r := d.run("hc-2026"); r.State != job.Queued || !strings.Contains(r.Command, "https://www.canada.ca/hc") {
		t.Errorf("%+v", r)
	}
	if p := d.schedule(true); p.Changes() != 0 {
		t.Error(states(&p))
	}
}

func TestTwoWhoScheduleAtOnce(t *testing.T) {
	d := newDesk(t, annual)
	r := &record{Name: "annual", Year: 2026, Queue: "campaign"}
	d.schedule(true)
	if err := d.service.keep(t.Context(), t0, r, store.AuditRow{Actor: "maya", Act: "campaign.schedule"}); !errors.Is(err, ErrBusy) {
		t.Errorf("the second was not refused: %v", err)
	}
}

func TestPolicyThatLosesItsPlaceIsRefused(t *testing.T) {
	d := newDesk(t, strings.Replace(annual, "annual-crawl", "processing", 1))
	if _, err := d.service.Schedule(t.Context(), t0, "maya", d.campaign, 2026, false); err == nil || !strings.Contains(err.Error(), "slot: keep") {
		t.Errorf("%v", err)
	}
}

// Two campaigns with a source of the same name in the same year would take
// each other's crawl for their own.
func TestRunOfAnotherCampaignIsRefused(t *testing.T) {
	d := newDesk(t, annual)
	d.schedule(true)
	other, err := Parse("weekly.yaml", []byte(annual), "/srv")
	if err != nil {
		t.Fatal(err)
	}
	if other.Name != "weekly" {
		t.Fatal(other.Name)
	}
	_, err = d.service.Schedule(t.Context(), d.clock.Now(), "maya", &other, 2026, true)
	if err == nil || !strings.Contains(err.Error(), "source hc: its run hc-2026 belongs to campaign annual-2026; give the source another name") {
		t.Errorf("%v", err)
	}
	if _, err := d.service.Schedule(t.Context(), d.clock.Now(), "maya", &other, 2027, true); err != nil {
		t.Errorf("another year: %v", err)
	}
}

// A file whose sources were put in another order says that those which wait
// keep their times.
func TestScheduleOfAnotherOrder(t *testing.T) {
	d := newDesk(t, annual)
	d.schedule(true)
	d.campaign.Sources[0], d.campaign.Sources[2] = d.campaign.Sources[2], d.campaign.Sources[0]
	p := d.schedule(true)
	if p.Changes() != 0 || p.Steps[0].Text != "" || !strings.Contains(p.Steps[1].Text, "keeps its time in the queue") {
		t.Errorf("%+v", p.Steps)
	}
}

// No file makes the reader panic, and one that is read can be scheduled: every
// source has its run.
func FuzzParse(f *testing.F) {
	for _, text := range []string{annual, "", "null", "- a", "version: 1\ncommand: [null]\nsources: [null]", "version: 1\ncommand: &c [sh, -c, *c]\nsources: [{name: a, seeds: [x]}]", "a: b\n---\nc: d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("c.yaml", []byte(text), "/srv")
		if err != nil {
			var found LintErrors
			if !errors.As(err, &found) || len(found) == 0 {
				t.Fatalf("%v", err)
			}
			return
		}
		for i := range c.Sources {
			if _, err := c.RunSpec(c.Sources[i].Name, 2026); err != nil {
				t.Errorf("source %s: %v", c.Sources[i].Name, err)
			}
		}
	})
}
