package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/policy"
)

func TestSimulateForm(t *testing.T) {
	s := open(t)
	text := s.page(200, "/simulate", `<option selected>webhook</option>`, `<option selected>default</option>`, `name="minutes" inputmode="decimal" value="10"`)
	if strings.Contains(text, "<svg") {
		t.Error("the form alone runs something")
	}
}

func TestSimulateTwoPolicies(t *testing.T) {
	mine := policy.MustPreset("webhook")
	mine.Name, mine.Attempts = "mine", 1
	mine, err := policy.Seal(mine)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *console.Config) { c.Policies = []policy.Policy{mine} })
	for _, kind := range []string{"errors", "hang", "brownout"} {
		text := s.page(200, "/simulate?a=webhook&b=mine&minutes=3&arrival=2&capacity=8&seed=7&kind="+kind,
			`<p class="verdict">`, "2 jobs a second arrive for", "for 3 min", "Seed 7.",
			"<b>Load</b>", "<b>Goodput</b>", "<b>Queue</b>", "<h2>Totals</h2>", "version <code>"+mine.Version+"</code>")
		if n := strings.Count(text, "<svg"); n < 8 {
			t.Errorf("%s: %d drawings", kind, n)
		}
		again := s.page(200, "/simulate?a=webhook&b=mine&minutes=3&arrival=2&capacity=8&seed=7&kind="+kind)
		if again != text {
			t.Errorf("%s: the same question has two answers", kind)
		}
	}
	text := s.page(200, "/simulate?a=webhook&b=mine&minutes=3&arrival=2&capacity=8&kind=errors")
	if !strings.Contains(text, "Webhook is safer than mine: 0 % dead letters") {
		_, verdict, _ := strings.Cut(text, `class="verdict">`)
		t.Errorf("verdict: %.200s", verdict)
	}
}

// Every preset can be played against every kind of outage.
func TestSimulateEveryPreset(t *testing.T) {
	s := open(t)
	for _, name := range policy.PresetNames() {
		if name == "default" {
			continue
		}
		for _, kind := range []string{"errors", "hang", "brownout"} {
			s.page(200, "/simulate?b=default&minutes=1&arrival=0.5&capacity=4&kind="+kind+"&a="+name, `<p class="verdict">`, "<b>Load</b>")
		}
	}
	s.page(200, "/simulate?a=scrape&minutes=1&arrival=0.5", "the waves of scrape, which follow a batch, are not played")
}

func TestSimulateRefuses(t *testing.T) {
	s := open(t)
	for _, c := range []struct{ query, want string }{
		{"a=webhook&b=webhook", "Wants another policy than the first."},
		{"a=nobody", "Wants one of the policies that are known here."},
		{"a=webhook&minutes=x", "Wants a number from 0.5 to 240."},
		{"a=webhook&minutes=NaN", "Wants a number from 0.5 to 240."},
		{"a=webhook&minutes=241", "Wants a number from 0.5 to 240."},
		{"a=webhook&arrival=0", "Wants a number from 0.01 to 10000."},
		{"a=webhook&capacity=-1", "Wants a number from 0.1 to 10000."},
		{"a=webhook&seed=-1", "Wants a whole number, 0 or more."},
		{"a=webhook&kind=flood", "Wants errors, hang or brownout."},
		{"a=webhook&arrival=500", "ask for up to 15.3 arrivals a second or a shorter outage"},
		{"a=%3Cscript%3E", "Wants"},
	} {
		text := s.page(400, "/simulate?"+c.query, c.want)
		if strings.Contains(text, "<svg") || strings.Contains(text, "<script>") {
			t.Errorf("%s: ran, or echoed a script", c.query)
		}
	}
}

func TestSimulateIsBounded(t *testing.T) {
	s := open(t, func(c *console.Config) { c.MaxSimulation = time.Nanosecond })
	s.page(503, "/simulate?a=webhook", "was stopped: ask for less")
}
