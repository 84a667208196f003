package history

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// worker is a small model of the worker loop, one call a step.
type worker struct {
	n            int
	id           int64 // its process; 0 = not registered
	deadUntil    time.Duration
	stoppedUntil time.Duration // as by SIGSTOP
	beatAt       time.Duration
	tasks        []*task
	outbox       []store.Settle // ended but not acknowledged
	unsure       bool           // an answer was lost: which leases are ours?
	seen         map[int64]sighting
	gates        map[string]store.Gate // as seen last
	condemned    []sighting            // judged dead, the reap comes a little later
}

// task is a lease that the worker believes to hold.
type task struct {
	job      job.Job
	begun    bool
	back     bool // goes back unstarted although the store holds it for begun
	startAt  time.Time
	endAt    time.Duration
	err      failure.Failure // zero class and order = success
	kills    bool
	progress bool
}

// sighting is what an observer saw of a process.
type sighting struct {
	process int64
	beat    int64
	since   time.Duration
}

// die loses everything that the worker had in memory.
func (k *worker) die(w *world) {
	*k = worker{n: k.n, deadUntil: w.mono + w.upTo(lease), seen: map[int64]sighting{}, gates: map[string]store.Gate{}}
}

// act does what is next: one call of the store.
func (k *worker) act(w *world) {
	if w.mono < k.deadUntil || w.mono < k.stoppedUntil {
		return
	}
	for _, t := range k.tasks {
		if t.begun && t.kills && t.endAt <= w.mono {
			k.die(w)
			return
		}
	}
	switch {
	case k.id == 0:
		k.register(w)
	case w.mono-k.beatAt >= beatEvery:
		k.beat(w)
	case k.unsure:
		k.reconcile(w)
	case w.chance(200):
		k.observe(w)
	case len(k.condemned) > 0:
		k.reap(w)
	case k.report(w):
	case len(k.tasks) == 0 && len(k.outbox) == 0 && !w.calm && w.chance(30):
		k.leave(w)
	default:
		k.turn(w)
	}
}

// leave ends the process in order; the worker comes back as another. With a
// permit in hand it stays.
func (k *worker) leave(w *world) {
	w.must("leave", w.store.Leave(w.ctx, k.id))
	list, err := w.store.Processes(w.ctx)
	w.must("processes", err)
	listed := slices.ContainsFunc(list, func(p store.Process) bool { return p.ID == k.id })
	permits := 0
	for _, g := range w.truth.gates {
		held := g.GrantOf(k.id)
		permits += held.Size()
	}
	p := w.truth.processes[k.id]
	if listed != (permits > 0) && !p.reaped {
		w.fail("process %d left with %d permits and is listed: %t", k.id, permits, listed)
	}
	if !listed {
		p.reaped = true
		k.lost()
	}
}

func (k *worker) register(w *world) {
	now := w.now()
	p, err := w.store.Register(w.ctx, now, store.Process{Host: "h", PID: k.n, Kinds: kinds, Config: pick(w, []string{"c1", "c2"})})
	w.must("register", err)
	k.id, k.beatAt = p.ID, w.mono
	k.learn(w)
	w.truth.processes[p.ID] = &process{beatAt: w.mono}
	w.verify(call{name: "register", now: now, process: p.ID, config: p.Config})
}

func (k *worker) beat(w *world) {
	orders, err := w.store.Beat(w.ctx, w.now(), k.id)
	p := w.truth.processes[k.id]
	if lost := errors.Is(err, store.ErrLostProcess); lost != p.reaped {
		w.fail("process %d was reaped: %t, but its beat answered %v", k.id, p.reaped, err)
	}
	if err != nil {
		k.lost()
		return
	}
	k.beatAt, p.beatAt = w.mono, w.mono
	for _, ref := range orders {
		if !w.truth.ordered[ref] {
			w.fail("process %d was ordered to cancel %+v, which nobody wanted", k.id, ref)
		}
		for _, t := range k.tasks {
			if refOf(&t.job) == ref && w.chance(700) { // handlers may ignore it
				t.endAt, t.err = w.mono, failure.Failure{Order: cancelled}
			}
		}
	}
}

// cancelled marks a handler that followed a cancel order.
const cancelled failure.Order = 255

// lost is told that the process was taken for dead: all leases are gone.
func (k *worker) lost() {
	k.id, k.tasks, k.outbox, k.unsure = 0, nil, nil, false
}

// reconcile asks which leases are ours after an answer was lost.
func (k *worker) reconcile(w *world) {
	running, err := w.store.List(w.ctx, store.Filter{State: job.Running}, store.Page{Limit: 1000})
	w.must("list", err)
	k.unsure = false
	k.learn(w)
	var tasks []*task
	for _, j := range running {
		ref := refOf(&j)
		if j.Process != k.id || slices.ContainsFunc(k.outbox, func(st store.Settle) bool { return st.Ref == ref }) {
			continue
		}
		i := slices.IndexFunc(k.tasks, func(t *task) bool { return refOf(&t.job) == ref })
		switch {
		case i < 0:
			tasks = append(tasks, k.accept(w, j))
		case j.Begun && !k.tasks[i].begun:
			k.tasks[i].start(w)
			fallthrough
		default:
			tasks = append(tasks, k.tasks[i])
		}
	}
	k.tasks = tasks
}

// accept takes a claimed job in and starts its handler if it may.
func (k *worker) accept(w *world, j job.Job) *task {
	t := &task{job: j}
	switch {
	case j.Begun && !w.calm && w.chance(30):
		t.begun, t.back, t.endAt = true, true, w.mono
	case j.Begun:
		t.start(w)
	}
	return t
}

// start draws what the handler will do from the job and the start's number,
// so that it does not depend on who runs it.
func (t *task) start(w *world) {
	n := t.job.History.Starts + 1
	rng := rand.New(rand.NewPCG(uint64(retry.Derive(w.seed, uint64(t.job.Seq), n)), uint64(t.job.Epoch)))
	t.begun, t.startAt = true, w.now()
	t.endAt = w.mono + time.Duration(rng.Int64N(int64(8*time.Second)))
	if t.kills = bytes.Equal(t.job.Args, poison); t.kills || w.calm {
		return
	}
	t.progress = rng.IntN(10) == 0
	switch c := rng.IntN(100); {
	case c < 40:
	case c < 60:
		t.err = failure.Of(failure.Server)
	case c < 70:
		t.err = failure.Of(failure.Throttled)
		t.err.RetryAfter = 7 * time.Second
	case c < 76:
		t.err = failure.Of(failure.Rejected)
	case c < 82:
		t.err = failure.Of(failure.Config)
	case c < 88:
		t.err = failure.Failure{Order: failure.OrderSnooze, Snooze: 3 * time.Second}
	case c < 94:
		t.err = failure.Of(failure.Interrupted)
	default:
		t.err = failure.Of(failure.DNS)
	}
}

// report sends the progress of one handler, if there is any.
func (k *worker) report(w *world) bool {
	for _, t := range k.tasks {
		if !t.progress || !t.begun {
			continue
		}
		t.progress = false
		h := t.job.History.Progressed(policies[t.job.Policy])
		ok, err := w.store.Progress(w.ctx, k.id, refOf(&t.job), []byte("on"), h)
		w.must("progress", err)
		held := w.truth.holds(k.id, refOf(&t.job))
		if ok != held {
			w.fail("progress of %s by process %d answered %t", brief(&t.job), k.id, ok)
		}
		t.job.History = h
		w.verify(call{name: "progress", process: k.id, report: refOf(&t.job), history: h})
		return true
	}
	return false
}

// turn settles what ended, begins or releases suspects, and claims.
func (k *worker) turn(w *world) {
	t := store.Turn{Process: k.id, Now: w.now()}
	k.tasks = slices.DeleteFunc(k.tasks, func(task *task) bool {
		over := task.begun && !task.back && task.endAt <= w.mono
		if over {
			k.outbox = append(k.outbox, w.settleOf(task))
		}
		return over
	})
	t.Settles = slices.Clone(k.outbox)
	need := k.begin(w, &t)
	free := slots - len(k.tasks)
	for _, queue := range queues {
		if n := min(free, 1+w.rng.IntN(slots)); n > 0 && w.chance(600) {
			known := kinds
			if w.chance(100) {
				known = kinds[:1]
			}
			t.Claims, free = append(t.Claims, store.Claim{Queue: queue, Kinds: known, Limit: n}), free-n
		}
		if n := min(free, 1+w.rng.IntN(slots)); n > 0 && w.chance(500) {
			c := k.laneClaim(w, queue, n, need)
			t.Lanes, free = append(t.Lanes, c), free-c.Limit
		}
	}
	for _, target := range targets {
		if sw, any := k.swap(w, target, need[target]); any {
			t.Swaps = append(t.Swaps, sw)
		}
	}
	k.send(w, t)
}

// laneClaim serves a lane by name where permits are to spare, or discovers.
func (k *worker) laneClaim(w *world, queue string, n int, need map[string]*needs) store.LaneClaim {
	c := store.LaneClaim{Queue: queue, Kinds: kinds, Lanes: 2, Firsts: n, Retries: n, Limit: n}
	for _, target := range targets {
		if free := k.free(target, need[target]); free > 0 && w.chance(500) {
			c.Target, c.Begin = target, min(free, n)
			need[target].begun += c.Begin
			break
		}
	}
	return c
}

// begin says which leases begin and which go back, and what that needs of
// each target's gate.
func (k *worker) begin(w *world, t *store.Turn) map[string]*needs {
	need := map[string]*needs{"": {}}
	for _, target := range targets {
		need[target] = &needs{}
	}
	busy := slices.ContainsFunc(k.tasks, func(task *task) bool { return task.begun && task.job.History.Crashes >= store.SuspectCrashes })
	for _, task := range k.tasks {
		if n := need[task.gate()]; task.begun {
			n.begun++
		}
	}
	for _, task := range k.tasks {
		n := need[task.gate()]
		suspect := task.job.History.Crashes >= store.SuspectCrashes
		switch {
		case task.back || !task.begun && w.chance(100):
			t.Release = append(t.Release, refOf(&task.job))
		case task.begun:
		case task.job.DueAt.After(t.Now) && !w.chance(50): // now and then it asks too early
		case suspect && busy:
		case task.gate() != "" && k.free(task.gate(), n) <= 0:
			n.waiting++
		default:
			t.Begin, busy = append(t.Begin, refOf(&task.job)), busy || suspect
			n.begun++
		}
	}
	return need
}

// gate is the target whose permit the task needs; empty = none.
func (t *task) gate() string {
	if inLane(&t.job) {
		return t.job.Target
	}
	return ""
}

// send takes the turn; the request or its answer may be lost, or it arrives
// twice.
func (k *worker) send(w *world, t store.Turn) {
	fate := w.rng.IntN(100)
	if w.calm {
		fate = 0
	}
	if fate >= 95 { // the request never arrived
		k.unsure = true
		return
	}
	answer, err := w.take(t)
	if err != nil {
		k.lost()
		return
	}
	switch {
	case fate >= 92: // it died before the answer came
		k.die(w)
	case fate >= 86: // the answer was lost
		k.unsure = true
	case fate >= 80: // the settles arrive twice
		if _, err := w.take(store.Turn{Process: t.Process, Now: w.now(), Settles: t.Settles}); err == nil {
			k.follow(w, t, answer)
		}
	default:
		k.follow(w, t, answer)
	}
}

// take makes the call and holds its answer against the truth.
func (w *world) take(t store.Turn) (store.Turned, error) {
	answer, err := w.store.Turn(w.ctx, t)
	reaped := w.truth.processes[t.Process].reaped
	switch {
	case reaped != errors.Is(err, store.ErrLostProcess):
		w.fail("process %d was reaped: %t, but its turn answered %v", t.Process, reaped, err)
	case err != nil && !reaped:
		w.must("turn", err)
	}
	w.verify(call{name: "turn", now: t.Now, process: t.Process, turn: &t, answer: &answer, refused: err != nil})
	return answer, err
}

// follow acts on the answer.
func (k *worker) follow(w *world, t store.Turn, answer store.Turned) {
	k.swapped(t, answer)
	k.outbox = nil // applied or stale, each has been heard
	k.tasks = slices.DeleteFunc(k.tasks, func(task *task) bool {
		i := slices.Index(t.Release, refOf(&task.job))
		return i >= 0 && answer.Released[i]
	})
	for _, task := range k.tasks {
		if i := slices.Index(t.Begin, refOf(&task.job)); i >= 0 && answer.Begun[i] {
			task.start(w)
		}
	}
	for i := range t.Settles {
		if st := &t.Settles[i]; st.Keep && answer.Settled[i] {
			k.wait(w, st)
		}
	}
	for _, j := range answer.Claimed {
		k.tasks = append(k.tasks, k.accept(w, j))
	}
}

// wait holds on to a lease that was kept.
func (k *worker) wait(w *world, st *store.Settle) {
	j, err := w.store.Job(w.ctx, st.Seq)
	w.must("job", err)
	if ref := (store.Ref{Seq: st.Seq, Epoch: st.Epoch + 1}); refOf(&j) == ref && j.Process == k.id {
		k.tasks = append(k.tasks, k.accept(w, j))
	}
}

// settleOf is the way of an outcome: classified, decided, to be remembered.
func (w *world) settleOf(t *task) store.Settle {
	h := t.job.History.Started(t.startAt)
	switch {
	case t.err.Order == cancelled:
		return store.Settle{Ref: refOf(&t.job), To: job.Cancelled, History: h, Attempt: w.attempt(&t.job, h, t.startAt, w.now())}
	case t.err.Class == failure.Unknown && t.err.Order == failure.OrderNone:
		a := w.attempt(&t.job, h, t.startAt, w.now())
		a.OK = true
		return store.Settle{Ref: refOf(&t.job), To: job.Succeeded, History: h, Attempt: a}
	}
	st := w.decided(&t.job, h, t.err, t.startAt)
	st.Keep = st.To == job.Queued && w.chance(300)
	return st
}

func (w *world) attempt(j *job.Job, h retry.History, started, ended time.Time) *job.Attempt {
	return &job.Attempt{Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: j.Process, StartedAt: started, EndedAt: ended}
}

// decided asks retry.Decide and makes a settle of its verdict.
func (w *world) decided(j *job.Job, h retry.History, f failure.Failure, started time.Time) store.Settle {
	now := w.now()
	d := retry.Decide(policies[j.Policy], h, f, now, retry.Derive(w.seed, uint64(j.Seq), h.Starts))
	st := store.Settle{Ref: refOf(j), Cause: d.Cause, Delay: d.Delay, History: d.Next, Config: "c1"}
	switch d.Action {
	case policy.Retry, policy.PauseTarget:
		st.To = job.Queued
	case policy.Park:
		st.To = job.Parked
	default:
		st.To = job.Failed
	}
	a := w.attempt(j, h, started, now)
	a.Class, a.Action, a.Cause, a.Delay, a.Counted, a.Rule, a.Version = d.Class, string(d.Action), d.Cause, d.Delay, d.Counted, d.Rule, d.Version
	st.Attempt = a
	return st
}
