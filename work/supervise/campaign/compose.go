package campaign

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ebbhq/ebb/work/supervise"
)

// manner is how a crawler takes scope rules and seeds.
type manner struct {
	include, exclude string // flag; the expressions become one where joined
	joined           bool
	before           string // put before each expression
	seed             string // flag before each seed; empty = plain arguments at the end
	also             []string
}

// mannerOf knows the crawler of a command; false if nothing is known of it.
func mannerOf(c supervise.Command) (manner, bool) {
	switch program(c) {
	case "wget":
		return manner{include: "--accept-regex", exclude: "--reject-regex", joined: true, also: []string{"--regex-type=pcre"}}, true
	case "browsertrix-crawler", "zimit":
		return manner{include: "--include", exclude: "--exclude", seed: "--url"}, true
	case "ebb-fetch":
		return manner{include: "--include", exclude: "--exclude", before: "regexp:"}, true
	}
	return manner{}, false
}

// program names what a command runs, as far as it is known: also inside a
// shell's or a container's command line.
func program(c supervise.Command) string {
	words := words(c)
	for i, w := range words {
		base := filepath.Base(w)
		base, _, _ = strings.Cut(base, ":") // an image's tag
		switch {
		case base == "wget" || base == "zimit" || base == "browsertrix-crawler" || base == "httrack":
			return base
		case base == "crawl" && i == 0:
			return "browsertrix-crawler"
		case base == "ebb" && i+1 < len(words) && words[i+1] == "fetch":
			return "ebb-fetch"
		}
	}
	return ""
}

// words are those of the command, with a shell's script split into its own.
func words(c supervise.Command) []string {
	var list []string
	for _, g := range c {
		for _, w := range g {
			list = append(list, split(list, w)...)
		}
	}
	return list
}

// split is one word, or those of the script of sh -c.
func split(before []string, w string) []string {
	n := len(before)
	if n >= 2 && before[n-1] == "-c" && slices.Contains([]string{"sh", "bash", "dash"}, filepath.Base(before[n-2])) {
		return strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(" \t\n'\";", r) })
	}
	return []string{w}
}

// crosses reports whether the crawler follows links to any host.
func crosses(c supervise.Command) bool {
	list := words(c)
	switch program(c) {
	case "wget":
		bounded := slices.ContainsFunc(list, func(w string) bool {
			return strings.HasPrefix(w, "--domains") || strings.HasPrefix(w, "-D") || strings.HasPrefix(w, "--accept-regex")
		})
		return !bounded && slices.ContainsFunc(list, func(w string) bool {
			return w == "--span-hosts" || short(w, 'H')
		})
	case "browsertrix-crawler", "zimit":
		for i, w := range list {
			if w == "--scopeType=any" || w == "--scopeType" && i+1 < len(list) && list[i+1] == "any" {
				return true
			}
		}
	}
	return false
}

// short reports whether a word of short flags, such as -rH, has this one.
func short(w string, flag rune) bool {
	return len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.ContainsRune(w, flag)
}

var errScope = errors.New("scope: nothing in the command heeds it; place {include} or {exclude} in it")

// compose puts year, source, seeds and scope into the command.
func (c *Campaign) compose(spec *supervise.Spec, s *Source, year int) error {
	include := append(slices.Clone(c.Scope.Include), s.Scope.Include...)
	exclude := append(slices.Clone(c.Scope.Exclude), s.Scope.Exclude...)
	plain := strings.NewReplacer("{year}", strconv.Itoa(year), "{source}", s.Name, "{run}", spec.Name)
	vars := map[string]string{"{include}": oneOf(include), "{exclude}": oneOf(exclude)}
	m, known := mannerOf(spec.Command)
	placed, seeded := false, false
	var out supervise.Command
	for _, g := range spec.Command {
		next, left := supervise.Group(nil), false
		for _, w := range g {
			if w == "{seeds}" {
				seeded = true
				next = append(next, s.Seeds...)
				continue
			}
			for name, value := range vars {
				if strings.Contains(w, name) {
					placed, left = true, left || value == ""
					w = strings.ReplaceAll(w, name, value)
				}
			}
			next = append(next, plain.Replace(w))
		}
		if !left && len(next) > 0 {
			out = append(out, next)
		}
	}
	if !placed && len(include)+len(exclude) > 0 {
		if !known {
			return errScope
		}
		out = append(out, m.scope(include, exclude)...)
	}
	if !seeded {
		for _, seed := range s.Seeds {
			if m.seed != "" {
				out = append(out, supervise.Group{m.seed})
			}
			out = append(out, supervise.Group{seed})
		}
	}
	spec.Command = out
	spec.Dir, spec.Cwd = plain.Replace(spec.Dir), plain.Replace(spec.Cwd)
	if len(spec.Env) > 0 {
		env := map[string]string{}
		for key, value := range spec.Env {
			env[key] = plain.Replace(value)
		}
		spec.Env = env
	}
	return nil
}

// scope are the crawler's own flags.
func (m *manner) scope(include, exclude []string) supervise.Command {
	var list supervise.Command
	for _, part := range []struct {
		flag  string
		rules []string
	}{{m.include, include}, {m.exclude, exclude}} {
		rules := part.rules
		if m.joined && len(rules) > 1 {
			rules = []string{oneOf(rules)}
		}
		for _, r := range rules {
			list = append(list, supervise.Group{part.flag + "=" + m.before + r})
		}
	}
	for _, w := range m.also {
		list = append(list, supervise.Group{w})
	}
	return list
}

// oneOf joins expressions into one.
func oneOf(rules []string) string {
	if len(rules) < 2 {
		return strings.Join(rules, "")
	}
	return "(" + strings.Join(rules, "|") + ")"
}
