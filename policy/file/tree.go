package file

import (
	"strings"

	"github.com/ebbhq/ebb/policy"
)

// branch is one key of a policy: a field, or a mapping of more keys. The
// tree is grown from policy.Fields, so a field is declared in one place.
type branch struct {
	key   string
	path  string
	field *policy.Field // nil for a mapping
	kids  []*branch
}

// trunk is the mapping of one policy, backoffBranch the part that a class
// rule may have too.
var (
	trunk         = grow(policy.Fields())
	backoffBranch = trunk.kid("backoff")
)

func grow(fields []policy.Field) *branch {
	root := &branch{}
	for i := range fields {
		at := root
		for _, key := range strings.Split(fields[i].Path, ".") {
			next := at.kid(key)
			if next == nil {
				next = &branch{key: key, path: join(at.path, key)}
				at.kids = append(at.kids, next)
			}
			at = next
		}
		at.field = &fields[i]
	}
	return root
}

func (b *branch) kid(key string) *branch {
	for _, k := range b.kids {
		if k.key == key {
			return k
		}
	}
	return nil
}

func (b *branch) keys() []string {
	keys := make([]string, len(b.kids))
	for i, k := range b.kids {
		keys[i] = k.key
	}
	return keys
}

// The keys of a policy that hold lists of records.
const (
	classesKey = "classes"
	waiversKey = "waivers"
)

// alias is another name for a field, taken from the systems that the seeds
// describe.
type alias struct {
	key, path string
	unit      string // appended to a plain number: "m" makes minutes of it
	doc       string
}

var aliases = []alias{
	{"max_container_restarts", "restarts.max", "", "seed 003's name of restarts.max"},
	{"error_threshold_timeout", "thresholds.timeout", "", "seed 003's name of thresholds.timeout"},
	{"error_threshold_http", "thresholds.http", "", "seed 003's name of thresholds.http"},
	{"backoff_delay_minutes", "backoff.base", "m", "seed 003's name of backoff.base, a plain number of minutes"},
}

func aliasOf(key string) (alias, bool) {
	for _, a := range aliases {
		if a.key == key {
			return a, true
		}
	}
	return alias{}, false
}

// policyKeys lists every key of a policy, aliases last.
func policyKeys() []string {
	keys := append(trunk.keys(), classesKey, waiversKey)
	for _, a := range aliases {
		keys = append(keys, a.key)
	}
	return keys
}

// shorthand is a word that may stand for a whole mapping.
type shorthand struct {
	words []string
	// sets are the fields it writes; an empty text means the word itself.
	sets []setting
}

type setting struct{ path, text string }

var shorthands = map[string]shorthand{
	"backoff.jitter": {enumOf("backoff.jitter.kind"), []setting{{"backoff.jitter.kind", ""}}},
	"budget":         {[]string{"none"}, []setting{{"budget.kind", "none"}}},
	"breaker":        {[]string{"off"}, []setting{{"breaker.consecutive", "0"}, {"breaker.ratio", "0"}}},
	"waves":          {[]string{"off"}, []setting{{"waves.count", "0"}}},
}

func enumOf(path string) []string {
	f, _ := policy.FieldAt(path)
	return f.Enum
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func lastKey(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
