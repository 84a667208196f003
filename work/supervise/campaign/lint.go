package campaign

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebbhq/ebb/work/supervise"
)

// instead is what every cap is answered with.
const instead = "a cap ends the crawl early and looks like success; bound it by scope rules"

// caps are names of keys and of long flags that end a crawl early, without
// case, "-" and "_". The value that means "none" is allowed.
var caps = map[string][]string{
	"level":                {"inf", "0"}, // wget, curl-likes
	"quota":                {"0", "inf"},
	"limit":                {"0"},
	"pagelimit":            {"0"},
	"pageslimit":           {"0"},
	"maxpagelimit":         {"0"},
	"maxpages":             {"0"},
	"maxpage":              {"0"},
	"depth":                {"-1", "inf"},
	"maxdepth":             {"-1", "inf"},
	"depthlimit":           {"0"},
	"maxlevel":             {"inf"},
	"sizelimit":            {"0"},
	"timelimit":            {"0"},
	"sizehardlimit":        {"0"},
	"sizesoftlimit":        {"0"},
	"timehardlimit":        {"0"},
	"timesoftlimit":        {"0"},
	"maxfiles":             {"0"},
	"maxurls":              {"0"},
	"maxsize":              {"0"},
	"maxtime":              {"0"},
	"closespiderpages":     {"0"},
	"maxcrawlduration":     {"0"},
	"maxpagespercrawl":     {"0"},
	"maxrequests":          {"0"},
	"closespiderpagecount": {"0"},
	"closespideritemcount": {"0"},
	"closespidertimeout":   {"0"},
	"maxrequestspercrawl":  {"0"},
	"pagecount":            {"0"},
	"crawllimit":           {"0"},
	"maxhops":              {"-1"},
}

func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// capOf tells whether a name and its value cap a crawl.
func capOf(name, value string) bool {
	none, ok := caps[fold(name)]
	return ok && !slices.Contains(none, value)
}

// capKeys finds caps among the keys of the file and of its sources.
func (d *document) capKeys() {
	for _, doc := range d.tree.Docs {
		d.capsOf(doc.Body)
	}
}

func (d *document) capsOf(n ast.Node) {
	for _, pair := range pairs(n) {
		name := pair.Key.String()
		if _, ok := caps[fold(name)]; ok {
			p := pair.Key.GetToken().Position
			d.found = append(d.found, Finding{d.name, p.Line, p.Column, "cap", fmt.Sprintf("%s: %s", name, instead)})
		}
		if list, ok := pair.Value.(*ast.SequenceNode); ok && name == "sources" {
			for _, source := range list.Values {
				d.capsOf(source)
			}
		}
		if name == "scope" {
			d.capsOf(pair.Value)
		}
	}
}

func pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// flagAt is a word of a command and where it stands.
type flagAt struct {
	path string
	word string
}

// capFlags finds caps among the flags of a command.
func (d *document) capFlags(at string, c supervise.Command) {
	var list []flagAt
	var before []string
	for i, g := range c {
		for k, w := range g {
			path := fmt.Sprintf("%s[%d]", at, i)
			if len(g) > 1 {
				path = fmt.Sprintf("%s[%d]", path, k)
			}
			parts := split(before, w)
			for _, part := range parts {
				list = append(list, flagAt{path, part})
			}
			before = append(before, parts...)
		}
	}
	if len(list) == 0 { // the run says that there is nothing to run
		return
	}
	known := program(c)
	if filepath.Base(list[0].word) == "timeout" {
		d.wrong(list[0].path, "cap", "timeout: %s", instead)
	}
	for i, f := range list {
		next := ""
		if i+1 < len(list) {
			next = list[i+1].word
		}
		if name := capFlag(known, f.word, next); name != "" {
			d.wrong(f.path, "cap", "%s: %s", name, instead)
		}
	}
	if known == "wget" && shallow(before) {
		d.wrong(at, "cap", "wget --recursive without --level=inf stops at depth 5: %s", instead)
	}
}

// capFlag names the cap that a word is, with the next one as its value; empty
// if it is none.
func capFlag(known, word, next string) string {
	if long, ok := strings.CutPrefix(word, "--"); ok {
		name, value, given := strings.Cut(long, "=")
		if !given {
			value = next
		}
		if known == "wget" {
			name = wgetLong(name)
			if name == "execute" {
				return wgetrc(value)
			}
		}
		if capOf(name, value) {
			return "--" + name + " " + value
		}
		return ""
	}
	if known == "wget" {
		return wgetShort(word, next)
	}
	if name, value, ok := strings.Cut(word, "="); ok && strings.ToUpper(name) == name && capOf(name, value) {
		return word // a setting, such as scrapy's -s DEPTH_LIMIT=3
	}
	if known == "httrack" && len(word) > 2 && (word[:2] == "-r" || word[:2] == "-m") && word[2] >= '0' && word[2] <= '9' {
		return word
	}
	return ""
}

// wgetLong completes the abbreviations that wget accepts.
func wgetLong(name string) string {
	for full, least := range map[string]int{"level": 2, "quota": 3, "execute": 3} {
		if len(name) >= least && strings.HasPrefix(full, name) {
			return full
		}
	}
	return name
}

// wgetValued are wget's short flags that take a value.
const wgetValued = "aoeiBtOTwQPlARDIXU"

// wgetShort looks through a word of short flags, such as -rl3.
func wgetShort(word, next string) string {
	if len(word) < 2 || word[0] != '-' || word[1] == '-' {
		return ""
	}
	for i := 1; i < len(word); i++ {
		if !strings.ContainsRune(wgetValued, rune(word[i])) {
			continue
		}
		value := word[i+1:]
		if value == "" {
			value = next
		}
		switch {
		case word[i] == 'l' && capOf("level", value):
			return "-l " + value
		case word[i] == 'Q' && capOf("quota", value):
			return "-Q " + value
		case word[i] == 'e':
			return wgetrc(value)
		}
		return ""
	}
	return ""
}

// wgetrc looks at a command of wget's own file, such as quota=5m.
func wgetrc(text string) string {
	name, value, _ := strings.Cut(text, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if folded := fold(name); folded == "reclevel" && capOf("level", value) || folded == "quota" && capOf("quota", value) {
		return "-e " + name + "=" + value
	}
	return ""
}

// shallow reports a recursive wget that nobody told how deep to go.
func shallow(list []string) bool {
	recursive, deep := false, false
	for i, w := range list {
		next := ""
		if i+1 < len(list) {
			next = list[i+1]
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		switch {
		case strings.HasPrefix(w, "--"):
			recursive = recursive || name == "recursive"
			deep = deep || wgetLong(name) == "level" || name == "mirror" || name == "execute" && strings.Contains(w+next, "reclevel")
		case len(w) > 1 && w[0] == '-':
			flags := w[1:]
			if n := strings.IndexAny(flags, wgetValued); n >= 0 {
				deep = deep || flags[n] == 'l' || flags[n] == 'e' && strings.Contains(w+next, "reclevel")
				flags = flags[:n]
			}
			recursive = recursive || strings.ContainsRune(flags, 'r')
			deep = deep || strings.ContainsRune(flags, 'm')
		}
	}
	return recursive && !deep
}
