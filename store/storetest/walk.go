package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// walk is a seeded random script over the whole interface by several
// processes. It chooses by its own draws and by what all stores must answer
// alike, and writes down every answer in one form.
type walk struct {
	*script
	rng      *rand.Rand
	now      time.Time
	procs    []walkProcess
	past     []job.Job // every lease ever given, for late writes
	seqs     []int64
	redrives []int64
	names    map[int64]int // sequence → place in seqs, from 1
	out      strings.Builder
}

type walkProcess struct {
	id     int64
	beat   int64 // seen last
	lost   bool  // reaped or left
	leases []job.Job
}

var (
	walkQueues = []string{"default", "bulk", "strict"}
	walkKinds  = []string{"a", "b", "c"}
)

func newWalk(s *script, seed uint64) *walk {
	w := &walk{script: s, rng: rand.New(rand.NewPCG(seed, 7)), now: t0, names: map[int64]int{}}
	w.must(w.StrictQueue(w.ctx, "strict", true))
	w.register()
	w.register()
	w.enqueue()
	return w
}

// say writes one line of the trace.
func (w *walk) say(format string, args ...any) {
	fmt.Fprintf(&w.out, format+"\n", args...)
}

// chance is true n times in a hundred.
func (w *walk) chance(n int) bool { return w.rng.IntN(100) < n }

func pick[T any](w *walk, list []T) T { return list[w.rng.IntN(len(list))] }

// step does one random thing.
func (w *walk) step() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(6_000_000)) * time.Microsecond)
	if w.chance(10) { // no store keeps nanoseconds
		w.now = w.now.Add(time.Duration(w.rng.IntN(1000)))
	}
	w.say("@%s", w.now.Sub(t0))
	for _, act := range []struct {
		weight int
		do     func()
	}{
		{25, w.enqueue},
		{80, w.work},
		{10, w.register},
		{25, w.beatOne},
		{4, w.reapOne},
		{2, w.leave},
		{5, w.progress},
		{10, w.cancelOne},
		{6, w.retryOne},
		{3, w.switchQueue},
		{4, w.maintainAll},
		{5, w.redriveSome},
		{30, w.look},
	} {
		if w.chance(act.weight) {
			act.do()
		}
	}
}

func (w *walk) enqueue() {
	jobs := make([]job.New, 1+w.rng.IntN(6))
	for i := range jobs {
		n := job.New{Kind: pick(w, walkKinds), Queue: pick(w, walkQueues), Priority: w.rng.IntN(3), Batch: pick(w, []string{"", "x", "y"})}
		if w.chance(30) {
			n.DueAt = w.now.Add(time.Duration(w.rng.IntN(60)-10) * time.Second)
		}
		if w.chance(15) {
			n.DeadlineAt = w.now.Add(time.Duration(w.rng.IntN(90)) * time.Second)
		}
		if w.chance(30) {
			n.Unique = pick(w, []string{"u1", "u2", "u3", "u4"})
		}
		if w.chance(2) {
			n.Kind = ""
		}
		n.Args = fmt.Appendf(nil, "%d\x00", w.rng.IntN(1000))
		jobs[i] = n
	}
	answers, err := w.Enqueue(w.ctx, w.now, jobs)
	for _, a := range answers {
		if !a.Existing {
			w.seqs = append(w.seqs, a.Seq)
			w.names[a.Seq] = len(w.seqs)
		}
		w.say("enqueued %s existing=%t", w.name(a.Seq), a.Existing)
	}
	w.fault("enqueue", err)
}

func (w *walk) register() {
	alive := 0
	for _, p := range w.procs {
		if !p.lost {
			alive++
		}
	}
	if alive >= 4 {
		return
	}
	p, err := w.Register(w.ctx, w.now, store.Process{Host: "h", Kinds: walkKinds[:1+w.rng.IntN(3)], Config: pick(w, []string{"c1", "c2"})})
	w.fault("register", err)
	w.procs = append(w.procs, walkProcess{id: p.ID, beat: p.Beat})
}

// anyProcess is mostly one that lives.
func (w *walk) anyProcess() int {
	for range 4 {
		if at := w.rng.IntN(len(w.procs)); !w.procs[at].lost {
			return at
		}
	}
	return w.rng.IntN(len(w.procs))
}

// work takes a turn: settles of some leases, late and doubled ones among
// them, begins, releases and claims.
func (w *walk) work() {
	at := w.anyProcess()
	p := &w.procs[at]
	t := store.Turn{Process: p.id, Now: w.now}
	for _, j := range p.leases {
		switch {
		case !j.Begun && w.chance(40):
			t.Begin = append(t.Begin, refOf(j))
		case w.chance(25):
			t.Release = append(t.Release, refOf(j))
		case w.chance(60):
			t.Settles = append(t.Settles, w.outcome(j))
			if w.chance(10) {
				t.Settles = append(t.Settles, w.outcome(j))
			}
		}
	}
	if len(w.past) > 0 && w.chance(30) {
		t.Settles = append(t.Settles, w.outcome(pick(w, w.past)))
	}
	if w.chance(2) {
		t.Settles = append(t.Settles, store.Settle{To: job.Running})
	}
	for w.chance(60) && len(t.Claims) < 4 {
		t.Claims = append(t.Claims, store.Claim{Queue: pick(w, walkQueues), Kinds: walkKinds[:1+w.rng.IntN(3)], Limit: w.rng.IntN(4)})
	}
	answer, err := w.Turn(w.ctx, t)
	w.say("P%d turn settled=%v begun=%v released=%v", at+1, answer.Settled, answer.Begun, answer.Released)
	w.fault("turn", err)
	if err == nil {
		w.after(p, t, answer)
	}
	for _, j := range answer.Claimed {
		w.say("  claimed %s", w.describe(j))
	}
}

// after follows what the turn did to the process's leases.
func (w *walk) after(p *walkProcess, t store.Turn, answer store.Turned) {
	over := map[store.Ref]bool{}
	for i, st := range t.Settles {
		if at := slices.IndexFunc(p.leases, func(j job.Job) bool { return refOf(j) == st.Ref }); st.Keep && answer.Settled[i] && at >= 0 {
			p.leases[at] = waiting(p.leases[at], st, store.Due(w.now, st.Delay))
			w.past = append(w.past, p.leases[at])
			continue
		}
		over[st.Ref] = over[st.Ref] || answer.Settled[i]
	}
	for i, ref := range t.Release {
		over[ref] = over[ref] || answer.Released[i]
	}
	p.leases = slices.DeleteFunc(p.leases, func(j job.Job) bool { return over[refOf(j)] })
	for i, ref := range t.Begin {
		if at := slices.IndexFunc(p.leases, func(j job.Job) bool { return refOf(j) == ref }); answer.Begun[i] && at >= 0 && !p.leases[at].Begun {
			p.leases[at].Begun, p.leases[at].LeasedAt = true, store.Instant(w.now)
		}
	}
	p.leases = append(p.leases, answer.Claimed...)
	w.past = append(w.past, answer.Claimed...)
}

// outcome is a random end of a lease.
func (w *walk) outcome(j job.Job) store.Settle {
	var st store.Settle
	switch w.rng.IntN(8) {
	case 0, 1:
		st = succeeded(j, w.now)
		st.Result = fmt.Appendf(nil, "r%d", w.rng.IntN(9))
	case 2, 3:
		st = again(j, w.now, time.Duration(w.rng.Int64N(int64(40*time.Second))))
		st.History.Crashes, st.Keep = w.rng.IntN(4), w.chance(40)
	case 4:
		st = ended(j, w.now, job.Failed, pick(w, []job.Cause{retry.CauseFatal, retry.CauseExhausted, retry.CausePoison, retry.CauseExpired}))
	case 5:
		st = ended(j, w.now, job.Parked, pick(w, []job.Cause{retry.CauseConfig, retry.CauseNoProgress, job.HostLost}))
		st.Config = pick(w, []string{"c1", "c2"})
	case 6:
		st = ended(j, w.now, job.Cancelled, retry.CauseNone)
	default:
		return store.Settle{Ref: refOf(j), To: job.Queued, History: j.History}
	}
	if a := st.Attempt; !a.OK {
		a.Class = pick(w, failure.Classes())
		st.Fingerprint = j.Kind + a.Class.String()
		a.Error = "error " + st.Fingerprint
		st.History.Free[a.Class]++
	}
	return st
}

func (w *walk) beatOne() {
	at := w.anyProcess()
	orders, err := w.Beat(w.ctx, w.now, w.procs[at].id)
	w.say("P%d beat orders=%s", at+1, w.refs(orders))
	w.fault("beat", err)
}

// reapOne judges a process by the beat that was seen last, which may have
// moved since.
func (w *walk) reapOne() {
	at := w.anyProcess()
	p := &w.procs[at]
	if w.chance(60) {
		listed, _ := w.seen(p.id)
		p.beat = listed.Beat
	}
	var asked []string
	n, ok, err := w.Reap(w.ctx, w.now, p.id, p.beat, func(j job.Job) store.Settle {
		asked = append(asked, w.describe(j))
		if w.names[j.Seq]%4 == 0 {
			return ended(j, w.now, job.Failed, retry.CausePoison)
		}
		return crashed(w.now)(j)
	})
	slices.Sort(asked)
	p.lost = p.lost || ok
	w.say("P%d reap ended=%d ok=%t asked=%s", at+1, n, ok, asked)
	w.fault("reap", err)
}

func (w *walk) leave() {
	at := w.anyProcess()
	w.fault("leave", w.Leave(w.ctx, w.procs[at].id))
	_, listed := w.seen(w.procs[at].id)
	w.say("P%d leave listed=%t", at+1, listed)
	w.procs[at].lost = !listed
}

func (w *walk) progress() {
	if len(w.past) == 0 {
		return
	}
	j := pick(w, w.past)
	h := j.History.Started(w.now)
	h.Waits = w.rng.IntN(5)
	ok, err := w.Progress(w.ctx, j.Process, refOf(j), fmt.Appendf(nil, "p%d", w.rng.IntN(9)), h)
	w.say("progress %s ok=%t", w.name(j.Seq), ok)
	w.fault("progress", err)
}

// anyJob is a job of the script, or now and then one that never was.
func (w *walk) anyJob() int64 {
	if len(w.seqs) == 0 || w.chance(3) {
		return 1 << 40
	}
	if w.chance(50) { // more happens to the young
		return pick(w, w.seqs[max(0, len(w.seqs)-12):])
	}
	return pick(w, w.seqs)
}

func (w *walk) cancelOne() {
	seq := w.anyJob()
	if len(w.past) > 0 && w.chance(50) {
		seq = pick(w, w.past[max(0, len(w.past)-5):]).Seq
	}
	state, err := w.Cancel(w.ctx, w.now, "ann", seq)
	if err != nil {
		state = ""
	}
	w.say("cancel %s %s", w.name(seq), state)
	w.fault("cancel", err)
}

func (w *walk) retryOne() {
	seq := w.anyJob()
	err := w.Retry(w.ctx, w.now, "bob", seq)
	w.say("retry %s", w.name(seq))
	w.fault("retry", err)
}

func (w *walk) switchQueue() {
	queue, on := pick(w, walkQueues), w.chance(40)
	if w.chance(30) {
		w.say("strict %s %t", queue, on)
		w.fault("strict", w.StrictQueue(w.ctx, queue, on))
		return
	}
	w.say("pause %s %t", queue, on)
	w.fault("pause", w.PauseQueue(w.ctx, w.now, "cyd", queue, on))
}

func (w *walk) maintainAll() {
	m := store.Maintenance{Now: w.now, Limit: 1 + w.rng.IntN(50)}
	if w.chance(30) {
		m.SucceededKept = time.Duration(60+w.rng.IntN(300)) * time.Second
	}
	if w.chance(15) {
		m.FailedKept = time.Duration(120+w.rng.IntN(600)) * time.Second
	}
	w.maintain(m)
	w.say("maintained")
}

func (w *walk) redriveSome() {
	if len(w.redrives) == 0 || w.chance(40) {
		r, err := w.StartRedrive(w.ctx, w.now, store.Redrive{Filter: w.filter(), Rate: 1.5, Actor: "dan"})
		w.fault("redrive", err)
		if err != nil {
			return
		}
		w.redrives = append(w.redrives, r.ID)
	}
	at := w.rng.IntN(len(w.redrives))
	r, err := w.StepRedrive(w.ctx, w.now, w.redrives[at], 1+w.rng.IntN(4))
	w.say("redrive R%d moved=%d cursor=%s done=%s", at+1, r.Moved, w.name(r.Cursor), instant(r.DoneAt))
	w.fault("step", err)
}

// filter is a random filter, mostly one that a redrive may have.
func (w *walk) filter() store.Filter {
	f := store.Filter{State: pick(w, []job.State{job.Failed, job.Failed, job.Failed, job.Parked, job.Parked, job.Queued})}
	switch w.rng.IntN(9) {
	case 0:
		f.Kind = pick(w, walkKinds)
	case 1:
		f.Queue = pick(w, walkQueues)
	case 2:
		f.Batch = "x"
	case 3:
		f.Class = pick(w, failure.Classes())
	case 4:
		f.Fingerprint = pick(w, walkKinds) + pick(w, failure.Classes()).String()
	case 5:
		f.Since = w.now.Add(-time.Duration(w.rng.IntN(100)) * time.Second)
	case 6:
		f.Until = w.now.Add(-time.Duration(w.rng.IntN(100)) * time.Second)
	case 7:
		for range 3 {
			f.Seqs = append(f.Seqs, w.anyJob())
		}
	}
	return f
}
