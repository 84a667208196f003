package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// gateLimit is how many targets of waiting jobs are asked.
const gateLimit = 50

// queueFlow is what may hold jobs of a queue back beyond the queue itself.
type queueFlow struct {
	kinds map[string]*store.AuditRow // paused ones; nil = by whom is not known
	gates map[string]guard           // of the looked-at jobs, by name
}

// guard is a gate with the figures it is asked by.
type guard struct {
	row    store.Gate
	config gate.Config
	order  *store.AuditRow
}

// gatherQueueFlow reads paused kinds and the gates of the looked-at jobs.
func (e *Engine) gatherQueueFlow(ctx context.Context, g *queueFacts, rows []store.AuditRow) error {
	paused, err := e.store.PausedKinds(ctx)
	if err != nil {
		return err
	}
	g.flow.kinds = map[string]*store.AuditRow{}
	for _, k := range paused {
		g.flow.kinds[k] = firstPause(rows, "kind", k)
	}
	targets := map[string]bool{}
	for i := range g.waiting {
		if t := gateName(&g.waiting[i], &g.state.QueueRule); t != "" && len(targets) < gateLimit {
			targets[t] = true
		}
	}
	if len(targets) == 0 {
		return nil
	}
	list, err := e.store.Gates(ctx, slices.Sorted(maps.Keys(targets)))
	if err != nil {
		return err
	}
	g.flow.gates = map[string]guard{}
	for _, row := range list {
		config, _ := e.limits(&row, g.state.Limit)
		g.flow.gates[row.Target] = guard{row: row, config: config, order: pauseOrder(rows, row.Target)}
	}
	return nil
}

// stuck are the looked-at jobs that are due and kept back, by what keeps them.
type stuck struct {
	byKind   map[string]int
	byGate   map[string]int
	blocked  int
	moving   int // due, and kept back by nothing of this
	earliest map[string]hold
}

// sift tells the looked-at due jobs apart by what keeps them back.
func (g *queueFacts) sift() stuck {
	out := stuck{byKind: map[string]int{}, byGate: map[string]int{}, earliest: map[string]hold{}}
	for i := range g.waiting {
		j := &g.waiting[i]
		_, kindPaused := g.flow.kinds[j.Kind]
		guard, guarded := g.flow.gates[gateName(j, &g.state.QueueRule)]
		switch {
		case j.Blocked:
			out.blocked++
		case j.DueAt.After(g.now):
		case kindPaused:
			out.byKind[j.Kind]++
		case guarded && g.gateHolds(&guard, j, &out):
			out.byGate[guard.row.Target]++
		default:
			out.moving++
		}
	}
	return out
}

// gateHolds reports whether the gate holds the job. It remembers the first
// hold of each gate, one of all work before one of retries alone.
func (g *queueFacts) gateHolds(guard *guard, j *job.Job, out *stuck) bool {
	retry := store.Retrying(j.History)
	h := newHold(&guard.row, guard.config, guard.order, retry, g.now)
	if !h.holds() {
		return false
	}
	if _, known := out.earliest[guard.row.Target]; !known || !retry {
		out.earliest[guard.row.Target] = h
	}
	return true
}

// heldWords names what keeps due jobs back, and reports whether all of them
// are kept.
func (g *queueFacts) heldWords(say func(code, format string, args ...any)) (all bool) {
	if l := g.state.Limit; l != (store.QueueLimit{}) {
		say("limited", "it is limited over all processes to %s", limitWords(l))
	}
	s := g.sift()
	of := count(len(g.waiting), "waiting job")
	if int64(len(g.waiting)) < g.state.Counts[job.Queued] {
		of = "the newest " + of
	}
	for _, kind := range slices.Sorted(maps.Keys(s.byKind)) {
		by := ""
		if o := g.flow.kinds[kind]; o != nil {
			by = fmt.Sprintf(" since %s (%s) by order of %s", clockTime(g.now, o.At), ago(g.now, o.At), o.Actor)
		}
		say("kind_paused", "kind %s is paused%s, %d of %s: ebb kind resume %s", kind, by, s.byKind[kind], of, shell(kind))
	}
	const most = 10
	names := slices.Sorted(maps.Keys(s.byGate))
	for i, name := range names {
		if i == most {
			say("held", "%s more hold jobs back: ebb target list", count(len(names)-most, "target"))
			break
		}
		h := s.earliest[name]
		code, text := h.tell()
		say(code, "%s; %d of %s", text, s.byGate[name], of)
	}
	if s.blocked > 0 {
		say("behind_key", "behind an earlier job of their key: %d of %s", s.blocked, of)
	}
	return s.moving == 0 && s.blocked+len(s.byKind)+len(s.byGate) > 0
}

// limitWords says "5 jobs at once and 10 starts a second".
func limitWords(l store.QueueLimit) string {
	switch {
	case l.Rate == 0:
		return count(l.Concurrency, "job") + " at once"
	case l.Concurrency == 0:
		return fmt.Sprintf("%g starts a second", l.Rate)
	}
	return fmt.Sprintf("%s at once and %g starts a second", count(l.Concurrency, "job"), l.Rate)
}
