package supervise

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
)

// gauge is one metric of a run. The text file and /metrics are both made from
// this table, and both from what the store says.
type gauge struct {
	name, help string
	label      string // besides run; empty = none
	values     func(r *Run, now time.Time) []value
}

type value struct {
	label string
	v     float64
}

func one(f func(r *Run, now time.Time) float64) func(*Run, time.Time) []value {
	return func(r *Run, now time.Time) []value { return []value{{v: f(r, now)}} }
}

var gauges = []gauge{
	{"ebb_run_progress_age_seconds", "Time since the named counter of a running process last rose; 0 where none runs.", "", one(func(r *Run, now time.Time) float64 {
		if !r.Running || r.ProgressAt.IsZero() {
			return 0
		}
		return max(0, now.Sub(r.ProgressAt).Seconds())
	})},
	{"ebb_run_progress_units", "The named counter: the most that any attempt reached.", "", one(func(r *Run, _ time.Time) float64 { return float64(r.Units) })},
	{"ebb_run_units_per_second", "Rise of the named counter over the last window.", "", one(func(r *Run, _ time.Time) float64 {
		if !r.Running {
			return 0
		}
		return r.Rate
	})},
	{"ebb_run_restarts_used", "Restarts that the budget has paid for.", "", one(func(r *Run, _ time.Time) float64 { return float64(r.RestartsUsed) })},
	{"ebb_run_restarts_left", "Restarts that the budget still has.", "", one(func(r *Run, _ time.Time) float64 { return float64(r.RestartsLeft) })},
	{"ebb_run_workers", "How parallel the command is told to work.", "", one(func(r *Run, _ time.Time) float64 { return float64(r.Workers) })},
	{"ebb_run_errors", "Errors since the last progress.", "kind", func(r *Run, _ time.Time) []value {
		return []value{{countTimeout, float64(r.Errors.Timeout)}, {countHTTP, float64(r.Errors.HTTP)}, {countOther, float64(r.Errors.Other)}}
	}},
	{"ebb_run_state", "1 for the state that the run's job is in.", "state", func(r *Run, _ time.Time) []value {
		var all []value
		for _, s := range job.States() {
			v := 0.0
			if r.State == s {
				v = 1
			}
			all = append(all, value{string(s), v})
		}
		return all
	}},
	{"ebb_run_reason", "1 for why the run was restarted, waits or ended last; empty = for nothing.", "reason", func(r *Run, _ time.Time) []value {
		return []value{{r.Reason, 1}}
	}},
	{"ebb_run_process_running", "1 while a process of the run lives, as far as its supervisor has told.", "", one(func(r *Run, _ time.Time) float64 {
		if r.Running {
			return 1
		}
		return 0
	})},
	{"ebb_run_state_file_readable", "1 if .archive_state.json can be read; it is written from the store and never read back.", "", one(func(r *Run, _ time.Time) float64 {
		var s State
		text, err := os.ReadFile(filepath.Join(r.Dir, StateFile))
		if r.Attempt == 0 || err == nil && json.Unmarshal(text, &s) == nil {
			return 1
		}
		return 0
	})},
	{"ebb_run_written_timestamp_seconds", "When this was told: its own freshness.", "", one(func(_ *Run, now time.Time) float64 {
		return float64(now.Unix())
	})},
	{"ebb_run_status_age_seconds", "Time since the run's supervisor last wrote its status.", "", one(func(r *Run, now time.Time) float64 {
		if r.SeenAt.IsZero() {
			return 0
		}
		return max(0, now.Sub(r.SeenAt).Seconds())
	})},
}

// Sample is one number of one run.
type Sample struct {
	Name, Help   string
	Run          string
	Label, Value string // a further label; empty = none
	Number       float64
}

// Samples tells every number of the runs, metric by metric.
func (s *Service) Samples(runs []Run, tell func(Sample)) { samples(runs, s.config.Clock.Now(), tell) }

func samples(runs []Run, now time.Time, tell func(Sample)) {
	for _, g := range gauges {
		for i := range runs {
			for _, v := range g.values(&runs[i], now) {
				tell(Sample{g.name, g.help, runs[i].Name, g.label, v.label, v.v})
			}
		}
	}
}

// Exposition writes the runs' metrics in Prometheus' text format.
func Exposition(runs []Run, now time.Time) []byte {
	var b bytes.Buffer
	last := ""
	samples(runs, now, func(s Sample) {
		if s.Name != last {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", s.Name, s.Help, s.Name)
			last = s.Name
		}
		fmt.Fprintf(&b, "%s{run=\"%s\"", s.Name, escape(s.Run))
		if s.Label != "" {
			fmt.Fprintf(&b, ",%s=\"%s\"", s.Label, escape(s.Value))
		}
		fmt.Fprintf(&b, "} %s\n", strconv.FormatFloat(s.Number, 'g', -1, 64))
	})
	return b.Bytes()
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func escape(text string) string { return escaper.Replace(text) }
