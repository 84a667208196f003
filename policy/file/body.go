package file

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebbhq/ebb/policy"
)

// written is one field as the file gives it: its texts, and where.
type written struct {
	at    Pos
	texts []string
}

// scope gathers the fields that one mapping writes: a policy, or the backoff
// of a class rule. Paths of set are those of policy.Fields.
type scope struct {
	*reader
	shown  string // path of the policy in messages, such as "policies.webhook"
	prefix string // of the scope in its policy, such as "classes[0]."
	set    map[string]written
	// places is where each written key and list element of the policy stands,
	// by its path in the policy.
	places map[string]Pos
}

func (s *scope) shownPath(path string) string { return join(s.shown, s.prefix+path) }

// mapping reads the keys of a branch.
func (s *scope) mapping(b *branch, list []pair) {
	for _, p := range list {
		kid := b.kid(p.key)
		if kid == nil {
			s.unknown(p, b.keys(), nil)
			continue
		}
		s.key(kid, p)
	}
}

// key reads one key: a field, a mapping, or the word that stands for it.
func (s *scope) key(b *branch, p pair) {
	if !s.present(p) {
		return
	}
	s.places[s.prefix+b.path] = p.keyAt
	if b.field != nil {
		s.field(*b.field, p)
		return
	}
	word, hasWord := shorthands[b.path]
	if v, isScalar := scalarOf(p.value); isScalar && hasWord {
		s.shorthand(b, p, word, v)
		return
	}
	want := "a mapping with " + strings.Join(b.keys(), ", ")
	if hasWord {
		want += ", or " + oneOf(word.words) + ","
	}
	if list, ok := s.pairs(p.value, p.valueAt, p.path, want); ok {
		s.mapping(b, list)
	}
}

func (s *scope) shorthand(b *branch, p pair, sh shorthand, v scalar) {
	text := v.text
	if text == "false" && !v.quoted && slices.Contains(sh.words, "off") {
		text = "off" // what many YAML readers make of it
	}
	if !slices.Contains(sh.words, text) {
		s.fail(p.valueAt, p.path, "%q is not known; %s, or a mapping with %s", short(text), oneOf(sh.words), strings.Join(b.keys(), ", "))
		return
	}
	for _, set := range sh.sets {
		value := set.text
		if value == "" {
			value = text
		}
		s.write(set.path, p.valueAt, value)
	}
}

// field reads the value of a field and remembers it when it is right.
func (s *scope) field(f policy.Field, p pair) {
	var scratch policy.Policy
	if f.Kind != policy.KindDurations && f.Kind != policy.KindClasses {
		if v, ok := s.single(f, p); ok {
			if err := f.Set(&scratch, v.text); err != nil {
				s.fail(p.valueAt, p.path, "%v", err)
				return
			}
			s.write(f.Path, p.valueAt, v.text)
		}
		return
	}
	elements, ok := items(p.value, true)
	if !ok || !s.elements(f, p, elements) {
		return
	}
	if f.Kind == policy.KindDurations && len(elements) == 0 {
		s.fail(p.valueAt, p.path, "an empty list is no schedule; write delays such as [30s, 2m], or remove the key")
		return
	}
	texts := make([]string, len(elements))
	for i, n := range elements {
		v, _ := scalarOf(n)
		texts[i] = v.text
	}
	s.write(f.Path, p.valueAt, texts...)
}

// elements checks a list one element at a time, so that each fault has its
// own place.
func (s *scope) elements(f policy.Field, p pair, list []ast.Node) bool {
	good := true
	var scratch policy.Policy
	for i, n := range list {
		path := fmt.Sprintf("%s[%d]", p.path, i)
		at := s.pos(n)
		s.places[fmt.Sprintf("%s%s[%d]", s.prefix, f.Path, i)] = at
		v, ok := scalarOf(n)
		if !ok || isNull(n) {
			s.fail(at, path, "%s where %s is expected", describe(n), expected(f))
			good = false
			continue
		}
		if err := f.Set(&scratch, v.text); err != nil {
			s.fail(at, path, "%v", err)
			good = false
		}
	}
	return good
}

// single returns the one plain value of a field.
func (s *scope) single(f policy.Field, p pair) (scalar, bool) {
	v, ok := scalarOf(p.value)
	if !ok {
		s.fail(p.valueAt, p.path, "%s where %s is expected", describe(p.value), expected(f))
		return scalar{}, false
	}
	switch f.Kind {
	case policy.KindInt, policy.KindFloat:
		ok = v.isNumber()
	case policy.KindBool, policy.KindSwitch:
		ok = !v.quoted || v.text == "on" || v.text == "off"
	}
	if !ok {
		s.fail(p.valueAt, p.path, "%s is not %s", shownScalar(v), expected(f))
	}
	return v, ok
}

// write remembers a field, unless it is written already under another name.
func (s *scope) write(path string, at Pos, texts ...string) {
	if w, twice := s.set[path]; twice {
		s.fail(at, s.shownPath(path), "written twice, first in line %d; keep one", w.at.Line)
		return
	}
	s.set[path] = written{at: at, texts: texts}
}

// alias reads a field under its seed's name.
func (s *scope) alias(a alias, p pair) {
	if !s.present(p) {
		return
	}
	f, _ := policy.FieldAt(a.path)
	v, ok := scalarOf(p.value)
	switch {
	case !ok:
		s.fail(p.valueAt, p.path, "%s where a plain number is expected", describe(p.value))
		return
	case !v.isNumber():
		s.fail(p.valueAt, p.path, "%s is not a plain number, such as 2", shownScalar(v))
		return
	}
	text := v.text + a.unit
	if err := f.Set(new(policy.Policy), text); err != nil {
		s.fail(p.valueAt, p.path, "%v", err)
		return
	}
	s.places[a.path] = p.keyAt
	s.write(a.path, p.valueAt, text)
}

// apply writes the scope's fields into p, in the table's order. Fields that
// the written ones make meaningless are not inherited.
func (s *scope) apply(p *policy.Policy) {
	s.checkSchedule()
	if _, ok := s.set["backoff.steps"]; ok {
		p.Backoff.Base, p.Backoff.Factor, p.Backoff.Cap = 0, 0, 0
	}
	if w, ok := s.set["budget.kind"]; ok && w.texts[0] != string(p.Budget.Kind) {
		p.Budget = policy.Budget{}
	}
	for _, f := range policy.Fields() {
		if w, ok := s.set[f.Path]; ok {
			if err := f.Set(p, w.texts...); err != nil {
				s.fail(w.at, s.shownPath(f.Path), "%v", err)
			}
		}
	}
}

// checkSchedule refuses two schedules at once.
func (s *scope) checkSchedule() {
	steps, ok := s.set["backoff.steps"]
	if !ok {
		return
	}
	for _, path := range []string{"backoff.base", "backoff.factor", "backoff.cap"} {
		if w, both := s.set[path]; both {
			s.fail(w.at, s.shownPath(path), "steps in line %d are the schedule already; keep steps, or base, factor and cap", steps.at.Line)
		}
	}
}

// checkKept refuses written values that sealing dropped because nothing uses
// them: what a file says must hold.
func (s *scope) checkKept(before, after *policy.Policy) {
	for _, f := range policy.Fields() {
		w, ok := s.set[f.Path]
		if !ok || s.failed[s.shownPath(f.Path)] || f.Text(before) == f.Text(after) {
			continue
		}
		if f.Path == "backoff.factor" {
			s.fail(w.at, s.shownPath(f.Path), "0 makes no schedule; 1 means fixed, 2 doubles")
		} else if why := unused(f.Path, after); why != "" {
			s.fail(w.at, s.shownPath(f.Path), "%s has no effect: %s; remove it", f.Text(before), why)
		}
	}
}

// unused says why a field of a sealed policy cannot have a value, or "".
func unused(path string, p *policy.Policy) string {
	group, _, _ := strings.Cut(path, ".")
	switch {
	case path == "backoff.jitter.ratio":
		return fmt.Sprintf("jitter %s has no ratio", p.Backoff.Jitter.Kind)
	case group == "budget" && p.Budget.Kind == policy.BudgetNone:
		return "there is no budget"
	case group == "budget":
		return fmt.Sprintf("a %s budget does not use it", p.Budget.Kind)
	case group == "breaker":
		return "without consecutive or ratio the breaker is off"
	case group == "waves":
		return "without a count there are no waves"
	case group == "backoff" && len(p.Backoff.Steps) > 0:
		return "steps are the schedule"
	}
	return ""
}

// expected says what a field takes.
func expected(f policy.Field) string {
	switch f.Kind {
	case policy.KindDuration:
		return "a duration such as 30s"
	case policy.KindInt:
		return "a whole number such as 5"
	case policy.KindFloat:
		return "a number such as 0.2"
	case policy.KindBool:
		return "true or false"
	case policy.KindSwitch:
		return "on or off"
	case policy.KindDurations:
		return "a delay such as 30s"
	case policy.KindClasses:
		return "a class such as timeout"
	}
	return oneOf(f.Enum)
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func shownScalar(s scalar) string {
	if s.quoted {
		return "the quoted text " + strconv.Quote(short(s.text))
	}
	return strconv.Quote(short(s.text))
}
