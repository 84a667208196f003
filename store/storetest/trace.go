package storetest

import (
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Trace runs a seeded random script of all operations by several processes
// and returns what the store answered, in one form: the same seed gives the
// same text on every store.
func Trace(t *testing.T, open Open, seed uint64, steps int) string {
	t.Helper()
	w := newWalk(newScript(t, open), seed)
	for range steps {
		w.step()
	}
	w.everything()
	return w.out.String()
}

// GoldenSteps is the length of the traces that are written down.
const GoldenSteps = 250

//go:embed testdata/traces.txt
var golden string

// SameTraces compares the store's traces with those of the in-memory store,
// which are written down as one checksum a step. To see what memory answers:
// go test ./store/memory -run TestTraces -v -seed SEED.
func SameTraces(t *testing.T, open Open) {
	compareTraces(t, golden, "TestTraces", func(t *testing.T, seed uint64) string { return Trace(t, open, seed, GoldenSteps) })
}

// compareTraces holds that each seed's trace is the one written down.
func compareTraces(t *testing.T, golden, name string, trace func(t *testing.T, seed uint64) string) {
	for line := range strings.Lines(golden) {
		fields := strings.Fields(line)
		seed, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fields[0], func(t *testing.T) {
			for i, step := range strings.SplitAfter(trace(t, seed), "\n@") {
				if i+1 >= len(fields) || checksum(step) != fields[i+1] {
					t.Fatalf("seed %d, step %d: the trace is not the one of the in-memory store (see it by go test ./store/memory -run %s -v -seed %d). Here:\n@%s", seed, i, name, seed, strings.TrimSuffix(step, "@"))
				}
			}
		})
	}
}

// Golden returns the file that SameTraces compares with, as the store gives
// it.
func Golden(t *testing.T, open Open, seeds int) string {
	return writeTraces(seeds, func(seed uint64) string { return Trace(t, open, seed, GoldenSteps) })
}

func writeTraces(seeds int, trace func(seed uint64) string) string {
	var b strings.Builder
	for seed := range seeds {
		fmt.Fprint(&b, seed)
		for _, step := range strings.SplitAfter(trace(uint64(seed)), "\n@") {
			b.WriteString(" " + checksum(step))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func checksum(step string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(step))) }

// fault writes an error down by its sentinel's name.
func (w *walk) fault(what string, err error) {
	if err == nil {
		return
	}
	name := "error"
	for _, s := range []struct {
		err  error
		name string
	}{
		{store.ErrNotFound, "ErrNotFound"},
		{store.ErrState, "ErrState"},
		{store.ErrLostProcess, "ErrLostProcess"},
		{store.ErrForeignTx, "ErrForeignTx"},
		{store.ErrSchema, "ErrSchema"},
		{store.ErrUnique, "ErrUnique"},
	} {
		if errors.Is(err, s.err) {
			name = s.name
		}
	}
	w.say("  %s: %s", what, name)
}

// name writes a sequence number as the place of its job in the script.
func (w *walk) name(seq int64) string {
	if n, ok := w.names[seq]; ok {
		return fmt.Sprintf("#%d", n)
	}
	return "#-"
}

func (w *walk) holder(id int64) string {
	for i, p := range w.procs {
		if p.id == id {
			return fmt.Sprintf("P%d", i+1)
		}
	}
	return "-"
}

func (w *walk) refs(refs []store.Ref) string {
	var texts []string
	for _, r := range refs {
		texts = append(texts, fmt.Sprintf("%s/%d", w.name(r.Seq), r.Epoch))
	}
	return strings.Join(texts, ",")
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(t0).String()
}

// describe writes everything of a job. A due time is told of living jobs
// only: what has ended is due no more.
func (w *walk) describe(j job.Job) string {
	due := "-"
	if j.State.Live() {
		due = instant(j.DueAt)
	}
	h := j.History
	return fmt.Sprintf("%s %s/%s kind=%s queue=%s batch=%s unique=%s policy=%s prio=%d due=%s deadline=%s args=%q"+
		" enqueued=%s ended=%s epoch=%d process=%s leased=%s begun=%t progress=%q result=%q"+
		" last=%s/%s/%s/%s config=%s starts=%d attempts=%d waits=%d idle=%d crashes=%d free=%v first=%s delay=%s until=%s",
		w.name(j.Seq), j.State, j.Cause, j.Kind, j.Queue, j.Batch, j.Unique, j.Policy, j.Priority, due, instant(j.DeadlineAt), j.Args,
		instant(j.EnqueuedAt), instant(j.EndedAt), j.Epoch, w.holder(j.Process), instant(j.LeasedAt), j.Begun, j.Progress, j.Result,
		j.LastClass, j.LastError, j.Fingerprint, j.Version, j.Config,
		h.Starts, h.Attempts, h.Waits, h.Idle, h.Crashes, h.Free, instant(h.FirstStartAt), h.LastDelay, instant(h.DeadlineAt))
}

// look reads one thing.
func (w *walk) look() {
	switch w.rng.IntN(8) {
	case 0:
		w.lookAt(w.anyJob())
	case 1:
		f := w.filter()
		if w.chance(40) {
			f.State = ""
		}
		page := store.Page{Limit: 1 + w.rng.IntN(10)}
		if w.chance(50) && len(w.seqs) > 0 {
			page.Before = pick(w, w.seqs)
		}
		jobs, err := w.List(w.ctx, f, page)
		w.fault("list", err)
		for _, j := range jobs {
			w.say("listed %s", w.describe(j))
		}
	case 2:
		f := w.filter()
		n, err := w.Matching(w.ctx, f, 1+w.rng.IntN(9))
		w.say("matching %d", n)
		w.fault("matching", err)
	case 3:
		w.lookAtGroups(w.filter())
	case 4:
		w.lookAtQueues()
	case 5:
		due, err := w.NextDue(w.ctx, walkQueues[:1+w.rng.IntN(3)], walkKinds[:1+w.rng.IntN(3)])
		w.say("next due %s", instant(due))
		w.fault("next due", err)
	case 6:
		seq := w.anyJob()
		n, err := w.Ahead(w.ctx, w.now, seq, 5)
		w.say("ahead of %s: %d", w.name(seq), n)
		w.fault("ahead", err)
	case 7:
		w.lookAtRedrives()
	}
}

func (w *walk) lookAt(seq int64) {
	j, err := w.Job(w.ctx, seq)
	if err == nil {
		w.say("job %s", w.describe(j))
	}
	w.fault("job", err)
	attempts, err := w.Attempts(w.ctx, seq)
	w.fault("attempts", err)
	for _, a := range attempts {
		w.say("  start %d/%d %s %s..%s ok=%t %s %q action=%s cause=%s delay=%s due=%s counted=%s rule=%s version=%s", a.Start, a.Epoch,
			w.holder(a.Process), instant(a.StartedAt), instant(a.EndedAt), a.OK, a.Class, a.Error, a.Action, a.Cause, a.Delay, instant(a.DueAt), a.Counted, a.Rule, a.Version)
	}
}

func (w *walk) lookAtGroups(f store.Filter) {
	f.State = ""
	groups, err := w.Groups(w.ctx, f, 5)
	w.fault("groups", err)
	for _, g := range groups {
		w.say("group %s %s %s %s %s %q n=%d %s..%s", g.Fingerprint, g.Kind, g.Queue, g.Class, g.Cause, g.Error, g.Count, instant(g.FirstAt), instant(g.LastAt))
	}
}

func (w *walk) lookAtQueues() {
	queues, err := w.Queues(w.ctx)
	w.fault("queues", err)
	for _, q := range queues {
		w.say("queue %s paused=%t strict=%t due=%s %v", q.Name, q.Paused, q.Strict, instant(q.DueAt), w.counts(q.Name))
	}
}

func (w *walk) lookAtRedrives() {
	list, err := w.Redrives(w.ctx, 4)
	w.fault("redrives", err)
	for _, r := range list {
		w.say("redrive by %s rate=%v created=%s done=%s moved=%d cursor=%s", r.Actor, r.Rate, instant(r.CreatedAt), instant(r.DoneAt), r.Moved, w.name(r.Cursor))
	}
	rows, err := w.Audit(w.ctx, 5)
	w.fault("audit", err)
	for _, r := range rows {
		what := r.What
		if seq, err := job.ParseID(what); err == nil {
			what = w.name(seq)
		}
		if r.Act == "dead.redrive" {
			what = ""
		}
		w.say("audit %s %s %s %s", instant(r.At), r.Actor, r.Act, what)
	}
}

// everything reads all there is at the end of a script.
func (w *walk) everything() {
	w.say("@end")
	for _, seq := range w.seqs {
		w.lookAt(seq)
	}
	w.lookAtQueues()
	w.lookAtGroups(store.Filter{})
	w.lookAtRedrives()
	for i, p := range w.procs {
		_, listed := w.seen(p.id)
		w.say("P%d listed=%t", i+1, listed)
	}
}
