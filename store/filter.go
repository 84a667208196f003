package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// String tells what the filter selects, for people: the audit keeps it.
func (f Filter) String() string {
	var parts []string
	if f.State != "" {
		parts = append(parts, string(f.State))
	}
	say := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	say("queue", f.Queue)
	say("kind", f.Kind)
	say("target", f.Target)
	say("cause", string(f.Cause))
	if f.Class != failure.Unknown {
		say("class", f.Class.String())
	}
	say("batch", f.Batch)
	say("fingerprint", f.Fingerprint)
	say("key with", f.Key)
	if !f.Since.IsZero() {
		say("since", f.Since.UTC().Format(time.RFC3339))
	}
	if !f.Until.IsZero() {
		say("until", f.Until.UTC().Format(time.RFC3339))
	}
	if n := len(f.Seqs); n > 0 {
		say("by id", fmt.Sprint(n))
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}
