package worker

import (
	"strconv"
	"strings"

	"github.com/ebbhq/ebb/store"
)

// identity tells a process from every other: a pid alone is given to another
// process sooner or later, and other hosts and containers give the same ones.
type identity struct {
	// place is where pids and start times mean the same: one boot of one host,
	// one pid namespace, one time namespace. Empty = not known.
	place string
	pid   int
	start uint64 // when the process began, in the kernel's ticks
}

// text is the identity as the store keeps it, next to the pid.
func (i identity) text() string {
	if i.place == "" {
		return ""
	}
	return i.place + "/" + strconv.FormatUint(i.start, 10)
}

// identityOf reads the identity of a registered process; one that is not known
// has no place.
func identityOf(p *store.Process) identity {
	place, start, _ := strings.Cut(p.Identity, "/")
	ticks, err := strconv.ParseUint(start, 10, 64)
	if err != nil || p.PID <= 0 {
		return identity{}
	}
	return identity{place, p.PID, ticks}
}

// sighting is what the kernel says about a pid now. The zero value is that it
// says nothing.
type sighting struct {
	presence presence
	start    uint64 // of the process that has the pid
	ended    bool   // all of it has ended; only its parent has not asked how
}

type presence int

const (
	unknown presence = iota
	absent           // nobody has the pid
	present
)

// isGone reports whether the process is known to have ended, as seen from the
// process own, which can look at pids of its own place alone. Any doubt means
// no: then the lease decides.
func (i identity) isGone(own identity, look func(pid int) sighting) bool {
	if i.place == "" || i.place != own.place {
		return false
	}
	switch seen := look(i.pid); seen.presence {
	case absent:
		return true
	case present:
		return seen.start != i.start || seen.ended
	}
	return false
}
