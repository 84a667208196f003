package scenario_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate/scenario"
)

var update = flag.Bool("update", false, "write the ladder's table into the docs")

const (
	contractPage = "../../docs/contract.md"
	tableBegin   = "<!-- ladder:begin -->\n"
	tableEnd     = "<!-- ladder:end -->"
)

// In no outage and beside no bad work does a preset lose more, or call more
// often, than its bare schedule; and it notices within 90 s that a target is
// well. The table stands in the docs.
func TestLadder(t *testing.T) {
	var table strings.Builder
	table.WriteString("| preset | case | jobs | dead letters | bare schedule | failed calls | bare schedule | noticed after |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range policy.PresetNames() {
		rungs, err := scenario.Ladder(t.Context(), policy.MustPreset(name))
		if err != nil {
			t.Fatal(err)
		}
		for i := range rungs {
			r := &rungs[i]
			if !r.OK() {
				t.Errorf("%s: %s: %+v, bare %+v", name, r.Name, r.Policy, r.Bare)
			}
			noticed := "-"
			if r.Policy.Noticed >= 0 {
				noticed = policy.FormatDuration(time.Duration(r.Policy.Noticed * float64(time.Second)).Round(time.Second))
			}
			fmt.Fprintf(&table, "| `%s` | %s | %d | %d | %d | %d | %d | %s |\n",
				name, r.Name, r.Jobs, r.Policy.Dead, r.Bare.Dead, r.Policy.Failed, r.Bare.Failed, noticed)
		}
	}
	inDocs(t, table.String())
}

// inDocs holds the table against the page, or writes it there.
func inDocs(t *testing.T, table string) {
	t.Helper()
	page, err := os.ReadFile(contractPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableBegin)
	was, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s: no table between %q and %q", contractPage, tableBegin, tableEnd)
	}
	if was == table {
		return
	}
	if !*update {
		t.Errorf("%s: the ladder's table is not what the simulator gives; run go test ./simulate/scenario -update", contractPage)
		return
	}
	if err := os.WriteFile(contractPage, []byte(before+tableBegin+table+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A guard that gives held work up loses what its bare schedule would have
// saved: the ladder sees it.
func TestTheLadderSeesAGuardThatNoticesLate(t *testing.T) {
	p := policy.MustPreset("webhook")
	p.Breaker.Open, p.Breaker.Cap = 10*time.Minute, 10*time.Minute
	rungs, err := scenario.Ladder(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rungs {
		if !rungs[i].OK() {
			return
		}
	}
	t.Error("a breaker that is open for 10 minutes passes the ladder")
}
