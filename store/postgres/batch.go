package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// batch is jobs to be enqueued.
type batch struct {
	now  time.Time
	size int
	// given are the jobs as the caller has them. Once they are checked, invalid
	// says what is wrong with them, or runs has them made ready.
	given   []job.New
	checked bool
	invalid error
	runs    []alikes
	// into are their queues, and added is how many go to each.
	into  []string
	added []int64
	// jobs are the same one by one, filled by spread.
	jobs []job.New
	// Of the jobs some have a unique key, a key, a target.
	keyed, lined, targeted bool
	// queueNumbers are those of the jobs' queues, once they are known.
	queueNumbers map[string]int32

	// The jobs by column, filled by parameters.
	kinds, queues                                     []string
	numbers                                           []int32
	policies, targets, keys, uniques, batches, traces column[string]
	rules                                             column[string]
	priorities                                        column[int16]
	dues, deadlines                                   instants
	args                                              [][]byte
}

// alikes are jobs in a row that differ in their arguments only, as most of a
// big batch do: one check is enough for all, and they are not copied.
type alikes struct {
	job.New           // made ready; but for its arguments it is every one of them
	given   []job.New // as the caller has them
}

func newBatch(now time.Time, jobs []job.New) *batch {
	return &batch{now: store.Instant(now), size: len(jobs), given: jobs}
}

// prepare makes a batch of the jobs and checks them.
func prepare(now time.Time, jobs []job.New) (*batch, error) {
	b := newBatch(now, jobs)
	err := b.check()
	return b, err
}

// check checks the jobs, once, and fills their defaults. A due time that nobody
// named stays unset: the database's clock decides.
func (b *batch) check() error {
	if b.checked {
		return b.invalid
	}
	b.checked = true
	clock := b.now
	if clock.IsZero() {
		clock = time.Unix(0, 0) // Prepare needs one; what it fills in is not used
	}
	jobs := b.given
	for i := 0; i < len(jobs); {
		n, err := store.Prepare(clock, jobs[i])
		if err != nil {
			b.invalid = err
			return err
		}
		if jobs[i].DueAt.IsZero() {
			n.DueAt = b.now
		}
		end := i + 1
		for end < len(jobs) && alike(&jobs[end], &jobs[i]) {
			end++
		}
		if len(b.runs) == 32 { // few are alike
			b.runs = slices.Grow(b.runs, len(jobs)-i)
		}
		b.runs = append(b.runs, alikes{n, jobs[i:end]})
		b.keyed, b.lined, b.targeted = b.keyed || n.Unique != "", b.lined || n.Key != "", b.targeted || n.Target != ""
		i = end
	}
	b.count()
	return nil
}

// alike reports whether two jobs differ in their arguments only.
func alike(a, b *job.New) bool {
	return a.Kind == b.Kind && a.Queue == b.Queue && a.Policy == b.Policy && a.Target == b.Target && a.Key == b.Key &&
		a.KeyRule == b.KeyRule && a.Unique == b.Unique && a.UniqueScope == b.UniqueScope && a.UniqueFor == b.UniqueFor &&
		a.Conflict == b.Conflict && a.Batch == b.Batch && a.Trace == b.Trace && a.Priority == b.Priority &&
		a.DueAt.Equal(b.DueAt) && a.DeadlineAt.Equal(b.DeadlineAt)
}

// spread lists the jobs one by one.
func (b *batch) spread() {
	b.jobs = make([]job.New, 0, b.size)
	for i := range b.runs {
		r := &b.runs[i]
		for at := range r.given {
			b.jobs = append(b.jobs, r.New)
			b.jobs[len(b.jobs)-1].Args = r.given[at].Args
		}
	}
}

// parameters are those of the enqueue statements: the jobs by column.
func (b *batch) parameters() []any {
	for i := range b.jobs {
		n := &b.jobs[i]
		b.kinds, b.queues = append(b.kinds, n.Kind), append(b.queues, n.Queue)
		b.numbers = append(b.numbers, b.queueNumbers[n.Queue])
		b.priorities.add(int16(n.Priority))
		if !n.DueAt.IsZero() {
			b.dues = fillTo(b.dues, i, micros(n.DueAt))
		}
		if !n.DeadlineAt.IsZero() {
			b.deadlines = fillTo(b.deadlines, i, micros(n.DeadlineAt))
		}
		if n.Policy != policy.DefaultName {
			b.policies.add(n.Policy)
		} else {
			b.policies.add("")
		}
		b.targets.add(n.Target)
		b.keys.add(n.Key)
		b.rules.add(string(n.KeyRule))
		b.uniques.add(n.Unique)
		b.batches.add(n.Batch)
		b.traces.add(n.Trace)
		b.args = addBytes(b.args, i, n.Args)
	}
	return []any{
		nullable(b.now), b.kinds, b.queues, b.priorities.array(), b.dues, b.deadlines, b.policies.array(), b.targets.array(),
		b.keys.array(), b.uniques.array(), b.batches.array(), b.traces.array(), b.args, b.numbers, b.rules.array(),
	}
}

// fillTo puts the value into place n of the column; those before that have
// none are none.
func fillTo(column instants, n int, value int64) instants {
	for len(column) < n {
		column = append(column, none)
	}
	return append(column, value)
}

// earliest returns, for each queue, where its earliest job that named its due
// time stands: a claim must not have walked past it. None has walked into the
// future, clocks that differ a little allowed for.
func (b *batch) earliest() map[string]place {
	var first map[string]place
	horizon := time.Now().Add(time.Minute)
	for i := range b.runs {
		n := &b.runs[i]
		if n.DueAt.IsZero() || n.DueAt.After(horizon) {
			continue
		}
		if p, ok := first[n.Queue]; !ok || n.DueAt.Before(p.due) {
			if first == nil {
				first = map[string]place{}
			}
			first[n.Queue] = place{due: n.DueAt}
		}
	}
	return first
}

// count counts how many jobs go to each queue.
func (b *batch) count() {
	b.into, b.added = nil, nil
	for i, at := 0, -1; i < len(b.runs); i++ {
		at = b.place(b.runs[i].Queue, at)
		b.added[at] += int64(len(b.runs[i].given))
	}
}

// place returns where the queue stands in into, mostly where the last one did.
func (b *batch) place(queue string, last int) int {
	if last >= 0 && b.into[last] == queue {
		return last
	}
	at := slices.Index(b.into, queue)
	if at < 0 {
		at = len(b.into)
		b.into, b.added = append(b.into, queue), append(b.added, 0)
	}
	return at
}

// foresee counts jobs that are not checked yet. It reports whether their queues
// are all that has to be known of them to begin: none has a key or a target.
func (b *batch) foresee() bool {
	for i, at := 0, -1; i < len(b.given); i++ {
		n := &b.given[i]
		if n.Unique != "" || n.Key != "" || n.Target != "" {
			return false
		}
		at = b.place(cmp.Or(n.Queue, job.DefaultQueue), at)
		b.added[at]++
	}
	return true
}

// parts returns the parameters of look_enqueued: where the jobs wait if they
// wait in lanes, each part once, with its earliest due time.
func (b *batch) parts() []any {
	type part struct {
		queue        int32
		target, kind string
		priority     int
	}
	at := map[part]int{}
	var queues []int32
	var targets, kinds []string
	var priorities []int16
	var dues instants
	for i := range b.runs {
		n := &b.runs[i]
		p := part{b.queueNumbers[n.Queue], n.Target, n.Kind, n.Priority}
		due := int64(never)
		if !n.DueAt.IsZero() {
			due = micros(n.DueAt)
		}
		place, known := at[p]
		if !known {
			place = len(queues)
			at[p] = place
			queues, targets, kinds = append(queues, p.queue), append(targets, p.target), append(kinds, p.kind)
			priorities, dues = append(priorities, int16(p.priority)), append(dues, due)
		}
		dues[place] = min(dues[place], due)
	}
	return []any{nullable(b.now), queues, targets, kinds, priorities, dues}
}
