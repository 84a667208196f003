package engine

import (
	"strings"
	"unicode/utf8"
)

// Most bytes of names. They are entries of indexes, labels of metrics and
// cells of tables; every database bounds them somewhere, and not alike.
const (
	maxName = 255 // kinds, queues, policies, schedules
	maxLong = 768 // targets, keys, batches, traces
)

// checkName refuses what cannot be the name of anything, in words.
func checkName(what, name string, most int) error {
	switch {
	case name == "":
		return invalid("%s: the name is empty", what)
	case len(name) > most:
		return invalid("%s: %.20q…: has %d bytes, at most %d", what, name, len(name), most)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return invalid("%s: %q: must be UTF-8 without zero bytes", what, name)
	}
	return nil
}

// checkNames refuses a job with names that are too long; what else is wrong
// with them the store says.
func (n *NewJob) checkNames() error {
	for _, f := range []struct {
		name, text string
		most       int
	}{
		{"kind", n.Kind, maxName},
		{"queue", n.Queue, maxName},
		{"policy", n.Policy, maxName},
		{"target", n.Target, maxLong},
		{"key", n.Key, maxLong},
		{"unique", n.Unique, maxLong},
		{"batch", n.Batch, maxLong},
		{"trace", n.Trace, maxLong},
	} {
		if len(f.text) > f.most {
			return invalid("enqueue: %s %.20q…: has %d bytes, at most %d", f.name, f.text, len(f.text), f.most)
		}
	}
	return nil
}

// checkNames refuses a filter by what nothing can be called.
func (f *Filter) checkNames() error {
	for _, of := range []struct{ name, text string }{
		{"kind", f.Kind},
		{"queue", f.Queue},
		{"target", f.Target},
		{"batch", f.Batch},
		{"fingerprint", f.Fingerprint},
		{"key", f.Key},
	} {
		if of.text == "" {
			continue
		}
		if err := checkName(of.name, of.text, maxLong); err != nil {
			return err
		}
	}
	return nil
}
