package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// queued explains a job that waits: what happened, then what it waits for.
func (t *telling) queued() {
	last := t.last()
	switch {
	case t.fresh():
		t.requeued(last)
	case last != nil && t.job.History.Starts > 0:
		t.retrying(last)
	default:
		t.say("enqueued", "was enqueued at %s and has not started yet; %s", clockTime(t.now, t.job.EnqueuedAt), t.dueWords())
	}
	t.policyChange()
	if crashes := t.job.History.Crashes; crashes >= store.SuspectCrashes {
		t.say("suspect", "it took its process down %s without progress, so it starts only when it can run alone in a process", times(crashes))
	}
	t.unique()
	blocked := t.deadline()
	blocked = t.held() || blocked
	blocked = t.kindHeld() || blocked
	blocked = t.keyHeld() || blocked
	blocked = t.served() || blocked
	var gated bool
	var until time.Time
	if !t.job.Blocked {
		var byOrder bool
		gated, byOrder, until = t.gateHeld()
		blocked = byOrder || blocked
	}
	if blocked {
		return
	}
	t.why.NextAt = later(later(t.now, utc(t.job.DueAt)), until)
	if !gated {
		t.turn()
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (t *telling) isDue() bool { return !t.job.DueAt.After(t.now) }

// dueWords says when it may start.
func (t *telling) dueWords() string {
	if t.isDue() {
		return fmt.Sprintf("due since %s (%s ago)", clockTime(t.now, t.job.DueAt), ago(t.now, t.job.DueAt))
	}
	return fmt.Sprintf("next start not before %s (in %s)", dueTime(t.now, t.job.DueAt), wait(t.now, t.job.DueAt))
}

// requeued explains a job that somebody gave fresh attempts.
func (t *telling) requeued(last *job.Attempt) {
	by := ", by a redrive or because a worker started with another configuration"
	if t.retried != nil {
		by = fmt.Sprintf(" by %s at %s", t.retried.Actor, clockTime(t.now, t.retried.At))
	}
	t.say("requeued", "was queued again with fresh attempts%s, after %s; %s", by, count(t.job.History.Starts, "start"), t.dueWords())
	if last != nil {
		t.say("last_failure", "before that it %s", t.tryWords(last))
		t.errorText()
	}
}

// retrying explains a job whose last start did not succeed.
func (t *telling) retrying(last *job.Attempt) {
	at := clockTime(t.now, last.EndedAt)
	if last.Rule == "handler/snooze" {
		t.say("snoozed", "was put off by its handler at %s for %s, which cost no attempt (%s); %s", at, span(last.Delay), t.spentWords(), t.dueWords())
		return
	}
	text := fmt.Sprintf("%s; %s decided: retry after %s", t.tryWords(last), t.ruleWords(last), span(last.Delay))
	if last.RetryAfter > 0 {
		text += fmt.Sprintf(" (the target asked for %s)", span(last.RetryAfter))
	}
	t.say("failed_attempt", "%s; %s", text, t.dueWords())
	if t.job.DueAt.Before(last.DueAt) {
		by := "an order"
		if t.retried != nil {
			by = fmt.Sprintf("an order of %s at %s", t.retried.Actor, clockTime(t.now, t.retried.At))
		}
		t.say("hastened", "%s made it due before the %s that was decided", by, dueTime(t.now, last.DueAt))
	}
	t.errorText()
}

// deadline says by when it must start, and reports whether that has passed.
func (t *telling) deadline() (passed bool) {
	at := t.job.DeadlineAt
	switch {
	case at.IsZero():
		return false
	case at.Before(t.now):
		t.say("deadline_passed", "its deadline %s passed %s ago: it will not start, and housekeeping ends it as failed (expired)", clockTime(t.now, at), ago(t.now, at))
		return true
	case at.Before(t.job.DueAt):
		t.say("deadline_passed", "its deadline %s (in %s) comes before it is due: it will not start, and ends as failed (expired)", clockTime(t.now, at), wait(t.now, at))
		return true
	}
	t.say("deadline", "it must start by its deadline %s (in %s), or it fails as expired", clockTime(t.now, at), wait(t.now, at))
	return false
}

// held names what keeps the queue back.
func (t *telling) held() (blocked bool) {
	if t.queue.Paused {
		since := ""
		if t.paused != nil {
			since = fmt.Sprintf(" since %s (%s) by order of %s", clockTime(t.now, t.paused.At), ago(t.now, t.paused.At), t.paused.Actor)
		}
		t.say("queue_paused", "queue %s is paused%s; nothing of it starts before: ebb queue resume %s", t.job.Queue, since, t.job.Queue)
		blocked = true
	}
	if t.holder != nil {
		t.say("strict_busy", "queue %s is strict, one job at a time, and job %s (kind %s) has been running since %s (%s), in process %d",
			t.job.Queue, t.holder.ID(), t.holder.Kind, clockTime(t.now, t.holder.LeasedAt), ago(t.now, t.holder.LeasedAt), t.holder.Process)
		blocked = true
	}
	return blocked
}

// served says who could run it, and reports whether nobody does.
func (t *telling) served() (blocked bool) {
	if len(t.workers()) > 0 {
		return false
	}
	live := t.live()
	switch serving := inQueue(live, t.job.Queue); {
	case len(live) == 0 && len(t.processes) > 0:
		newest := slices.MaxFunc(t.processes, func(a, b store.Process) int { return a.SeenAt.Compare(b.SeenAt) })
		t.say("no_worker", "no worker is alive: the last heartbeat came from process %d (%s) %s ago", newest.ID, newest.Host, ago(t.now, newest.SeenAt))
	case len(live) == 0:
		t.say("no_worker", "no worker is running on this store")
	case len(serving) == 0:
		t.say("no_worker", "no live worker serves queue %s; %s served: %s", t.job.Queue, areWords(queuesOf(live), "queue"), strings.Join(queuesOf(live), ", "))
	default:
		kinds := kindsOf(serving)
		t.say("no_worker", "no live worker handles kind %s; in queue %s %s handled: %s", t.job.Kind, t.job.Queue, areWords(kinds, "kind"), strings.Join(kinds, ", "))
	}
	return true
}

// turn says what else goes first.
func (t *telling) turn() {
	if !t.isDue() {
		return
	}
	n := len(t.workers())
	switch {
	case t.ahead >= aheadLimit:
		t.say("ahead", "%d or more due jobs of %s go before it, by priority, due time and order of enqueue; %s", aheadLimit, t.place(), serveWords(n))
	case t.ahead > 0:
		verb := "go"
		if t.ahead == 1 {
			verb = "goes"
		}
		t.say("ahead", "%s of %s %s before it, by priority, due time and order of enqueue; %s", count(t.ahead, "due job"), t.place(), verb, serveWords(n))
	default:
		t.say("next", "it is next in %s: it starts as soon as %s has a free slot%s", t.place(), oneOf(n), t.permitWords())
	}
}

// place is where it waits: its queue, or its target's lane there.
func (t *telling) place() string {
	if t.flow.gate == nil || t.job.Target == "" || t.queue.Strict {
		return "queue " + t.job.Queue
	}
	return fmt.Sprintf("queue %s for target %s", t.job.Queue, t.job.Target)
}

// permitWords says what else a start needs.
func (t *telling) permitWords() string {
	switch {
	case t.flow.gate == nil:
		return ""
	case t.job.Target == "":
		return " and the queue's limit has room"
	}
	return " and a permit of the target"
}

func oneOf(n int) string {
	if n == 1 {
		return "the one live worker"
	}
	return "one of " + count(n, "live worker")
}

func serveWords(n int) string {
	if n == 1 {
		return "1 live worker serves them"
	}
	return count(n, "live worker") + " serve them"
}

func areWords(list []string, noun string) string {
	if len(list) == 1 {
		return "this " + noun + " is"
	}
	return "these " + noun + "s are"
}

func inQueue(list []store.Process, queue string) []store.Process {
	return slices.DeleteFunc(slices.Clone(list), func(p store.Process) bool { return !slices.Contains(p.Queues, queue) })
}

func queuesOf(list []store.Process) []string {
	return union(list, func(p store.Process) []string { return p.Queues })
}

func kindsOf(list []store.Process) []string {
	return union(list, func(p store.Process) []string { return p.Kinds })
}

// union gathers words of processes, sorted, each once.
func union(list []store.Process, of func(store.Process) []string) []string {
	var all []string
	for _, p := range list {
		all = append(all, of(p)...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return []string{"none"}
	}
	return all
}

// running explains a job under a lease.
func (t *telling) running() {
	j := &t.job
	where := fmt.Sprintf("process %d", j.Process)
	p := t.leaseholder()
	if p != nil {
		where += fmt.Sprintf(" (pid %d on %s)", p.PID, p.Host)
	}
	since := fmt.Sprintf("%s (%s)", clockTime(t.now, j.LeasedAt), ago(t.now, j.LeasedAt))
	switch {
	case !j.Begun && t.flow.gate != nil && t.isDue() && j.History.Crashes < store.SuspectCrashes:
		t.say("claimed", "was claimed at %s by %s and has not begun: it waits there for a permit", since, where)
		t.permit()
	case j.Begun:
		t.say("running", "is in its %s, start %d, since %s in %s", t.attemptWords(j.History.Attempts+1), j.History.Starts+1, since, where)
	case j.DueAt.After(t.now) || j.History.Crashes < store.SuspectCrashes:
		t.say("kept", "waits in its slot in %s, as its policy says, and nobody else takes it: its %s is start %d; %s",
			where, t.attemptWords(j.History.Attempts+1), j.History.Starts+1, t.dueWords())
	default:
		t.say("claimed", "was claimed at %s by %s and has not begun: it took its process down %s without progress and waits there to run alone",
			since, where, times(j.History.Crashes))
	}
	t.heartbeat(p)
	if t.cancelled != nil {
		t.say("cancel_ordered", "its cancellation was ordered by %s at %s: its handler is told with the process's next heartbeat, and it will not run again",
			t.cancelled.Actor, clockTime(t.now, t.cancelled.At))
	}
	if j.Begun && t.policy != nil && t.policy.Timeout > 0 {
		t.say("timeout", "it may run until about %s (timeout %s of policy %s@%s); then it counts as timed out",
			clockTime(t.now, j.LeasedAt.Add(t.policy.Timeout)), span(t.policy.Timeout), t.policy.Name, t.policy.Version)
	}
	if last := t.last(); last != nil && last.Counted != "" {
		t.earlier(last)
	}
	t.policyChange()
}

func (t *telling) earlier(last *job.Attempt) {
	if last.Rule == "handler/snooze" {
		return
	}
	t.say("last_failure", "before that it %s", t.tryWords(last))
	t.errorText()
}

// heartbeat says whether whoever holds the lease is alive.
func (t *telling) heartbeat(p *store.Process) {
	if p == nil {
		t.say("process_gone", "process %d is not registered any more: its jobs are being taken back", t.job.Process)
		return
	}
	age := max(t.now.Sub(p.SeenAt), 0)
	if age <= t.lease {
		t.say("heartbeat", "that process was last heard of %s ago", ago(t.now, p.SeenAt))
		return
	}
	counts := "the policy's rule for crashes decides then"
	if !t.job.Begun {
		counts = "it has not begun, so that costs nothing"
	}
	t.say("heartbeat_lost", "that process was last heard of %s ago, longer than its lease of %s: any live worker takes the job back; %s", ago(t.now, p.SeenAt), span(t.lease), counts)
}
