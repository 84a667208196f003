package file

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// The one-line forms. Each parser returns what is wrong, or "".

func parseLength(text string, l *simulate.Length) string {
	d, err := policy.ParseDuration(text)
	if err != nil {
		return err.Error()
	}
	*l = simulate.Length{Time: d}
	return ""
}

func parseAnswer(text string, a *simulate.Answer) string {
	if status, err := strconv.Atoi(text); err == nil {
		*a = simulate.Answer{Status: status}
		return ""
	}
	class, err := failure.ParseClass(text)
	if err != nil || class == failure.Unknown {
		return strconv.Quote(short(text)) + " is neither an HTTP status such as 503 nor a class of failure such as timeout"
	}
	*a = simulate.Answer{Class: class}
	return ""
}

func (r *reader) parseArrivals(s spot, text string, a *simulate.Arrivals) string {
	kind, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	*a = simulate.Arrivals{Kind: simulate.ArrivalKind(kind)}
	switch a.Kind {
	case simulate.Poisson, simulate.Regular:
		rate, msg := parseNumber(rest, true)
		a.Rate = simulate.Constant(rate)
		return msg
	case simulate.Batch:
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil || n < 1 {
			return strconv.Quote(short(rest)) + " is not the size of a batch, such as 882"
		}
		a.Jobs = n
	case simulate.Closed:
		users, think, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(users)
		if err != nil || n < 1 {
			return strconv.Quote(short(users)) + " is not a number of users, such as 50"
		}
		a.Users = n
		think, hasThink := strings.CutPrefix(strings.TrimSpace(think), "think ")
		switch {
		case hasThink:
			return parseDist(think, &a.Think)
		case think != "":
			return strconv.Quote(short(think)) + " follows the users; write closed 50 think exp 1s"
		}
	case simulate.Renewal:
		return parseDist(rest, &a.Gap)
	case simulate.Trace:
		times, err := r.readTimes(rest)
		if err != nil {
			r.fail(s.at, s.path, "%v", err)
		}
		a.Times = times
	default:
		if meant := suggest(kind, arrivalWords); meant != "" {
			return fmt.Sprintf("%q is no kind of arrivals; did you mean %s?", short(kind), meant)
		}
		return fmt.Sprintf("%q is no kind of arrivals; one of: %s", short(kind), strings.Join(arrivalWords, ", "))
	}
	return ""
}

// distForm is the one-line form of a kind: its parameters by position.
type distForm struct {
	kind   simulate.DistKind
	params []string
	least  int // that must be there
}

var distForms = []distForm{
	{simulate.Fixed, []string{"mean"}, 1},
	{simulate.Exponential, []string{"mean"}, 1},
	{simulate.Normal, []string{"mean", "sd"}, 2},
	{simulate.Lognormal, []string{"mean", "sd"}, 2},
	{simulate.Uniform, []string{"min", "max"}, 2},
	{simulate.Pareto, []string{"min", "shape", "max"}, 2},
	{simulate.Gamma, []string{"mean", "shape"}, 2},
	{simulate.Weibull, []string{"scale", "shape"}, 2},
}

func formOf(kind simulate.DistKind) (distForm, bool) {
	at := slices.IndexFunc(distForms, func(f distForm) bool { return f.kind == kind })
	if at < 0 {
		return distForm{}, false
	}
	return distForms[at], true
}

// dist reads a distribution: a line, a list of values, or a mapping.
func (r *reader) dist(s spot, d *simulate.Dist) {
	*d = simulate.Dist{}
	if _, isList := s.node.(*ast.SequenceNode); isList {
		d.Kind = simulate.Empirical
		r.values(s, &d.Values)
		return
	}
	r.shortOr(s, valueOf(d), func(text string) string {
		if isCSV(text) {
			d.Kind = simulate.Empirical
			r.values(s, &d.Values)
			return ""
		}
		return parseDist(text, d)
	})
}

func parseDist(text string, d *simulate.Dist) string {
	if strings.Contains(text, "%") {
		return parseMixture(text, d)
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return "nothing where a distribution is expected, such as exp 20ms"
	}
	if len(words) == 1 {
		mean, err := policy.ParseDuration(words[0])
		if err != nil {
			return err.Error() + ", or a distribution such as exp 20ms"
		}
		*d = simulate.Always(mean)
		return ""
	}
	kind := simulate.DistKind(words[0])
	if kind == "exp" {
		kind = simulate.Exponential
	}
	form, ok := formOf(kind)
	if !ok {
		msg := "one of: exp, " + strings.Join(distWords[:len(distForms)], ", ")
		if meant := suggest(words[0], distWords); meant != "" {
			msg = "did you mean " + meant + "?"
		}
		return fmt.Sprintf("%q is no distribution; %s", short(words[0]), msg)
	}
	*d = simulate.Dist{Kind: kind}
	return parseParams(form, words[1:], d)
}

// parseParams reads parameters by position, or by name as in median=20ms.
func parseParams(form distForm, words []string, d *simulate.Dist) string {
	e := elementOf(typeOf[simulate.Dist]())
	positional := 0
	for _, word := range words {
		key, text, named := strings.Cut(word, "=")
		if !named {
			text = word
			if positional >= len(form.params) {
				return fmt.Sprintf("%q is one too many; %s takes %s", short(word), form.kind, strings.Join(form.params, " "))
			}
			key = form.params[positional]
			positional++
		}
		f, ok := e.field(key)
		if !ok {
			return fmt.Sprintf("%q is no parameter of %s", short(key), form.kind)
		}
		if msg := setParam(f.in(valueOf(d)), key, text); msg != "" {
			return msg
		}
	}
	if positional > 0 && positional < form.least {
		return fmt.Sprintf("%s needs %s", form.kind, strings.Join(form.params[:form.least], " and "))
	}
	return ""
}

func setParam(v reflect.Value, key, text string) string {
	switch v.Kind() {
	case reflect.Int64:
		value, err := policy.ParseDuration(text)
		if err != nil {
			return key + ": " + err.Error()
		}
		v.SetInt(int64(value))
	case reflect.Float64:
		value, msg := parseNumber(text, false)
		if msg != "" {
			return key + ": " + msg
		}
		v.SetFloat(value)
	default:
		return key + " cannot be written in one line; use a mapping"
	}
	return ""
}

// parseMixture reads "90% exp 20ms, 10% 2s".
func parseMixture(text string, d *simulate.Dist) string {
	*d = simulate.Dist{Kind: simulate.Mixture}
	for _, part := range strings.Split(text, ",") {
		share, of, ok := strings.Cut(strings.TrimSpace(part), "%")
		weight, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if !ok || err != nil || weight < 0 {
			return fmt.Sprintf("%q is no part of a mixture; write one such as 90%% exp 20ms, 10%% 2s", short(strings.TrimSpace(part)))
		}
		p := simulate.Part{Weight: weight / 100}
		if msg := parseDist(strings.TrimSpace(of), &p.Dist); msg != "" {
			return msg
		}
		d.Parts = append(d.Parts, p)
	}
	return ""
}
