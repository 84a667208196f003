package file

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	policyfile "github.com/ebbhq/ebb/policy/file"
	"github.com/ebbhq/ebb/simulate"
)

// Print writes the file in canonical form: every written value in one way,
// every policy that is no preset written out. Reading it gives the same
// scenario and variants back.
func (f *File) Print() string {
	p := &printer{}
	for _, s := range f.scenarios() {
		for _, one := range policiesOf(s) {
			p.collect(one)
		}
	}
	p.head()
	if f.Seeds > 0 {
		p.line(0, "seeds: %d", f.Seeds)
	}
	p.scenario(0, &f.Scenario, nil)
	if f.Compare != (Compare{}) {
		p.line(0, "compare: {from: %s, to: %s}", quote(f.Compare.From), quote(f.Compare.To))
	}
	if len(f.Variants) > 0 {
		p.line(0, "variants:")
	}
	for i := range f.Variants {
		p.variant(&f.Variants[i], &f.Scenario)
	}
	return p.String()
}

func (f *File) scenarios() []*simulate.Scenario {
	list := []*simulate.Scenario{&f.Scenario}
	for i := range f.Variants {
		list = append(list, &f.Variants[i].Scenario)
	}
	return list
}

func policiesOf(s *simulate.Scenario) []policy.Policy {
	var list []policy.Policy
	for i := range s.Callers {
		list = append(list, s.Callers[i].Policy)
	}
	for i := range s.Downstreams {
		for j := range s.Downstreams[i].Calls {
			list = append(list, s.Downstreams[i].Calls[j].Policy)
		}
	}
	return list
}

// printer writes lines and knows what each policy is called.
type printer struct {
	strings.Builder
	policies []named
}

type named struct {
	name   string
	policy policy.Policy
}

func (p *printer) line(indent int, format string, args ...any) {
	p.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(p, format, args...)
	p.WriteByte('\n')
}

// collect gives a policy its name in the print: its own, with a number where
// another has it.
func (p *printer) collect(one policy.Policy) {
	if p.nameOf(one) != "" {
		return
	}
	name := one.Name
	for n := 2; p.taken(name); n++ {
		name = fmt.Sprintf("%s-%d", one.Name, n)
	}
	p.policies = append(p.policies, named{name, one})
}

func (p *printer) taken(name string) bool {
	return slices.ContainsFunc(p.policies, func(n named) bool { return n.name == name })
}

func (p *printer) nameOf(one policy.Policy) string {
	for _, n := range p.policies {
		if n.policy.Name == one.Name && n.policy.Version == one.Version {
			return n.name
		}
	}
	if standing(one) {
		return one.Name
	}
	return ""
}

// standing reports whether a policy needs no writing out.
func standing(p policy.Policy) bool {
	if p.Name == NoPolicy {
		return p.Version == noPolicy().Version
	}
	preset, err := policy.Preset(p.Name)
	return err == nil && preset.Version == p.Version
}

func (p *printer) head() {
	if len(p.policies) == 0 {
		p.line(0, "version: %d", FormatVersion)
		return
	}
	list := make([]policy.Policy, len(p.policies))
	for i, n := range p.policies {
		list[i] = n.policy
		list[i].Name = n.name
	}
	p.WriteString(policyfile.Print(list...))
}

// scenario writes the fields that differ from those of over; nil = all.
func (p *printer) scenario(indent int, s, over *simulate.Scenario) {
	e := elementOf(typeOf[simulate.Scenario]())
	for _, f := range e.fields {
		v := f.in(valueOf(s))
		if v.IsZero() || over != nil && reflect.DeepEqual(v.Interface(), f.in(valueOf(over)).Interface()) {
			continue
		}
		switch f.key {
		case "callers", "downstreams":
			p.elements(indent, f, v, over)
		default:
			p.line(indent, "%s: %s", f.key, p.flow(v, f))
		}
	}
}

// elements writes callers or downstreams; over a scenario only what differs.
func (p *printer) elements(indent int, f field, v reflect.Value, over *simulate.Scenario) {
	p.line(indent, "%s:", f.key)
	e := elementOf(v.Type().Elem())
	for i := range v.Len() {
		one, before := v.Index(i), reflect.Value{}
		if over != nil {
			before = f.in(valueOf(over)).Index(i)
			if reflect.DeepEqual(one.Interface(), before.Interface()) {
				continue
			}
		}
		p.block(indent+1, e, one, before)
	}
}

// block writes one element as an entry of a list.
func (p *printer) block(indent int, e *element, v, before reflect.Value) {
	lead := "- "
	for _, f := range e.fields {
		value := f.in(v)
		same := before.IsValid() && f.key != "name" && reflect.DeepEqual(value.Interface(), f.in(before).Interface())
		if same || value.IsZero() && !before.IsValid() {
			continue
		}
		switch list := value.Kind() == reflect.Slice && value.Len() > 0; {
		case list && value.Type().Elem() == typeOf[simulate.Dependency]():
			p.line(indent, "%s%s:", lead, f.key)
			for i := range value.Len() {
				p.block(indent+2, elementOf(value.Type().Elem()), value.Index(i), reflect.Value{})
			}
		case list && value.Type().Elem() != typeOf[simulate.Target]():
			p.line(indent, "%s%s:", lead, f.key)
			for i := range value.Len() {
				p.line(indent+2, "- %s", p.flow(value.Index(i), f))
			}
		default:
			p.line(indent, "%s%s: %s", lead, f.key, p.flow(value, f))
		}
		lead = "  "
	}
}

func (p *printer) variant(v *Variant, over *simulate.Scenario) {
	p.line(1, "- name: %s", quote(v.Name))
	if v.About != "" {
		p.line(2, "about: %s", quote(v.About))
	}
	p.scenario(2, &v.Scenario, over)
}

// flow writes a value in one line.
func (p *printer) flow(v reflect.Value, f field) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return policy.FormatDuration(x)
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case failure.Class:
		return x.String()
	case policy.Policy:
		return quote(p.nameOf(x))
	case simulate.Dist:
		return p.dist(&x, f)
	case simulate.Curve:
		return p.curve(&x, f)
	case simulate.LoadCurve:
		return p.flow(v.FieldByName("Points"), f)
	case simulate.Target:
		if x.Weight == 0 && x.Names == 0 {
			return quote(x.Downstream)
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return p.flow(v.Elem(), f)
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = p.flow(v.Index(i), f)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Struct:
		return p.flowMapping(v)
	case reflect.String:
		return quote(v.String())
	case reflect.Float64:
		return number(v.Float(), f.rate)
	}
	return fmt.Sprint(v.Interface())
}

func (p *printer) flowMapping(v reflect.Value) string {
	var parts []string
	for _, f := range elementOf(v.Type()).fields {
		if value := f.in(v); !value.IsZero() || f.required {
			parts = append(parts, f.key+": "+p.flow(value, f))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// dist writes the one-line form where there is one.
func (p *printer) dist(d *simulate.Dist, f field) string {
	form, ok := formOf(d.Kind)
	if d.Kind == "" || d.Kind == simulate.Fixed {
		if plain := (simulate.Dist{Kind: d.Kind, Mean: d.Mean}); reflect.DeepEqual(*d, plain) {
			return policy.FormatDuration(d.Mean)
		}
	}
	if !ok {
		return p.flowMapping(valueOf(d))
	}
	e, short := elementOf(typeOf[simulate.Dist]()), simulate.Dist{Kind: d.Kind}
	text := string(d.Kind)
	for i, key := range form.params {
		param, _ := e.field(key)
		value := param.in(valueOf(d))
		if value.IsZero() && i >= form.least {
			break
		}
		param.in(valueOf(&short)).Set(value)
		text += " " + p.flow(value, f)
	}
	if !reflect.DeepEqual(*d, short) {
		return p.flowMapping(valueOf(d))
	}
	return text
}

func (p *printer) curve(c *simulate.Curve, f field) string {
	if len(c.Points) == 1 && c.Points[0].At == 0 && c.Period == 0 {
		return number(c.Points[0].Value, f.rate)
	}
	var points []string
	for _, point := range c.Points {
		points = append(points, fmt.Sprintf("{at: %s, value: %s}", policy.FormatDuration(point.At), number(point.Value, f.rate)))
	}
	list := "[" + strings.Join(points, ", ") + "]"
	if c.Period == 0 {
		return list
	}
	return fmt.Sprintf("{points: %s, period: %s}", list, policy.FormatDuration(c.Period))
}

// number writes a number so that reading it gives it back.
func number(x float64, rate bool) string {
	text := strconv.FormatFloat(x, 'g', -1, 64)
	text = strings.Replace(text, "e+0", "e+", 1)
	text = strings.Replace(text, "e-0", "e-", 1)
	if rate {
		return text + "/s"
	}
	return text
}

var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./()=–-]+)*$`)

// quote quotes what YAML readers might take for something else than text.
func quote(text string) string {
	switch strings.ToLower(text) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(text)
	}
	if plainText.MatchString(text) {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text) + `"`
}
