package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// heldTx is an enqueue whose transaction is still open.
type heldTx struct {
	tx   *memory.Tx
	seqs []int64
	jobs []job.New
}

// work makes a few random jobs. One in twenty kills every worker that runs
// it.
func (w *world) work() []job.New {
	jobs := make([]job.New, 1+w.rng.IntN(3))
	for i := range jobs {
		n := job.New{
			Kind: pick(w, kinds), Queue: pick(w, queues), Priority: w.rng.IntN(2),
			Policy: pick(w, []string{"free", "free", "counted"}),
		}
		if w.chance(250) {
			n.DueAt = w.now().Add(w.upTo(40 * time.Second))
		}
		if w.chance(50) {
			n.DeadlineAt = w.now().Add(w.upTo(90 * time.Second))
		}
		if w.chance(150) {
			n.Unique = pick(w, []string{"u", "v"})
		}
		n.Target = pick(w, []string{"", "", "", "x", "y"})
		if w.chance(250) {
			n.Key, n.KeyRule = pick(w, []string{"k", "l"}), pick(w, []job.KeyRule{job.KeyBlock, job.KeySkip, job.KeyPark})
		}
		if w.chance(50) {
			n.Args = poison
		}
		jobs[i] = n
	}
	return jobs
}

// poison in a job's arguments says what its handler does.
var poison = []byte("poison")

func (w *world) enqueue() {
	jobs := w.work()
	now := w.now()
	answers, err := w.store.Enqueue(w.ctx, now, jobs)
	w.must("enqueue", err)
	w.verify(call{name: "enqueue", now: now, added: w.promised(jobs, answers)})
}

// promised checks the answers against the unique keys of living jobs and
// returns what was added.
func (w *world) promised(jobs []job.New, answers []store.Enqueued) []int64 {
	var added []int64
	mine := map[string]int64{}
	for i, a := range answers {
		holder, taken := w.truth.holder(jobs[i].Unique)
		if seq, ok := mine[jobs[i].Unique]; ok && !taken {
			holder, taken = seq, true
		}
		if taken != a.Existing || taken && a.Seq != holder {
			w.fail("unique %q: answered %+v, but its holder is %d (%t)", jobs[i].Unique, a, holder, taken)
		}
		if a.Existing {
			continue
		}
		added = append(added, a.Seq)
		if jobs[i].Unique != "" {
			mine[jobs[i].Unique] = a.Seq
		}
	}
	return added
}

// hold opens an enqueue transaction, or ends one that is open.
func (w *world) hold() {
	if len(w.held) > 1 || len(w.held) == 1 && w.chance(500) {
		w.end(w.held[0], w.chance(700))
		return
	}
	tx := w.store.Begin()
	jobs := w.work()
	for i := range jobs {
		jobs[i].Unique = "" // would conflict at commit, which is no fault
	}
	answers, err := w.store.EnqueueTx(w.ctx, tx, w.now(), jobs)
	w.must("enqueue in a transaction", err)
	h := &heldTx{tx: tx, jobs: jobs}
	for _, a := range answers {
		h.seqs = append(h.seqs, a.Seq)
	}
	w.held = append(w.held, h)
	w.verify(call{name: "open enqueue", now: w.now()})
}

func (w *world) end(h *heldTx, commit bool) {
	w.held = w.held[1:]
	if !commit {
		w.must("rollback", h.tx.Rollback())
		w.verify(call{name: "rollback", now: w.now()})
		return
	}
	w.must("commit", h.tx.Commit())
	w.verify(call{name: "commit", now: w.now(), added: h.seqs})
}

// anyJob is one of the jobs, 0 if there are none.
func (w *world) anyJob() int64 {
	if len(w.truth.order) == 0 {
		return 0
	}
	return pick(w, w.truth.order)
}

func (w *world) cancel() {
	seq, now := w.anyJob(), w.now()
	before, known := w.truth.jobs[seq]
	state, err := w.store.Cancel(w.ctx, now, "ann", seq)
	switch {
	case !known:
		w.refused("cancel", err, store.ErrNotFound)
	case !before.State.Live():
		w.refused("cancel", err, store.ErrState)
	default:
		w.must("cancel", err)
		if before.State == job.Running {
			w.truth.ordered[refOf(&before)] = true
		}
	}
	w.verify(call{name: "cancel", now: now, order: seq, state: state})
}

func (w *world) retry() {
	seq, now := w.anyJob(), w.now()
	before, known := w.truth.jobs[seq]
	err := w.store.Retry(w.ctx, now, "ann", seq)
	switch _, taken := w.truth.holder(before.Unique); {
	case !known:
		w.refused("retry", err, store.ErrNotFound)
	case before.State == job.Failed && taken:
		w.refused("retry", err, store.ErrState)
	case before.State == job.Failed || before.State == job.Parked || before.State == job.Queued:
		w.must("retry", err)
	default:
		w.refused("retry", err, store.ErrState)
	}
	w.verify(call{name: "retry", now: now, order: seq})
}

func (w *world) refused(what string, err, want error) {
	if !errors.Is(err, want) {
		w.fail("%s answered %v, want %v", what, err, want)
	}
}

func (w *world) redrive() {
	now := w.now()
	if len(w.redrives) == 0 || w.chance(400) {
		f := store.Filter{State: pick(w, []job.State{job.Failed, job.Parked}), Queue: pick(w, append(queues, ""))}
		r, err := w.store.StartRedrive(w.ctx, now, store.Redrive{Filter: f, Actor: "ann"})
		w.must("start redrive", err)
		w.redrives = append(w.redrives, r.ID)
	}
	_, err := w.store.StepRedrive(w.ctx, now, pick(w, w.redrives), 1+w.rng.IntN(3))
	w.must("step redrive", err)
	w.verify(call{name: "redrive", now: now})
}

func (w *world) pause(queue string, paused bool) {
	w.must("pause", w.store.PauseQueue(w.ctx, w.now(), "ann", queue, paused))
	w.truth.paused[queue] = paused
}

func (w *world) maintain() {
	now := w.now()
	_, err := w.store.Maintain(w.ctx, store.Maintenance{Now: now, Limit: 1000})
	w.must("maintain", err)
	w.verify(call{name: "maintain", now: now})
}

// finish holds that what is written down at the end is what was seen to be
// written, no more and no less.
func (w *world) finish() {
	for _, seq := range w.truth.order {
		rows, err := w.store.Attempts(w.ctx, seq)
		w.must("attempts", err)
		if got, want := fmt.Sprint(rows), fmt.Sprint(w.truth.ledger[seq]); got != want {
			w.fail("the ledger of job %d is\n%s, but was written as\n%s", seq, got, want)
		}
	}
}
