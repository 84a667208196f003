package file

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ebbhq/ebb/policy"
)

// Plays lists what is to be run: the variants of the names, all of them where
// none is named, or the scenario itself where it has none. From and to say
// which two are compared; the same number twice = no two are.
func (f *File) Plays(names []string) (plays []Variant, from, to int, err error) {
	if len(f.Variants) == 0 && len(names) == 0 {
		return []Variant{{Name: f.Scenario.Name, Scenario: f.Scenario}}, 0, 0, nil
	}
	plays = f.Variants
	if len(names) > 0 {
		plays = nil
		for _, name := range names {
			v, ok := f.Variant(name)
			if !ok {
				return nil, 0, 0, fmt.Errorf("%s has no variant %q; it has: %s", f.Scenario.Name, name, f.variantNames())
			}
			plays = append(plays, v)
		}
	}
	for i, p := range plays {
		switch p.Name {
		case f.Compare.From:
			from = i
		case f.Compare.To:
			to = i
		}
	}
	if len(plays) == 2 && from == to {
		from, to = 0, 1
	}
	return plays, from, to, nil
}

func (f *File) variantNames() string {
	var names []string
	for _, v := range f.Variants {
		names = append(names, v.Name)
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// With is the scenario with the policy of a caller replaced, of all callers
// where none is named. About says it, with the policy called ref.
func (f *File) With(p policy.Policy, ref, caller string) (Variant, error) {
	v := Variant{Name: p.Name, Scenario: f.Scenario}
	v.Scenario.Callers = slices.Clone(f.Scenario.Callers)
	var names, replaced []string
	for i := range v.Scenario.Callers {
		c := &v.Scenario.Callers[i]
		names = append(names, c.Name)
		if caller == "" || caller == c.Name {
			c.Policy = p
			replaced = append(replaced, c.Name)
		}
	}
	if replaced == nil {
		return v, fmt.Errorf("%s has no caller %q; it has: %s", f.Scenario.Name, caller, strings.Join(names, ", "))
	}
	v.About = fmt.Sprintf("policy %s of %s", ref, strings.Join(replaced, ", "))
	return v, nil
}
