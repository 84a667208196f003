package file

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// variantFields are the keys of a variant beside those of the scenario.
var variantFields = []field{
	{key: "name", required: true, doc: "what it is called"},
	{key: "about", doc: "what is different, in a sentence"},
	{key: "policy", doc: "replaces the policy of every caller"},
}

func variantKeys() []string {
	var keys []string
	for _, f := range variantFields {
		keys = append(keys, f.key)
	}
	for _, key := range elementOf(typeOf[simulate.Scenario]()).keys() {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (r *reader) variants(f *File, p pair) {
	list := r.items(p.spot)
	if len(list) > maxVariants {
		r.fail(p.at, p.path, "%d variants; at most %d", len(list), maxVariants)
		return
	}
	for _, s := range list {
		v, ok := r.variant(f, s)
		if !ok {
			continue
		}
		if _, twice := f.Variant(v.Name); twice {
			r.fail(s.at, s.path+".name", "%q is there twice", v.Name)
			continue
		}
		f.Variants = append(f.Variants, v)
	}
}

// variant reads one: what is written replaces what the scenario has.
func (r *reader) variant(f *File, s spot) (Variant, bool) {
	list, ok := r.pairs(s, "a mapping with name and what is replaced")
	if !ok {
		return Variant{}, false
	}
	v := Variant{Scenario: f.Scenario}
	v.Scenario.Callers = slices.Clone(f.Scenario.Callers)
	v.Scenario.Downstreams = slices.Clone(f.Scenario.Downstreams)
	scenario := elementOf(typeOf[simulate.Scenario]())
	var rest []pair
	for _, p := range list {
		switch _, isField := scenario.field(p.key); {
		case p.key == "name":
			v.Name, _ = r.text(p.spot, "a name")
		case p.key == "about":
			v.About, _ = r.text(p.spot, "a sentence")
		case p.key == "policy":
			r.policyOfAll(&v.Scenario, p)
		case p.key == "callers":
			overlay(r, p.spot, v.Scenario.Callers, func(c *simulate.Caller) string { return c.Name })
		case p.key == "downstreams":
			overlay(r, p.spot, v.Scenario.Downstreams, func(d *simulate.Downstream) string { return d.Name })
		case isField:
			rest = append(rest, p)
		default:
			r.unknown(p, variantKeys())
		}
	}
	r.fields(s, scenario, rest, valueOf(&v.Scenario), false)
	if v.Name == "" {
		r.fail(s.at, s.path+".name", "is missing: what it is called")
		return v, false
	}
	r.check(&v.Scenario, s.path)
	return v, true
}

func (r *reader) policyOfAll(s *simulate.Scenario, p pair) {
	var one policy.Policy
	if r.policy(p.spot, &one); r.failed[p.path] {
		return
	}
	for i := range s.Callers {
		s.Callers[i].Policy = one
	}
}

// overlay writes the named elements of a list over those of the same name.
func overlay[T any](r *reader, s spot, over []T, name func(*T) string) {
	names := make([]string, len(over))
	for i := range over {
		names[i] = name(&over[i])
	}
	e := elementOf(typeOf[T]())
	for _, item := range r.items(s) {
		list, ok := r.pairs(item, "a mapping with name and what is replaced")
		if !ok {
			continue
		}
		at := -1
		for _, p := range list {
			if p.key == "name" {
				text, _ := r.text(p.spot, "a name")
				at = slices.Index(names, text)
			}
		}
		if at < 0 {
			r.fail(item.at, item.path+".name", "which one is meant? one of: %s", strings.Join(names, ", "))
			continue
		}
		// What simulate.Check finds is looked for under the number in the scenario.
		prefix := fmt.Sprintf("%s[%d]", s.path, at)
		r.places[prefix] = item.at
		for _, p := range list {
			r.places[join(prefix, p.key)] = p.at
		}
		r.fields(item, e, list, valueOf(&over[at]), false)
	}
}

func valueOf[T any](v *T) reflect.Value { return reflect.ValueOf(v).Elem() }
