package crashtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// truth is a small case in which every promise is kept: a quick job, and one
// whose first worker was killed after its handler had finished.
func truth() Case {
	wall := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	at := func(seconds int, what What, process, seq, epoch int64, start int, text string) Event {
		d := time.Duration(seconds) * time.Second
		return Event{Mono: d, Wall: wall.Add(d), What: what, Process: process, Ref: store.Ref{Seq: seq, Epoch: epoch}, Start: start, Text: text}
	}
	first := &Life{Number: 1, Killed: true, EndedAt: 5 * time.Second, Events: []Event{
		at(0, Registered, 1, 0, 0, 0, ""),
		at(1, Claimed, 1, 7, 1, 0, ""),
		at(1, Beat, 1, 0, 0, 0, fmt.Sprint(int64(time.Second))),
		at(2, Started, 1, 7, 1, 1, "again"),
		at(3, Ended, 1, 7, 1, 1, "ok"),
	}}
	second := &Life{Number: 2, EndedAt: 20 * time.Second, Events: []Event{
		at(1, Registered, 2, 0, 0, 0, ""),
		at(2, Claimed, 2, 8, 1, 0, ""),
		at(2, Started, 2, 8, 1, 1, "once"),
		at(3, Ended, 2, 8, 1, 1, "ok"),
		at(4, Settled, 2, 8, 1, 1, "succeeded"),
		at(8, Reaped, 1, 0, 0, 0, ""),
		at(9, Claimed, 2, 7, 2, 0, ""),
		at(9, Started, 2, 7, 2, 2, "again"),
		at(10, Ended, 2, 7, 2, 2, "ok"),
		at(11, Settled, 2, 7, 2, 2, "succeeded"),
		at(19, Stopped, 2, 0, 0, 0, ""),
	}}
	again, once := Order{Name: "again", Kind: Quick}, Order{Name: "once", Kind: Quick}
	kept := func(seq int64, o Order, starts int) job.Job {
		return job.Job{Seq: seq, New: o.New(), State: job.Succeeded, Result: []byte(o.Name), Epoch: int64(starts), History: retry.History{Starts: starts, Attempts: 1}}
	}
	return Case{
		Acked: map[int64]Order{7: again, 8: once}, Maybe: map[string]Order{}, Lives: []*Life{first, second}, Lease: 2 * time.Second,
		Account: Account{
			Jobs: map[int64]job.Job{7: kept(7, again, 2), 8: kept(8, once, 1)},
			Ledger: map[int64][]job.Attempt{
				7: {
					{Seq: 7, Start: 1, Epoch: 1, Process: 1, Class: failure.Crash, Counted: retry.CountedFree, DueAt: wall.Add(8 * time.Second)},
					{Seq: 7, Start: 2, Epoch: 2, Process: 2, OK: true},
				},
				8: {{Seq: 8, Start: 1, Epoch: 1, Process: 2, OK: true}},
			},
			Counts: map[job.State]int64{job.Succeeded: 2},
		},
	}
}

func TestJudgeAcceptsTheTruth(t *testing.T) {
	report, broken := Judge(truth())
	if len(broken) > 0 {
		t.Errorf("complaints about a case in which all is well:\n%s", strings.Join(broken, "\n"))
	}
	want := Report{Jobs: 2, Lives: 2, Kills: 1, Starts: 3, Crashes: 1, Duplicates: 1}
	if report != want {
		t.Errorf("got %+v, want %+v", report, want)
	}
}

// Each lie is one broken promise that the judge must see.
func TestJudgeSeesEveryLie(t *testing.T) {
	event := func(c *Case, life int, what What, seq int64) *Event {
		l := c.Lives[life]
		return &l.Events[slices.IndexFunc(l.Events, func(e Event) bool { return e.What == what && e.Seq == seq })]
	}
	drop := func(c *Case, life int, what What, seq int64) {
		l := c.Lives[life]
		l.Events = slices.DeleteFunc(l.Events, func(e Event) bool { return e.What == what && e.Seq == seq })
	}
	change := func(c *Case, seq int64, f func(*job.Job)) {
		j := c.Jobs[seq]
		f(&j)
		c.Jobs[seq] = j
	}
	for _, lie := range []struct {
		name string
		tell func(c *Case)
		want string
	}{
		{"a job is lost", func(c *Case) { delete(c.Jobs, 8); c.Counts[job.Succeeded]-- }, "job 8: once was acknowledged and is lost"},
		{"a job was never enqueued", func(c *Case) { delete(c.Acked, 8) }, "job 8: once was never enqueued"},
		{"a job ran that was not enqueued", func(c *Case) { event(c, 1, Started, 8).Text = "other" }, `ran as "other"`},
		{"one order became two jobs", func(c *Case) {
			c.Jobs[9] = c.Jobs[8]
			c.Counts[job.Succeeded]++
		}, "once is job"},
		{"a job did not end", func(c *Case) {
			change(c, 8, func(j *job.Job) { j.State = job.Queued })
			c.Counts = map[job.State]int64{job.Succeeded: 1, job.Queued: 1}
		}, "ended as queued"},
		{"a result is another's", func(c *Case) { change(c, 8, func(j *job.Job) { j.Result = []byte("late") }) }, `its result is "late"`},
		{"two leases at a time", func(c *Case) {
			c.Lives[0].Killed, c.Lives[0].EndedAt = false, 20*time.Second
			drop(c, 0, Ended, 7)
			drop(c, 1, Reaped, 0)
		}, "double lease"},
		{"one epoch for two processes", func(c *Case) { event(c, 1, Claimed, 7).Epoch = 1 }, "epoch 1 was given to process 1 and to process 2"},
		{"two starts under one epoch", func(c *Case) { event(c, 1, Started, 7).Epoch = 1 }, "two starts under epoch 1"},
		{"starts do not count up", func(c *Case) { event(c, 1, Started, 7).Start = 1 }, "start 1 has epoch 1, start 1 epoch 2"},
		{"a start is not in the ledger", func(c *Case) { c.Ledger[7] = c.Ledger[7][1:] }, "is not in the ledger"},
		{"the ledger invents a start", func(c *Case) {
			c.Ledger[8] = append([]job.Attempt{{Seq: 8, Start: 1, Process: 2, Counted: retry.CountedFree}}, c.Ledger[8]...)
			c.Ledger[8][1].Start = 2
		}, "never began"},
		{"an acknowledged success became a crash", func(c *Case) {
			c.Lives[0].Events = append(c.Lives[0].Events, Event{Mono: 4 * time.Second, What: Settled, Process: 1, Ref: store.Ref{Seq: 7, Epoch: 1}, Text: "succeeded"})
		}, "epoch 1 was acknowledged as succeeded, the ledger says ok=false"},
		{"it starts after its acknowledged end", func(c *Case) {
			c.Lives[0].Events = append(c.Lives[0].Events, Event{Mono: 4 * time.Second, What: Settled, Process: 1, Ref: store.Ref{Seq: 7, Epoch: 1}, Text: "succeeded"})
		}, "started after the job's end was acknowledged"},
		{"a crash of a living process", func(c *Case) { c.Lives[0].Killed = false; drop(c, 1, Reaped, 0) }, "neither died nor was taken for dead"},
		{"a failure counts as success", func(c *Case) { event(c, 1, Ended, 8).Text = "scripted failure" }, `ended as "scripted failure", the ledger says ok=true`},
		{"an outcome without an end", func(c *Case) { drop(c, 1, Ended, 8) }, "its handler never ended"},
		{"too many attempts", func(c *Case) { c.Ledger[7][0].Counted = retry.CountedAttempt }, "spent 2 attempts of 3, want 1"},
		{"a start before its time", func(c *Case) { event(c, 1, Started, 7).Wall = c.Ledger[7][0].DueAt.Add(-time.Millisecond) }, "1ms before the due time"},
		{"a first start before its time", func(c *Case) {
			c.Acked[8] = Order{Name: "once", Kind: Quick, DueAt: event(c, 1, Started, 8).Wall.Add(time.Second)}
		}, "1s before it was due"},
		{"a late write was accepted", func(c *Case) {
			c.Lives[0].Events = append(c.Lives[0].Events, Event{What: Accepted, Process: 1, Ref: store.Ref{Seq: 7, Epoch: 1}, Text: "late settle"})
		}, "was accepted after the lease was lost"},
		{"taken for dead too soon", func(c *Case) { event(c, 1, Reaped, 0).Mono = 2500 * time.Millisecond }, "was taken for dead 1.5s after its last heartbeat"},
		{"the counts are wrong", func(c *Case) { c.Counts[job.Running] = 1 }, "the queues count 1 running jobs, there are 0"},
		{"a process stayed", func(c *Case) { c.Processes = []store.Process{{ID: 2}} }, "process 2 is still listed"},
	} {
		t.Run(lie.name, func(t *testing.T) {
			c := truth()
			lie.tell(&c)
			_, broken := Judge(c)
			if !strings.Contains(strings.Join(broken, "\n"), lie.want) {
				t.Errorf("the complaints are %q, want one with %q", broken, lie.want)
			}
		})
	}
}

// A process that was killed may be taken for dead at once.
func TestJudgeOfAQuickReap(t *testing.T) {
	c := truth()
	first := c.Lives[0]
	last := 4900 * time.Millisecond
	first.Events = append(first.Events, Event{Mono: last, What: Beat, Process: 1, Text: fmt.Sprint(int64(last))})
	second := c.Lives[1].Events
	second[slices.IndexFunc(second, func(e Event) bool { return e.What == Reaped })].Mono = first.EndedAt + 10*time.Millisecond
	if _, broken := Judge(c); len(broken) > 0 {
		t.Errorf("complaints: %q", broken)
	}
	first.Killed, first.bombs = true, true
	first.EndedAt += time.Minute // when the driver noticed
	if _, broken := Judge(c); len(broken) > 0 {
		t.Errorf("complaints where it killed itself: %q", broken)
	}
}

// What a process wrote is read back, and a line that its death cut off is not.
func TestEvidenceOfACutLine(t *testing.T) {
	path := t.TempDir() + "/life"
	v, err := OpenEvidence(path)
	if err != nil {
		t.Fatal(err)
	}
	v.Add(Event{What: Started, Process: 3, Ref: store.Ref{Seq: 5, Epoch: 2}, Start: 4, Text: "two words\n"})
	if _, err := v.file.WriteString("12 34 started 3 6"); err != nil {
		t.Fatal(err)
	}
	read := tail{path: path}
	events, err := read.read()
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 {
		t.Fatalf("read %d events, want the one that is whole: %+v", len(events), events)
	}
	got := events[0]
	got.Mono, got.Wall = 0, time.Time{}
	if want := (Event{What: Started, Process: 3, Ref: store.Ref{Seq: 5, Epoch: 2}, Start: 4, Text: "two words\n"}); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if _, err := v.file.WriteString(" 1 1 \"late\"\n"); err != nil {
		t.Fatal(err)
	}
	if events, err = read.read(); err != nil || len(events) != 1 || events[0].Seq != 6 {
		t.Errorf("after the rest of the line: %+v, %v; want the event of job 6", events, err)
	}
}
