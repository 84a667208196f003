// Package scope answers "does this URL belong to the fetch?": the one spelling
// of a URL, the links of a document, and the rules that let a URL in. There
// are no caps of pages or depth: what ends a crawl is its rules.
package scope

// Scope is a set of rules. The zero value takes every http and https URL.
type Scope struct {
	include, exclude []compiled
}

type compiled struct {
	rule  Rule
	match matcher
}

// New checks the rules. A URL is in scope when no exclude rule matches it and
// an include rule does; without include rules, everything not excluded is.
func New(rules ...Rule) (*Scope, error) {
	s := &Scope{}
	for _, r := range rules {
		match, err := r.compile()
		if err != nil {
			return nil, err
		}
		if r.Exclude {
			s.exclude = append(s.exclude, compiled{r, match})
		} else {
			s.include = append(s.include, compiled{r, match})
		}
	}
	return s, nil
}

// HostsOf returns the rules of a crawl that was given none: the hosts of its
// seeds, with their ports.
func HostsOf(seeds ...string) []Rule {
	var rules []Rule
	seen := make(map[string]bool)
	for _, seed := range seeds {
		host := Host(seed)
		if !seen[host] {
			seen[host] = true
			rules = append(rules, Rule{Kind: KindHost, Text: host})
		}
	}
	return rules
}

// Verdict is the answer for one URL, with the rule that gave it.
type Verdict struct {
	In   bool
	Rule string // "" when no rule matched
}

func (v Verdict) String() string {
	switch {
	case v.In && v.Rule == "":
		return "in scope: there are no include rules"
	case v.In:
		return "in scope by rule " + v.Rule
	case v.Rule == "":
		return "out of scope: no include rule matches"
	}
	return "out of scope by rule " + v.Rule
}

// Ask tells whether a URL in normal form is in scope.
func (s *Scope) Ask(url string) Verdict {
	for _, c := range s.exclude {
		if c.match(url) {
			return Verdict{Rule: c.rule.String()}
		}
	}
	for _, c := range s.include {
		if c.match(url) {
			return Verdict{In: true, Rule: c.rule.String()}
		}
	}
	return Verdict{In: len(s.include) == 0}
}
