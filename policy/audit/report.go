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

// Rule names what an anomaly breaks. The names are stable.
type Rule string

const (
	TooSoon   Rule = "too_soon"  // waits shorter than promised
	TooLong   Rule = "too_long"  // waits longer than promised
	Guard     Rule = "guard"     // waits shorter than the guard of the target's kind allows, whatever was promised
	Same      Rule = "same"      // waits that are the same although jitter was promised
	Spread    Rule = "spread"    // waits that do not follow the law of the jitter
	TooMany   Rule = "too_many"  // more attempts than promised
	GaveUp    Rule = "gave_up"   // fewer attempts than promised
	Retried   Rule = "retried"   // a failure was retried that must not be
	Uncounted Rule = "uncounted" // a start did not spend the attempt that it costs
	Early     Rule = "early"     // starts before their due time
	// EndedEarly are dead letters whose time ran out, and not by their own
	// deadline, before they had the attempts that were promised.
	EndedEarly Rule = "ended_early"
)

// Report is what an audit found. The promise is kept where it has no
// anomalies.
type Report struct {
	Policy  string
	Version string // of the promise
	Jobs    int
	Failed  int // failed starts
	// Foreign were decided under a version that nobody accepted; they are
	// judged by the promise.
	Foreign int
	// Ordered are not judged: handlers' own orders. Free and Unsure are judged
	// by the guard alone: starts that cost no attempt, and starts after a gap
	// in which attempts may have been given back.
	Free, Ordered, Unsure int
	Early                 int // starts before their due time
	Expired               Expired
	Groups                []Group
	Holds                 []Hold // most first
	Lag                   Lag
	Anomalies             []Anomaly
}

// Group is the waits before one try, under one schedule of one version.
type Group struct {
	Try      int
	Schedule string // "backoff", or the rule that has its own
	Version  string
	Accepted bool // the version is the promise's or an accepted one
	// Nominal, Least and Most are promised.
	Nominal, Least, Most time.Duration
	Jitter               string
	Waits                int
	Asked                int // of them with a Retry-After, tested for their band alone
	Shortest             time.Duration
	Median               time.Duration
	Longest              time.Duration
	Short, Long          int     // outside the band
	Distance             float64 // of the distribution from the jitter's law
	Chance               float64 // that a distance like that comes by chance
	Same                 int     // most waits that are the same to the millisecond
	SameAt               time.Duration
	SameChance           float64 // a bound of the chance that so many meet
}

// Hold is what gates kept back. It is no part of the waits.
type Hold struct {
	By      string
	Starts  int
	Total   time.Duration
	Longest time.Duration
}

// Lag is how long after their due time retries started, holds not counted.
type Lag struct {
	Starts         int
	P50, P99, Most time.Duration
}

// Anomaly is one way in which reality does not keep the promise.
type Anomaly struct {
	Rule  Rule
	Try   int // 0 = not of one try
	Count int // starts that show it; of EndedEarly, jobs
	Words string
	// Cause and Seqs are of EndedEarly: why the jobs are dead letters, and some
	// of them.
	Cause retry.Cause
	Seqs  []int64
}

type breachKey struct {
	rule    Rule
	version string
	note    string
}

type breach struct {
	count, most int
	shortest    time.Duration // wait, of Guard
	version     string
}

// breach notes a start that breaks the promise by itself.
func (a *Audit) breach(r Rule, s *Start, try int, note string) *breach {
	key := breachKey{rule: r, version: s.Version, note: note}
	b := a.breaches[key]
	if b == nil {
		b = &breach{version: s.Version}
		a.breaches[key] = b
	}
	b.count++
	b.most = max(b.most, try)
	return b
}

// Report sums up what was added.
func (a *Audit) Report() Report {
	r := a.report
	for _, g := range a.groups {
		g.finish()
		r.Groups = append(r.Groups, g.Group)
	}
	slices.SortFunc(r.Groups, func(x, y Group) int {
		return cmp.Or(cmp.Compare(x.Schedule, y.Schedule), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Try, y.Try))
	})
	for _, h := range a.holds {
		r.Holds = append(r.Holds, *h)
	}
	slices.SortFunc(r.Holds, func(x, y Hold) int { return cmp.Or(cmp.Compare(y.Starts, x.Starts), cmp.Compare(x.By, y.By)) })
	r.Lag = lagOf(a.lags)
	for i := range r.Groups {
		r.Anomalies = append(r.Anomalies, r.Groups[i].anomalies(len(r.Groups), a.promise)...)
	}
	r.Anomalies = append(r.Anomalies, a.breached()...)
	r.Anomalies = append(r.Anomalies, a.endedEarly()...)
	if limit := max(5, len(a.lags)/10); r.Early >= limit {
		r.Anomalies = append(r.Anomalies, Anomaly{Rule: Early, Count: r.Early, Words: fmt.Sprintf(
			"%d of %d retries started before their due time, more than a person's orders (ebb job retry) would explain", r.Early, len(a.lags))})
	}
	return r
}

func lagOf(lags []time.Duration) Lag {
	if len(lags) == 0 {
		return Lag{}
	}
	sorted := slices.Sorted(slices.Values(lags))
	return Lag{Starts: len(lags), P50: sorted[len(lags)/2], P99: sorted[len(lags)*99/100], Most: sorted[len(lags)-1]}
}

// anomalies judges one of so many groups.
func (g *Group) anomalies(groups int, promise *policy.Policy) (list []Anomaly) {
	add := func(r Rule, count int, format string, args ...any) {
		list = append(list, Anomaly{Rule: r, Try: g.Try, Count: count, Words: fmt.Sprintf("try %d: ", g.Try) + fmt.Sprintf(format, args...) + g.under(promise)})
	}
	if g.Short > 0 {
		add(TooSoon, g.Short, "%d of %d waits were shorter than promised: the shortest %s, promised at least %s",
			g.Short, g.Waits, short(g.Shortest), short(g.Least))
	}
	if g.Long > 0 {
		add(TooLong, g.Long, "%d of %d waits were longer than promised: the longest %s, promised at most %s",
			g.Long, g.Waits, short(g.Longest), short(g.Most))
	}
	chance := Alarm / float64(2*groups)
	switch {
	case g.Jitter == "no jitter":
	case g.SameChance < chance:
		add(Same, g.Same, "%d of %d waits were %s to the millisecond, promised is %s: what fails together comes back together",
			g.Same, g.Waits-g.Asked, short(g.SameAt), g.Jitter)
	case g.Chance < chance && g.Short == 0 && g.Long == 0:
		add(Spread, g.Waits-g.Asked, "%d waits from %s to %s are not spread as %s would: chance %.1g",
			g.Waits-g.Asked, short(g.Shortest), short(g.Longest), g.Jitter, g.Chance)
	}
	return list
}

// under names a version that is not the promise's own.
func (g *Group) under(promise *policy.Policy) string {
	return under(g.Version, promise)
}

func under(version string, promise *policy.Policy) string {
	switch version {
	case promise.Version:
		return ""
	case "":
		return " (decided under no known policy)"
	}
	return " (decided under version " + version + ")"
}

// breached words what single starts broke.
func (a *Audit) breached() []Anomaly {
	keys := slices.SortedFunc(maps.Keys(a.breaches), func(x, y breachKey) int {
		return cmp.Or(cmp.Compare(x.rule, y.rule), cmp.Compare(x.version, y.version), cmp.Compare(x.note, y.note))
	})
	var list []Anomaly
	for _, key := range keys {
		b := a.breaches[key]
		var words string
		switch key.rule {
		case Guard:
			words = fmt.Sprintf("%d retries were due sooner than the guard allows: the soonest after %s, %s", b.count, short(b.shortest), key.note)
		case TooMany:
			words = fmt.Sprintf("%d starts led to more attempts than promised: up to try %d, %s", b.count, b.most, key.note)
		case GaveUp:
			words = fmt.Sprintf("%d jobs were given up with attempts left: after %d, %s", b.count, b.most, key.note)
		case Retried:
			words = fmt.Sprintf("%d failures were retried that must not be: %s", b.count, key.note)
		default:
			words = fmt.Sprintf("%d starts did not spend an attempt: %s", b.count, key.note)
		}
		list = append(list, Anomaly{Rule: key.rule, Count: b.count, Words: words + under(b.version, a.promise)})
	}
	return list
}

// short writes a wait for people: milliseconds below a minute, then tenths.
func short(d time.Duration) string {
	if d < time.Minute {
		return policy.FormatDuration(d.Round(time.Millisecond))
	}
	return policy.FormatDuration(d.Round(100 * time.Millisecond))
}
