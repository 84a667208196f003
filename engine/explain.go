package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// sampleLimit is how many waiting jobs are looked at for kinds that nobody
// handles.
const sampleLimit = 200

// queueFacts is everything that the explanation of a queue is made of.
type queueFacts struct {
	now       time.Time
	state     store.QueueState
	paused    *store.AuditRow
	holder    *job.Job
	processes []store.Process
	waiting   []job.Job // the newest that wait
	lease     time.Duration
	flow      queueFlow
}

// alive reports whether others would not take the process for dead.
func (g *queueFacts) alive(p *store.Process) bool { return g.now.Sub(p.SeenAt) <= g.lease }

// kinds of the live workers that serve the queue.
func (g *queueFacts) kinds() map[string]bool {
	known := map[string]bool{}
	for i := range g.processes {
		if p := &g.processes[i]; g.alive(p) && slices.Contains(p.Queues, g.state.Name) {
			for _, k := range p.Kinds {
				known[k] = true
			}
		}
	}
	return known
}

// unhandled counts the looked-at jobs by kinds that no live worker handles.
func (g *queueFacts) unhandled() map[string]int {
	known, missing := g.kinds(), map[string]int{}
	for i := range g.waiting {
		if k := g.waiting[i].Kind; !known[k] {
			missing[k]++
		}
	}
	return missing
}

// explainQueue is pure: the same facts give the same sentences.
func explainQueue(g *queueFacts) QueueExplained {
	out := QueueExplained{Queue: queueOf(&g.state), Workers: []Worker{}}
	if g.paused != nil {
		out.PausedAt, out.PausedBy = utc(g.paused.At), g.paused.Actor
	}
	if due := g.state.DueAt; !due.IsZero() && due.Before(g.now) {
		out.Lag = g.now.Sub(due).Seconds()
	}
	if g.holder != nil {
		holder := jobOf(g.holder)
		out.Holder = &holder
	}
	for i := range g.processes {
		if p := &g.processes[i]; slices.Contains(p.Queues, g.state.Name) {
			out.Workers = append(out.Workers, g.workerOf(p))
		}
	}
	out.Reasons, out.Moves = g.reasons()
	out.Text = fmt.Sprintf("queue %s: %s\n", g.state.Name, depthWords(g.state.Counts))
	for _, r := range out.Reasons {
		out.Text += "- " + r.Text + "\n"
	}
	return out
}

func (g *queueFacts) workerOf(p *store.Process) Worker {
	return Worker{
		Process: p.ID, Host: p.Host, PID: p.PID, Kinds: slices.Sorted(slices.Values(p.Kinds)), Queues: slices.Sorted(slices.Values(p.Queues)),
		Alive: g.alive(p), HeartbeatAge: max(g.now.Sub(p.SeenAt), 0).Seconds(), SeenAt: utc(p.SeenAt), BornAt: utc(p.BornAt), Version: p.Version,
	}
}

// depthWords counts by state: "3 queued, 1 running"; empty says so.
func depthWords(counts map[job.State]int64) string {
	var parts []string
	for _, s := range job.States() {
		if n := counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return "empty"
	}
	return strings.Join(parts, ", ")
}

// reasons says what holds the queue, and whether it moves.
func (g *queueFacts) reasons() (list []Reason, moves bool) {
	say := func(code, format string, args ...any) {
		list = append(list, Reason{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	q := &g.state
	running := int(q.Counts[job.Running])
	if running > 0 {
		moves = true
		say("running", "%s running now", isWords(running, "job"))
	}
	waits := q.Counts[job.Queued] > 0
	switch {
	case !waits:
		say("idle", "no job waits")
	case q.DueAt.After(g.now):
		say("not_due", "no waiting job is due: the first may start at %s (in %s)", dueTime(g.now, q.DueAt), wait(g.now, q.DueAt))
	case !q.DueAt.IsZero():
		say("due", "the oldest due job has waited since %s (%s)", clockTime(g.now, q.DueAt), ago(g.now, q.DueAt))
	}
	blocked := g.blocks(say, waits)
	if waits && !blocked && !q.DueAt.After(g.now) {
		moves = true
		say("served", "%s: due jobs start as slots get free", serveQueueWords(g.serving()))
	}
	return list, moves
}

// blocks names what keeps waiting jobs from starting.
func (g *queueFacts) blocks(say func(code, format string, args ...any), waits bool) (blocked bool) {
	q := &g.state
	if q.Paused {
		since := ""
		if g.paused != nil {
			since = fmt.Sprintf(" since %s (%s) by order of %s", clockTime(g.now, g.paused.At), ago(g.now, g.paused.At), g.paused.Actor)
		}
		say("queue_paused", "it is paused%s; nothing starts before: ebb queue resume %s", since, q.Name)
		blocked = true
	}
	if g.holder != nil && waits {
		say("strict_busy", "it is strict, one job at a time: job %s (kind %s) has been running since %s (%s), in process %d",
			g.holder.ID(), g.holder.Kind, clockTime(g.now, g.holder.LeasedAt), ago(g.now, g.holder.LeasedAt), g.holder.Process)
		blocked = true
	}
	if g.serving() == 0 {
		if silent := len(inQueue(g.processes, q.Name)); silent > 0 {
			say("no_worker", "no live worker serves it: %s registered but silent for longer than the lease of %s", isWords(silent, "worker"), span(g.lease))
		} else {
			say("no_worker", "no live worker serves it")
		}
		g.heldWords(say)
		return true
	}
	blocked = g.unhandledWords(say) || blocked
	return g.heldWords(say) || blocked
}

// unhandledWords names kinds that wait for a worker that knows them, and
// reports whether nothing can pass them.
func (g *queueFacts) unhandledWords(say func(code, format string, args ...any)) (blocked bool) {
	missing := g.unhandled()
	of := count(len(g.waiting), "waiting job")
	if int64(len(g.waiting)) < g.state.Counts[job.Queued] {
		of = "the newest " + of
	}
	for _, kind := range slices.Sorted(maps.Keys(missing)) {
		say("no_handler", "no live worker handles kind %s: %d of %s", kind, missing[kind], of)
	}
	if head := g.head(); g.state.Strict && head != nil && missing[head.Kind] > 0 {
		say("strict_head", "it is strict and job %s, of kind %s, is first: nothing passes it", head.ID(), head.Kind)
		return true
	}
	return len(g.waiting) > 0 && total(missing) == len(g.waiting)
}

// head is the due job that a claim takes first; nil if none is due, or if not
// all that wait were looked at.
func (g *queueFacts) head() *job.Job {
	if int64(len(g.waiting)) < g.state.Counts[job.Queued] {
		return nil
	}
	var head *job.Job
	for i := range g.waiting {
		j := &g.waiting[i]
		if !j.DueAt.After(g.now) && (head == nil || cmp.Or(cmp.Compare(j.Priority, head.Priority), j.DueAt.Compare(head.DueAt), cmp.Compare(j.Seq, head.Seq)) < 0) {
			head = j
		}
	}
	return head
}

func (g *queueFacts) serving() int {
	n := 0
	for i := range g.processes {
		if p := &g.processes[i]; g.alive(p) && slices.Contains(p.Queues, g.state.Name) {
			n++
		}
	}
	return n
}

func total(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// isWords counts with the verb: "1 job is", "2 jobs are".
func isWords(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return count(n, noun) + " are"
}

func serveQueueWords(n int) string {
	if n == 1 {
		return "1 live worker serves it"
	}
	return count(n, "live worker") + " serve it"
}
