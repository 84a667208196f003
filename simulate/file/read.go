package file

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// fields reads keys into a Go value. Only what is written changes; whole says
// that required keys must be there.
func (r *reader) fields(s spot, e *element, list []pair, v reflect.Value, whole bool) {
	for _, p := range list {
		f, ok := e.field(p.key)
		if !ok {
			r.unknown(p, e.keys())
			continue
		}
		r.value(p.spot, f.in(v), f)
	}
	for _, f := range e.fields {
		if whole && f.required && !hasKey(list, f.key) && !r.failed[join(s.path, f.key)] {
			r.fail(s.at, join(s.path, f.key), "is missing: %s", f.doc)
		}
	}
}

func (r *reader) mapping(s spot, v reflect.Value) {
	e := elementOf(v.Type())
	want := "a mapping with " + strings.Join(e.keys(), ", ")
	if list, ok := r.pairs(s, want); ok {
		r.fields(s, e, list, v, true)
	}
}

// value reads one value by its Go type.
func (r *reader) value(s spot, v reflect.Value, f field) {
	switch target := v.Addr().Interface().(type) {
	case *time.Duration:
		r.duration(s, target)
	case *time.Time:
		r.instant(s, target)
	case *[]time.Duration:
		r.times(s, target)
	case *[]simulate.Value:
		r.values(s, target)
	case *policy.Policy:
		r.policy(s, target)
	case *failure.Class:
		r.class(s, target)
	case *simulate.Dist:
		r.leaf(s, func() { r.dist(s, target) })
	case *simulate.Curve:
		r.leaf(s, func() { r.curve(s, target, f.rate) })
	case *simulate.LoadCurve:
		r.list(s, v.FieldByName("Points"), f)
	case *simulate.Length:
		r.leaf(s, func() { r.shortOr(s, v, func(text string) string { return parseLength(text, target) }) })
	case *simulate.Arrivals:
		r.shortOr(s, v, func(text string) string { return r.parseArrivals(s, text, target) })
	case *simulate.Target:
		r.shortOr(s, v, func(text string) string { target.Downstream = text; return "" })
	case *simulate.Answer:
		r.shortOr(s, v, func(text string) string { return parseAnswer(text, target) })
	default:
		r.basic(s, v, f)
	}
}

// leaf reads a value whose parts hang together: a fault of one is a fault of
// the whole, and what follows from it is not worth a line.
func (r *reader) leaf(s spot, read func()) {
	before := len(r.errs)
	read()
	if len(r.errs) > before {
		r.failed[s.path] = true
	}
}

// shortOr reads a one-line form, or the mapping it stands for. parse returns
// what is wrong, or "".
func (r *reader) shortOr(s spot, v reflect.Value, parse func(text string) string) {
	if text, ok := scalarOf(s.node); ok {
		if msg := parse(strings.TrimSpace(text.text)); msg != "" {
			r.fail(s.at, s.path, "%s", msg)
		}
		return
	}
	r.mapping(s, v)
}

func (r *reader) basic(s spot, v reflect.Value, f field) {
	switch v.Kind() {
	case reflect.Pointer:
		inner := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			inner.Elem().Set(v.Elem())
		}
		r.value(s, inner.Elem(), f)
		v.Set(inner)
	case reflect.Slice:
		r.list(s, v, f)
	case reflect.Struct:
		r.mapping(s, v)
	case reflect.String:
		if text, ok := r.text(s, "one word"); ok {
			r.word(s, text, f.words)
			v.SetString(text)
		}
	case reflect.Bool:
		if text, ok := r.text(s, "true or false"); ok && text != "true" && text != "false" {
			r.fail(s.at, s.path, "%q is not true or false", short(text))
		} else {
			v.SetBool(text == "true")
		}
	case reflect.Int, reflect.Int64:
		if f.limit {
			r.limit(s, v)
			return
		}
		r.whole(s, 0, math.MaxInt32, v.SetInt)
	case reflect.Uint64:
		r.unsigned(s, v)
	case reflect.Float64:
		if text, ok := r.text(s, "a number"); ok {
			n, msg := parseNumber(text, f.rate)
			if msg != "" {
				r.fail(s.at, s.path, "%s", msg)
			}
			v.SetFloat(n)
		}
	default:
		panic("scenario file: no reader for " + v.Type().String())
	}
}

func (r *reader) list(s spot, v reflect.Value, f field) {
	items := r.items(s)
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		r.value(item, list.Index(i), f)
	}
	v.Set(list)
}

func (r *reader) word(s spot, text string, words []string) {
	if words == nil {
		return
	}
	for _, w := range words {
		if w == text {
			return
		}
	}
	if meant := suggest(text, words); meant != "" {
		r.fail(s.at, s.path, "%q is not known; did you mean %s?", short(text), meant)
		return
	}
	r.fail(s.at, s.path, "%q is not known; one of: %s", short(text), strings.Join(words, ", "))
}

func (r *reader) whole(s spot, least, most int64, set func(int64)) {
	text, ok := r.text(s, "a whole number")
	if !ok {
		return
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most || !plainNumber.MatchString(text) {
		r.fail(s.at, s.path, "%q is not a whole number from %d to %d", short(text), least, most)
		return
	}
	set(n)
}

// limit reads a bound: 1 or more, or none. In the model 0 means none, which
// is not what somebody means who writes it.
func (r *reader) limit(s spot, v reflect.Value) {
	if text, ok := scalarOf(s.node); ok {
		switch strings.TrimSpace(text.text) {
		case "none":
			v.SetInt(0)
			return
		case "0":
			r.fail(s.at, s.path, "0 would let nothing through; write 1 or more, or none for no limit")
			return
		}
	}
	r.whole(s, 1, math.MaxInt32, v.SetInt)
}

func (r *reader) unsigned(s spot, v reflect.Value) {
	text, ok := r.text(s, "a whole number")
	if !ok {
		return
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !plainNumber.MatchString(text) {
		r.fail(s.at, s.path, "%q is not a whole number, such as 42", short(text))
		return
	}
	v.SetUint(n)
}

func (r *reader) duration(s spot, d *time.Duration) {
	text, ok := r.text(s, "a duration such as 90s")
	if !ok {
		return
	}
	parsed, err := policy.ParseDuration(text)
	if err != nil {
		r.fail(s.at, s.path, "%v", err)
		return
	}
	*d = parsed
}

func (r *reader) instant(s spot, t *time.Time) {
	text, ok := r.text(s, "an instant")
	if !ok {
		return
	}
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		r.fail(s.at, s.path, "%q is not an instant; write one such as 2026-04-08T09:00:00Z", short(text))
		return
	}
	*t = parsed.UTC()
}

func (r *reader) class(s spot, c *failure.Class) {
	text, ok := r.text(s, "a class of failure")
	if !ok {
		return
	}
	parsed, err := failure.ParseClass(text)
	if err != nil || parsed == failure.Unknown {
		msg := "one of: " + strings.Join(classWords(), ", ")
		if meant := suggest(text, classWords()); meant != "" {
			msg = "did you mean " + meant + "?"
		}
		r.fail(s.at, s.path, "%q is no class of failure; %s", short(text), msg)
		return
	}
	*c = parsed
}

func classWords() []string {
	var words []string
	for _, c := range failure.Classes() {
		words = append(words, c.String())
	}
	return words
}

// perSecond are the units of rates.
var perSecond = map[string]float64{"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}

// parseNumber reads 0.5, 5% and, where rate says so, 200/s, 12/m and 5/h. The
// second result is what is wrong, or "".
func parseNumber(text string, rate bool) (float64, string) {
	number, divisor := text, 1.0
	if value, ok := strings.CutSuffix(text, "%"); ok {
		number, divisor = strings.TrimSpace(value), 100
	} else if value, unit, ok := strings.Cut(text, "/"); ok && rate {
		seconds, known := perSecond[strings.TrimSpace(unit)]
		if !known {
			return 0, strconv.Quote(short(text)) + " has an unknown unit; write a rate such as 200/s, 12/m or 5/h"
		}
		number, divisor = strings.TrimSpace(value), seconds
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !plainNumber.MatchString(number) || math.IsInf(n, 0) {
		want := "a number such as 0.5 or 5%"
		if rate {
			want = "a rate such as 200/s, 12/m or 5/h"
		}
		return 0, strconv.Quote(short(text)) + " is not " + want
	}
	return n / divisor, ""
}
