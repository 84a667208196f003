package file

import (
	"fmt"
	"strings"

	"github.com/ebbhq/ebb/policy"
	policyfile "github.com/ebbhq/ebb/policy/file"
)

// NoPolicy is the name of the policy that tries once and has no timeout, for
// models without retries.
const NoPolicy = "none"

func noPolicy() policy.Policy {
	p := policy.Base(NoPolicy)
	p.Attempts, p.Timeout, p.Gate = 1, 0, false
	p.Budget, p.Breaker = policy.Budget{Kind: policy.BudgetNone}, policy.Breaker{}
	p, err := policy.Seal(p)
	if err != nil {
		panic(err) // a fixed value that tests seal
	}
	return p
}

// inline reads the policies of the file itself with the policy file's own
// reader. All other lines are blanked, so that its places are those of this
// file.
func (r *reader) inline(list []pair, src []byte) {
	at, version := -1, 0
	for i, p := range list {
		switch p.key {
		case "version":
			version = p.keyAt.Line
		case "policies":
			at = i
		}
	}
	if at < 0 || version == 0 {
		return
	}
	p := list[at]
	lines := strings.Split(string(src), "\n")
	end := len(lines) + 1
	for _, q := range list {
		if q.keyAt.Line > p.keyAt.Line {
			end = min(end, q.keyAt.Line)
		}
	}
	text := only(lines, version, p.keyAt.Line, end)
	if p.keyAt.Column > 1 { // the whole file stands in one bracket
		text = "version: 1\npolicies: " + p.node.String() + "\n"
	}
	f, err := policyfile.Parse(r.name, []byte(text))
	if err == nil {
		r.policies = f
		return
	}
	r.failed["policies"] = true
	r.errs = append(r.errs, asErrors(err)...)
}

// only blanks all lines but those from the first up to the end, and the one
// of the version.
func only(lines []string, version, first, end int) string {
	for i := range lines {
		switch line := i + 1; {
		case line == version:
			lines[i] = fmt.Sprintf("version: %d", policyfile.FormatVersion)
		case line < first || line >= end:
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n")
}

func asErrors(err error) Errors {
	if list, ok := err.(Errors); ok { //nolint:errorlint // Parse returns it bare
		return list
	}
	return Errors{{Msg: err.Error()}}
}

// policy resolves a reference.
func (r *reader) policy(s spot, p *policy.Policy) {
	ref, ok := r.text(s, "a policy's name, or FILE#NAME")
	if !ok {
		return
	}
	if r.policies == nil && r.failed["policies"] {
		*p = noPolicy() // what follows from faulty policies is not worth a line
		return
	}
	found, err := r.resolve(ref)
	if err != nil {
		r.fail(s.at, s.path, "%v", err)
		return
	}
	*p = found
}

func (r *reader) resolve(ref string) (policy.Policy, error) {
	path, name, hasName := strings.Cut(ref, "#")
	if hasName || strings.ContainsAny(ref, "./\\") {
		return r.fromFile(path, name)
	}
	var known []string
	if r.policies != nil {
		if e, ok := r.policies.Entry(ref); ok {
			return e.Policy, nil
		}
		for _, e := range r.policies.Entries {
			known = append(known, e.Policy.Name)
		}
	}
	if ref == NoPolicy {
		return noPolicy(), nil
	}
	if policy.IsPreset(ref) {
		return policy.Preset(ref)
	}
	known = append(append(known, policy.PresetNames()...), NoPolicy)
	if meant := suggest(ref, known); meant != "" {
		return policy.Policy{}, fmt.Errorf("no policy %q; did you mean %s?", short(ref), meant)
	}
	return policy.Policy{}, fmt.Errorf("no policy %q; one of: %s, or FILE#NAME", short(ref), strings.Join(known, ", "))
}

func (r *reader) fromFile(path, name string) (policy.Policy, error) {
	f, ok := r.files[path]
	if !ok {
		src, err := r.open(path)
		if err != nil {
			return policy.Policy{}, fmt.Errorf("policy file: %w", err)
		}
		if f, err = policyfile.Parse(path, src); err != nil {
			return policy.Policy{}, err
		}
		r.files[path] = f
	}
	var names []string
	for _, e := range f.Entries {
		names = append(names, e.Policy.Name)
		if e.Policy.Name == name || name == "" && len(f.Entries) == 1 {
			return e.Policy, nil
		}
	}
	if name == "" {
		return policy.Policy{}, fmt.Errorf("%s holds %d policies; which one? %s#%s", path, len(names), path, names[0])
	}
	return policy.Policy{}, fmt.Errorf("%s has no policy %q; it has: %s", path, short(name), strings.Join(names, ", "))
}
