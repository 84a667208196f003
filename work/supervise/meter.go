package supervise

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The counters of errors that a policy has thresholds for, and the rest.
const (
	countTimeout = "timeout"
	countHTTP    = "http"
	countOther   = "other"
)

// Meter folds what an attempt prints into named counters. It is pure: the
// same lines give the same counts, so that a supervisor that takes over reads
// the files again and knows what the one before it knew.
type Meter struct {
	counter string
	rules   []lineRule
	track   *track
	counts  map[string]int64
	unit    string            // under way
	failed  bool              // the unit's try has been counted as failed
	open    map[string]string // unit → why it is not done
}

type lineRule struct {
	from  string
	re    *regexp.Regexp
	field []string // of JSON lines, instead of re
	count string
	value int // group that sets the counter; 0 = add one
}

// track follows single units through a log, so that what failed and was not
// mended later is known by name.
type track struct {
	begin *regexp.Regexp // its one group that matched is the unit
	done  *regexp.Regexp
	fails []trackFail
}

type trackFail struct {
	re    *regexp.Regexp
	count string
	final bool // it will not change: not worth a retry
}

// NewMeter makes one for a sealed spec.
func NewMeter(s *Spec) *Meter {
	counter, sources := s.sources()
	p, _ := presetOf(s.Crawler)
	m := &Meter{counter: counter, track: p.track, counts: map[string]int64{}, open: map[string]string{}}
	for _, o := range sources {
		switch o.Kind {
		case "lines":
			re := regexp.MustCompile(o.Pattern) // checked by Seal
			m.rules = append(m.rules, lineRule{from: o.From, re: re, count: o.Count, value: max(re.SubexpIndex("n"), 0)})
		case "json":
			m.rules = append(m.rules, lineRule{from: o.From, field: strings.Split(o.Field, "."), count: o.Count})
		}
	}
	for _, e := range s.errorPatterns() {
		m.rules = append(m.rules, lineRule{from: e.From, re: regexp.MustCompile(e.Pattern), count: e.Count})
	}
	return m
}

// Mark is one change of a counter, in the order of the log.
type Mark struct {
	Count string
	Value int64
}

// Line folds one line of a stream in and returns what it changed.
func (m *Meter) Line(from, line string) []Mark {
	var marks []Mark
	add := func(count string) {
		m.counts[count]++
		marks = append(marks, Mark{count, m.counts[count]})
	}
	if m.track != nil && (from == "stderr" || from == "stdout" || from == "log") {
		m.follow(line, add)
	}
	for i := range m.rules {
		r := &m.rules[i]
		if r.from != "" && r.from != from {
			continue
		}
		if r.field != nil {
			if v, ok := fieldOf(line, r.field); ok {
				marks = append(marks, m.Set(r.count, v)...)
			}
			continue
		}
		hit := r.re.FindStringSubmatch(line)
		if hit == nil {
			continue
		}
		if r.value == 0 {
			add(r.count)
		} else if v, err := strconv.ParseInt(hit[r.value], 10, 64); err == nil {
			marks = append(marks, m.Set(r.count, v)...)
		}
	}
	return marks
}

// follow books one line of a log whose units are known.
func (m *Meter) follow(line string, add func(string)) {
	t := m.track
	if hit := t.begin.FindStringSubmatch(line); hit != nil {
		m.unit, m.failed = cmp.Or(hit[1:]...), false
		return
	}
	if hit := t.done.FindStringSubmatch(line); hit != nil {
		if len(hit) > 1 && hit[1] != "" {
			m.unit = hit[1]
		}
		delete(m.open, m.unit)
		add(m.counter)
		return
	}
	for i := range t.fails {
		f := &t.fails[i]
		if m.failed || !f.re.MatchString(line) {
			continue
		}
		m.failed = true
		if f.final {
			delete(m.open, m.unit)
		} else if m.unit != "" {
			m.open[m.unit] = f.count
		}
		add(f.count)
	}
}

// Set gives a counter a value, such as a probe's answer.
func (m *Meter) Set(count string, v int64) []Mark {
	if m.counts[count] == v {
		return nil
	}
	m.counts[count] = v
	return []Mark{{count, v}}
}

// Units is the value of the named counter.
func (m *Meter) Units() int64 { return m.counts[m.counter] }

// Counts returns every counter, and under "open.KIND" how many units failed
// so and were not done later.
func (m *Meter) Counts() map[string]int64 {
	all := maps.Clone(m.counts)
	for _, kind := range m.open {
		all["open."+kind]++
		all["open"]++
	}
	return all
}

// Remaining lists the units that failed and were not done later, sorted.
func (m *Meter) Remaining() []string { return slices.Sorted(maps.Keys(m.open)) }

// fieldOf reads a whole number out of a JSON line by the path of its field.
func fieldOf(line string, path []string) (int64, bool) {
	if !strings.HasPrefix(strings.TrimSpace(line), "{") {
		return 0, false
	}
	var v any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return 0, false
	}
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return 0, false
		}
		v = m[key]
	}
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}
