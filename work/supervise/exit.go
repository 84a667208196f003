package supervise

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Outcome is what an exit means.
type Outcome string

const (
	OutcomeSuccess     Outcome = "success" // to be proven
	OutcomePartial     Outcome = "partial" // a limit was hit: never success
	OutcomeRetry       Outcome = "retry"
	OutcomeRateLimited Outcome = "rate_limited"
	OutcomeInfra       Outcome = "infra"  // this machine: waits, costs nothing
	OutcomeDisk        Outcome = "disk"   // its disk
	OutcomeConfig      Outcome = "config" // infra_error_config: parked, no retry
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeFatal       Outcome = "fatal"
)

var outcomes = []Outcome{
	OutcomeSuccess, OutcomePartial, OutcomeRetry, OutcomeRateLimited, OutcomeInfra,
	OutcomeDisk, OutcomeConfig, OutcomeInterrupted, OutcomeFatal,
}

// ExitRule gives an exit its meaning. Every part that is set must match; the
// first rule that does decides.
type ExitRule struct {
	Name    string   `json:"name,omitempty" yaml:"name"`
	Codes   []int    `json:"codes,omitempty" yaml:"codes"`
	Signals []string `json:"signals,omitempty" yaml:"signals"` // such as KILL
	OOM     bool     `json:"oom,omitempty" yaml:"oom"`
	Under   Duration `json:"under,omitempty" yaml:"under"` // it ran shorter than this
	Over    Duration `json:"over,omitempty" yaml:"over"`   // … at least this long
	// Log must be found in the last 64 KiB of what it printed.
	Log string `json:"log,omitempty" yaml:"log"`
	// Seen are counters of which one must be above 0; open.http are units
	// that failed so and were not done later.
	Seen []string `json:"seen,omitempty" yaml:"seen"`
	// Unseen are counters that must all be 0.
	Unseen []string `json:"unseen,omitempty" yaml:"unseen"`
	// Full: the disk that it works on is full now.
	Full bool `json:"full,omitempty" yaml:"full"`
	// NoArtifacts: nothing of success.artifacts is there.
	NoArtifacts bool    `json:"no_artifacts,omitempty" yaml:"no_artifacts"`
	Outcome     Outcome `json:"outcome" yaml:"outcome"`
	// Reason refines the outcome in the ledger. Default: the rule's name.
	Reason string `json:"reason,omitempty" yaml:"reason"`
}

func (r ExitRule) check() error {
	if !slices.Contains(outcomes, r.Outcome) {
		var words []string
		for _, o := range outcomes {
			words = append(words, string(o))
		}
		return fmt.Errorf("outcome: %q is not known; one of: %s", r.Outcome, strings.Join(words, ", "))
	}
	if _, err := regexp.Compile(r.Log); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

// Exit is how an attempt ended, as far as files tell.
type Exit struct {
	Code      int    // -1 where a signal ended it or nobody knows
	Signal    string // such as KILL; empty = none
	OOM       bool   // the kernel killed it for memory
	Lost      bool   // nobody saw it end
	Rebooted  bool   // the machine was started anew since
	StartErr  string // it could not be started at all
	Ran       time.Duration
	Tail      string // last 64 KiB of its output
	Counts    map[string]int64
	Artifacts int  // files that success.artifacts matches
	Full      bool // the disk that it works on is full
}

func (r *ExitRule) covers(e *Exit) bool {
	some := func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return e.Counts[n] > 0 })
	}
	switch {
	case len(r.Codes) > 0 && !slices.Contains(r.Codes, e.Code),
		len(r.Signals) > 0 && !slices.Contains(r.Signals, e.Signal),
		r.OOM && !e.OOM,
		r.Full && !e.Full,
		r.Under > 0 && e.Ran >= time.Duration(r.Under),
		r.Over > 0 && e.Ran < time.Duration(r.Over),
		len(r.Seen) > 0 && !some(r.Seen),
		some(r.Unseen),
		r.NoArtifacts && e.Artifacts > 0:
		return false
	}
	return r.Log == "" || regexp.MustCompile(r.Log).MatchString(e.Tail) // checked by Seal
}

// Verdict is what an exit was taken for, and by which rule.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	Rule    string  `json:"rule"`
	Reason  string  `json:"reason"`
	Text    string  `json:"text"`
}

// Judge finds the rule of an exit. Without one it is fatal: nothing is tried
// again because no rule thought of it.
func Judge(rules []ExitRule, e *Exit) Verdict {
	for i := range rules {
		if r := &rules[i]; r.covers(e) {
			v := Verdict{Outcome: r.Outcome, Rule: r.Name, Reason: r.Reason, Text: e.words()}
			if v.Rule == "" {
				v.Rule = fmt.Sprintf("exit[%d]", i)
			}
			if v.Reason == "" {
				v.Reason = r.Name
			}
			return v
		}
	}
	return Verdict{Outcome: OutcomeFatal, Rule: "none", Reason: "unmatched", Text: e.words() + ", which no exit rule knows"}
}

// words tell an exit to people, with the last line that it printed.
func (e *Exit) words() string {
	var text string
	switch {
	case e.StartErr != "":
		return "could not be started: " + e.StartErr
	case e.Rebooted:
		text = "the machine was started anew"
	case e.Lost:
		text = "ended while nobody watched, its exit code is lost"
	case e.OOM:
		text = "killed for want of memory"
	case e.Signal != "":
		text = "ended by signal " + e.Signal
	default:
		text = fmt.Sprintf("exit code %d", e.Code)
	}
	text += fmt.Sprintf(" after %s", e.Ran.Round(time.Millisecond))
	if line := lastLine(e.Tail); line != "" && (e.Code != 0 || e.Signal != "") {
		text += ": " + line
	}
	return text
}

var telling = regexp.MustCompile(notRecognised + "|" + diskFull)

var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])`)

// printable is a line of somebody else's as it may be shown on a terminal: what
// it drew last, without colours and control characters.
func printable(line string) string {
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, escapes.ReplaceAllString(line, ""))
}

// lastLine is the last line that says something, or the first that says what
// is wrong with the command or the disk.
func lastLine(tail string) string {
	lines := strings.Split(strings.TrimSpace(tail), "\n")
	for i := range lines {
		if telling.MatchString(lines[i]) {
			lines = lines[:i+1]
			break
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(printable(lines[i])); line != "" {
			if len(line) > 300 {
				line = strings.ToValidUTF8(line[:300], "") + "…"
			}
			return line
		}
	}
	return ""
}
