package telemetry

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// other is the label of everything beyond the limit.
const other = "other"

// names bounds the values of a label: whoever comes first keeps its name,
// for as long as the process lives, and all beyond the limit share one.
type names struct {
	limit  int
	folded prometheus.Counter // uses of a name that was too many

	mu   sync.Mutex
	seen map[string]bool
}

func newNames(limit int, folded prometheus.Counter) *names {
	return &names{limit: limit, folded: folded, seen: make(map[string]bool)}
}

// fold returns the name as it may stand in a label.
func (n *names) fold(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.seen[name]:
		return valid(name)
	case len(n.seen) < n.limit:
		n.seen[name] = true
		return valid(name)
	}
	n.folded.Inc()
	return other
}

// valid makes any bytes a label: a wrong one would take the scrape down.
func valid(name string) string { return strings.ToValidUTF8(name, "�") }
