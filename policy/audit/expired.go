package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// maxNamed is how many jobs an anomaly names.
const maxNamed = 5

// Expiry is a dead letter that ended because its time ran out, not its
// attempts.
type Expiry struct {
	Seq        int64
	Attempts   int       // spent since it was enqueued or redriven last
	Starts     []Start   // its ledger, in its order; nil = it never started
	Version    string    // of the policy that decided last; empty = none did
	EndedAt    time.Time // when it became a dead letter
	DeadlineAt time.Time // its own deadline; zero = none
}

// Expired is what became of dead letters whose time ran out.
type Expired struct {
	Jobs int
	// ByDeadline and ByWindow kept the promise: the job's own deadline and the
	// policy's window are parts of it.
	ByDeadline, ByWindow int
}

// unkept are jobs that ended with attempts left.
type unkept struct {
	count, untried int
	least, most    int // attempts that they had
	named          []int64
}

// unkeptKey tells them apart by what was promised.
type unkeptKey struct {
	version  string
	attempts int
}

// AddExpired takes in a dead letter whose time ran out.
func (a *Audit) AddExpired(e Expiry) {
	promise := a.accepted[e.Version]
	if promise == nil {
		promise = a.promise
	}
	r := &a.report.Expired
	r.Jobs++
	life := e.life()
	switch {
	case e.ownDeadline(life):
		r.ByDeadline++
		return
	case promise.Window > 0 && len(life) > 0 && !e.EndedAt.Before(life[0].StartedAt.Add(promise.Window)):
		r.ByWindow++
		return
	case promise.Attempts > 0 && e.Attempts >= promise.Attempts:
		return // it had them all
	}
	key := unkeptKey{attempts: promise.Attempts}
	if promise != a.promise {
		key.version = promise.Version
	}
	u := a.unkept[key]
	if u == nil {
		u = &unkept{least: e.Attempts}
		a.unkept[key] = u
	}
	u.count++
	u.least, u.most = min(u.least, e.Attempts), max(u.most, e.Attempts)
	if len(life) == 0 {
		u.untried++
	}
	if len(u.named) < maxNamed {
		u.named = append(u.named, e.Seq)
	}
}

// life are the starts since the job was enqueued or redriven last: those after
// the last one that had ended it before.
func (e *Expiry) life() []Start {
	for i := len(e.Starts) - 1; i >= 0; i-- {
		s := &e.Starts[i]
		if ended := !s.OK && s.DueAt.IsZero(); ended && e.EndedAt.Sub(s.EndedAt) > writing {
			return e.Starts[i+1:]
		}
	}
	if from := freshFrom(&Job{Attempts: e.Attempts, Starts: e.Starts}); from >= 0 {
		return e.Starts[from:]
	}
	return e.Starts
}

// ownDeadline reports whether the job's own deadline ended it: it had passed,
// or the next try would have come after it.
func (e *Expiry) ownDeadline(life []Start) bool {
	if e.DeadlineAt.IsZero() {
		return false
	}
	return !e.EndedAt.Before(e.DeadlineAt) || len(life) > 0 && life[len(life)-1].Rule == "deadline"
}

// endedEarly words jobs that ended with attempts left.
func (a *Audit) endedEarly() []Anomaly {
	keys := slices.SortedFunc(maps.Keys(a.unkept), func(x, y unkeptKey) int {
		return cmp.Or(cmp.Compare(x.version, y.version), cmp.Compare(x.attempts, y.attempts))
	})
	var list []Anomaly
	for _, key := range keys {
		u := a.unkept[key]
		promised := fmt.Sprintf("promised are %d", key.attempts)
		if key.attempts == 0 {
			promised = "promised is one try after the other until the window of " + policy.FormatDuration(a.window(key.version)) + " is over"
		}
		words := u.words(promised)
		if key.version != "" {
			words += under(key.version, a.promise)
		}
		list = append(list, Anomaly{Rule: EndedEarly, Count: u.count, Words: words, Cause: retry.CauseExpired, Seqs: u.named})
	}
	return list
}

// words tells of the jobs and what they had.
func (u *unkept) words(promised string) string {
	if u.count == 1 {
		words := fmt.Sprintf("1 job became a dead letter (%s) with attempts left: %s, it had %d", retry.CauseExpired, promised, u.most)
		if u.untried == 1 {
			words += "; it never started"
		}
		return words
	}
	had := fmt.Sprint(u.most)
	if u.least < u.most {
		had = fmt.Sprintf("%d to %d", u.least, u.most)
	}
	words := fmt.Sprintf("%d jobs became dead letters (%s) with attempts left: %s, they had %s", u.count, retry.CauseExpired, promised, had)
	if u.untried > 0 {
		words += fmt.Sprintf("; %d of them never started", u.untried)
	}
	return words
}

func (a *Audit) window(version string) time.Duration {
	if p := a.accepted[version]; p != nil {
		return p.Window
	}
	return a.promise.Window
}
