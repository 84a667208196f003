package file

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebbhq/ebb/policy"
)

// record declares one key of the records in classes and waivers, for the
// messages, the JSON Schema and the reference.
type record struct {
	key      string
	kind     string // as the reference shows it
	doc      string
	required bool
	schema   func() map[string]any
}

const (
	classesDoc = "what classes of failures do, first match wins; the built-in table follows. A list here replaces the preset's whole list; [] drops it"
	waiversDoc = "lint rules silenced for a reason until a date; a list here replaces the preset's"
)

var (
	actionWords = []string{"retry", "fail", "park", "pause_target", "disable_target"}
	countsWords = []string{"attempt", "free"}
)

var ruleRecords = []record{
	{"match", "mapping", "which failures; every part that is written must match, {} matches all", true, matchSchema},
	{"action", codes(actionWords), "what they lead to", true, enumSchema(actionWords...)},
	{"counts", codes(countsWords), "whether a start spends an attempt; default attempt", false, enumSchema(countsWords...)},
	{"max", "whole number", "most free starts", false, wholeSchema(0, policy.MaxFree)},
	{"window", "duration", "free only this long after the first start; 0s = no limit", false, durationSchema},
	{"backoff", "mapping", "the schedule of this rule, with the keys of backoff and nothing inherited: factor 1 and no jitter unless written", false, ruleBackoffSchema},
}

var matchRecords = []record{
	{"class", "list", "classes and groups of classes", false, listSchema(classSchema)},
	{"status", "list", "HTTP status codes, 100 to 599", false, listSchema(wholeSchema(100, 599))},
	{"reason", "list", "reasons that workloads give", false, listSchema(textSchema)},
}

var waiverRecords = []record{
	{"rule", "text", "id of the lint rule", true, func() map[string]any { return enumSchema(policy.RuleIDs()...)() }},
	{"reason", "text", "why it does not apply", true, textSchema},
	{"expires", "date", "last day it holds, such as 2027-01-31", true, dateSchema},
}

func recordKeys(records []record) []string {
	keys := make([]string, len(records))
	for i, r := range records {
		keys[i] = r.key
	}
	return keys
}

// records reads a list of mappings and calls read for each.
func (s *scope) records(p pair, keys []record, read func(i int, list []pair)) {
	if !s.present(p) {
		return
	}
	s.places[p.key] = p.keyAt
	want := "a list of mappings with " + strings.Join(recordKeys(keys), ", ")
	elements, ok := items(p.value, false)
	if !ok {
		s.fail(p.valueAt, p.path, "%s where %s is expected", describe(p.value), want)
		return
	}
	for i, n := range elements {
		path := fmt.Sprintf("%s[%d]", p.path, i)
		at := s.pos(n)
		s.places[fmt.Sprintf("%s[%d]", p.key, i)] = at
		list, _ := s.pairs(n, at, path, "a mapping with "+strings.Join(recordKeys(keys), ", "))
		for _, need := range keys {
			if need.required && list != nil && !hasKey(list, need.key) {
				s.fail(at, join(path, need.key), "is missing: %s", need.doc)
			}
		}
		read(i, list)
	}
}

func hasKey(list []pair, key string) bool {
	for _, p := range list {
		if p.key == key {
			return true
		}
	}
	return false
}

// rules reads classes. A faulty rule keeps its place, so that the others
// keep their numbers.
func (s *scope) rules(p pair) []policy.Rule {
	var rules []policy.Rule
	s.records(p, ruleRecords, func(i int, list []pair) {
		rules = append(rules, s.rule(fmt.Sprintf("%s[%d].", classesKey, i), list))
	})
	return rules
}

func (s *scope) rule(prefix string, list []pair) policy.Rule {
	rule := policy.Rule{Counts: policy.CountsAttempt}
	for _, p := range list {
		if !s.present(p) {
			continue
		}
		s.places[prefix+p.key] = p.valueAt
		switch p.key {
		case "match":
			rule.Match = s.match(prefix+"match.", p)
		case "action":
			rule.Action = policy.Action(s.text(p))
		case "counts":
			rule.Counts = policy.Counts(s.text(p))
		case "max":
			rule.Max = s.whole(p.value, p.valueAt, p.path, "a whole number such as 3")
		case "window":
			if text := s.text(p); text != "" {
				rule.Window = s.duration(p, text)
			}
		case "backoff":
			rule.Backoff = s.ruleBackoff(prefix, p)
		default:
			s.unknown(p, recordKeys(ruleRecords), nil)
		}
	}
	return rule
}

// ruleBackoff reads the schedule of one rule; it inherits nothing.
func (s *scope) ruleBackoff(prefix string, p pair) *policy.Backoff {
	sub := &scope{reader: s.reader, shown: s.shown, prefix: prefix, set: map[string]written{}, places: s.places}
	sub.key(backoffBranch, p)
	var holder policy.Policy
	sub.apply(&holder)
	before := holder
	if sealed, err := policy.Seal(withBackoff(holder.Backoff)); err == nil {
		sub.checkKept(&before, &sealed)
	}
	return &holder.Backoff
}

// withBackoff returns a policy to judge a rule's schedule by.
func withBackoff(b policy.Backoff) policy.Policy {
	p := policy.Base(policy.DefaultName)
	p.Backoff = b
	return p
}

func (s *scope) match(prefix string, p pair) policy.Match {
	var m policy.Match
	list, _ := s.pairs(p.value, p.valueAt, p.path, "a mapping with "+strings.Join(recordKeys(matchRecords), ", "))
	for _, q := range list {
		if !slices.Contains(recordKeys(matchRecords), q.key) {
			s.unknown(q, recordKeys(matchRecords), nil)
			continue
		}
		if !s.present(q) {
			continue
		}
		s.places[prefix+q.key] = q.valueAt
		elements, _ := items(q.value, true)
		if len(elements) == 0 {
			s.fail(q.valueAt, q.path, "an empty list matches nothing; name what it matches, or remove the key")
			continue
		}
		for i, n := range elements {
			path, at := fmt.Sprintf("%s[%d]", q.path, i), s.pos(n)
			s.places[fmt.Sprintf("%s%s[%d]", prefix, q.key, i)] = at
			s.matchElement(&m, q.key, n, at, path)
		}
	}
	return m
}

func (s *scope) matchElement(m *policy.Match, key string, n ast.Node, at Pos, path string) {
	switch key {
	case "class":
		set, err := policy.ParseClassSet([]string{s.one(n, at, path)})
		if err != nil && !s.failed[path] {
			s.fail(at, path, "%v", err)
		}
		m.Classes |= set
	case "status":
		m.Status = append(m.Status, s.whole(n, at, path, "an HTTP status such as 503"))
	case "reason":
		m.Reason = append(m.Reason, s.one(n, at, path))
	}
}

func (s *scope) waivers(p pair) []policy.Waiver {
	var waivers []policy.Waiver
	s.records(p, waiverRecords, func(i int, list []pair) {
		var w policy.Waiver
		for _, q := range list {
			if !s.present(q) {
				continue
			}
			s.places[fmt.Sprintf("%s[%d].%s", waiversKey, i, q.key)] = q.valueAt
			switch q.key {
			case "rule":
				w.Rule = s.text(q)
			case "reason":
				w.Reason = s.text(q)
			case "expires":
				w.Expires = s.date(q)
			default:
				s.unknown(q, recordKeys(waiverRecords), nil)
			}
		}
		waivers = append(waivers, w)
	})
	return waivers
}

// one returns the text of a single value.
func (s *scope) one(n ast.Node, at Pos, path string) string {
	v, ok := scalarOf(n)
	if !ok || isNull(n) {
		s.fail(at, path, "%s where one value is expected", describe(n))
	}
	return v.text
}

func (s *scope) text(p pair) string { return s.one(p.value, p.valueAt, p.path) }

func (s *scope) whole(n ast.Node, at Pos, path, want string) int {
	v, ok := scalarOf(n)
	if ok && v.isNumber() {
		if number, err := strconv.Atoi(v.text); err == nil {
			return number
		}
	}
	s.fail(at, path, "%s is not %s", describe(n), want)
	return 0
}

func (s *scope) duration(p pair, text string) time.Duration {
	d, err := policy.ParseDuration(text)
	if err != nil {
		s.fail(p.valueAt, p.path, "%v", err)
	}
	return d
}

func (s *scope) date(p pair) time.Time {
	text := s.text(p)
	day, err := time.Parse(time.DateOnly, text)
	if err != nil && !s.failed[p.path] {
		s.fail(p.valueAt, p.path, "%q is not a date; write one such as 2027-01-31", text)
	}
	return day
}
