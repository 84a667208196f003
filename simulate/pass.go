package simulate

import (
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/wave"
)

// batch is the jobs of one instant in mode waves: what wave.Run works on.
type batch struct {
	client int32
	jobs   []int32 // by item; none once it has left
	ledger []wave.Entry
	wave   wave.Wave
	next   int // position in the wave's items
	busy   int // workers
	live   int // jobs that have not left
	nextAt int64
	done   int // waves
}

// newBatch brings the jobs of a batch and begins the first pass.
func (k *kernel) newBatch(c int32, n int64, priority int) {
	b := k.freeBatch()
	k.batches[b] = batch{client: c, ledger: k.batches[b].ledger[:0], jobs: k.batches[b].jobs[:0]}
	for range n {
		if k.stopped {
			break
		}
		i := k.arrive(c, k.clients[c].nextProc(), none, none, priority)
		v, j := &k.batches[b], k.jobs.at(i)
		j.stage, j.batch, j.item = between, b, int32(len(v.jobs))
		j.sequence = uint64(j.item)
		v.jobs = append(v.jobs, i)
		v.ledger = append(v.ledger, wave.Entry{})
		v.live++
	}
	if k.batches[b].live > 0 {
		k.beginPass(b, wave.First(k.clients[c].policy, len(k.batches[b].jobs)))
	}
}

// freeBatch returns one whose jobs have all left.
func (k *kernel) freeBatch() int32 {
	for b := range k.batches {
		if k.batches[b].live == 0 && k.batches[b].busy == 0 {
			return int32(b)
		}
	}
	k.batches = append(k.batches, batch{})
	return int32(len(k.batches) - 1)
}

// beginPass lets the workers of a pass take its first items.
func (k *kernel) beginPass(b int32, w wave.Wave) {
	v := &k.batches[b]
	v.wave, v.next, v.nextAt = w, 0, k.now
	m := &k.clients[v.client].meter
	for len(m.waves) <= w.Number {
		m.waves = append(m.waves, WaveCount{Number: len(m.waves), FirstAt: seconds(k.now)})
	}
	m.waves[w.Number].Planned += int64(len(w.Items))
	workers := min(max(w.Concurrency, 1), len(w.Items))
	v.busy = workers
	for range workers {
		k.nextItem(b)
	}
}

// nextItem lets a worker take the next item, or ends the pass with the last.
func (k *kernel) nextItem(b int32) {
	v := &k.batches[b]
	if v.next < len(v.wave.Items) {
		i := v.jobs[v.wave.Items[v.next]]
		v.next++
		j := k.jobs.at(i)
		if j.wave = int32(v.wave.Number); j.wave > 0 {
			j.history = retry.History{Starts: j.history.Starts, DeadlineAt: j.history.DeadlineAt}
		}
		k.pace(i)
		return
	}
	if v.busy--; v.busy == 0 {
		k.plan(b)
	}
}

// passFailed gives an item that failed to the plan.
func (k *kernel) passFailed(i int32) bool {
	j := k.jobs.at(i)
	v := &k.batches[j.batch]
	if j.stage == heldBack {
		k.unhold(i)
	}
	k.agenda.cancel(&j.event)
	j.stage = between
	v.ledger[j.item] = wave.Entry{Class: j.generic}
	k.nextItem(j.batch)
	return true
}

// leaves books the end of an item.
func (v *batch) leaves(j *job, ok bool) {
	v.live--
	v.jobs[j.item] = none
	v.ledger[j.item].OK = ok
}

// plan asks for the next wave after a pass, and gives up what is not in it.
func (k *kernel) plan(b int32) {
	v := &k.batches[b]
	cl := &k.clients[v.client]
	count := &cl.meter.waves[v.wave.Number]
	count.LastAt = seconds(k.now)
	for _, item := range v.wave.Items {
		if v.ledger[item].OK {
			count.Recovered++
		}
	}
	w, stop := wave.Next(cl.policy, v.done, v.ledger)
	again := 0
	for item, i := range v.jobs {
		if again < len(w.Items) && w.Items[again] == item {
			again++
		} else if i != none {
			k.bury(i)
		}
	}
	if stop != "" {
		return
	}
	v.done++
	v.wave, v.busy = w, 1 // the batch is not over while it cools down
	k.agenda.add(k.after(int64(w.Cooldown)), rankBegin, doWave, b)
}

// waveDue begins the wave whose cooldown is over.
func (k *kernel) waveDue(b int32) { k.beginPass(b, k.batches[b].wave) }

// pace waits for a start's place in its wave's pace, then asks the gate.
func (k *kernel) pace(i int32) {
	j := k.jobs.at(i)
	if j.batch == none {
		k.admit(i)
		return
	}
	v := &k.batches[j.batch]
	at := max(v.nextAt, k.now)
	v.nextAt = at + int64(v.wave.Spacing)
	if at == k.now {
		k.admit(i)
		return
	}
	j.stage = pacing
	j.event = k.agenda.add(at, rankBegin, doPaced, i)
}

// paced is the turn of a start in its wave's pace.
func (k *kernel) paced(i int32) {
	k.jobs.at(i).event = 0
	k.admit(i)
}
