package sqlite

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// lane is the waiting jobs of one queue, kind and priority: one range of the
// index.
type lane struct {
	priority int64
	kind     string
}

// claim leases the least rows of the queue to the process.
func (t *tx) claim(process int64, c store.Claim) ([]job.Job, error) {
	kinds := slices.Compact(slices.Sorted(slices.Values(c.Kinds)))
	if c.Limit <= 0 || len(kinds) == 0 {
		return nil, nil
	}
	q, err := t.one(t.ctx, "queue_facts", c.Queue)
	if err != nil || q == nil || q.flag(0) {
		return nil, err
	}
	var jobs []job.Job
	if strict := q.flag(1); strict {
		busy := q.int(2) + t.deltas[place{c.Queue, job.Running}]
		jobs, err = t.strictFirst(c.Queue, kinds, busy > 0)
	} else {
		jobs, err = t.least(c.Queue, kinds, c.Limit)
	}
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return jobs, t.lease(process, c.Queue, jobs)
}

// strictFirst returns the only candidate of a strict queue: the least of all
// kinds, if it is of a known one and nothing runs.
func (t *tx) strictFirst(queue string, kinds []string, busy bool) ([]job.Job, error) {
	if busy {
		return nil, nil
	}
	var every []string
	err := t.query(t.ctx, "queue_kinds", []any{queue}, func(r row) error {
		every = append(every, r.text(0))
		return nil
	})
	if err != nil {
		return nil, err
	}
	jobs, err := t.least(queue, every, 1)
	if err != nil || len(jobs) == 0 || !slices.Contains(kinds, jobs[0].Kind) {
		return nil, err
	}
	return jobs, nil
}

// least returns the first due jobs by (priority, due, sequence), sorted.
func (t *tx) least(queue string, kinds []string, limit int) ([]job.Job, error) {
	var lanes []lane
	err := t.query(t.ctx, "lanes", []any{queue, jsonTexts(kinds), micros(t.instant())}, func(r row) error {
		lanes = append(lanes, lane{priority: r.int(0), kind: r.text(1)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(lanes, func(a, b lane) int { return cmp.Compare(a.priority, b.priority) })
	var jobs []job.Job
	for len(lanes) > 0 && len(jobs) < limit {
		n := 1
		for n < len(lanes) && lanes[n].priority == lanes[0].priority {
			n++
		}
		if jobs, err = t.merge(jobs, queue, lanes[:n], limit); err != nil {
			return nil, err
		}
		lanes = lanes[n:]
	}
	return jobs, nil
}

// head is the first job of a lane that is not taken yet.
type head struct {
	*cursor
	job  job.Job
	more bool
}

func (h *head) advance() error {
	r, err := h.next()
	if h.more = err == nil && r != nil; !h.more {
		return err
	}
	h.job, err = readJob(r)
	return err
}

// merge appends the least jobs of lanes of one priority, reading no more of
// each than is taken.
func (t *tx) merge(jobs []job.Job, queue string, lanes []lane, limit int) (_ []job.Job, err error) {
	heads := make([]*head, 0, len(lanes))
	defer func() {
		for _, h := range heads {
			err = errors.Join(err, h.close())
		}
	}()
	for i, l := range lanes {
		c, err := t.open(t.ctx, "lane", i, []any{queue, l.kind, l.priority, micros(t.instant()), int64(limit - len(jobs))})
		if err != nil {
			return nil, err
		}
		h := &head{cursor: c}
		heads = append(heads, h)
		if err := h.advance(); err != nil {
			return nil, err
		}
	}
	for len(jobs) < limit {
		var first *head
		for _, h := range heads {
			if h.more && (first == nil || before(&h.job, &first.job)) {
				first = h
			}
		}
		if first == nil {
			break
		}
		jobs = append(jobs, first.job)
		if err := first.advance(); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// before orders jobs of one priority.
func before(a, b *job.Job) bool {
	if c := a.DueAt.Compare(b.DueAt); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}

// lease gives the jobs to the process, in the table and here.
func (t *tx) lease(process int64, queue string, jobs []job.Job) error {
	now := t.instant()
	seqs := make([]int64, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		j.State, j.Process, j.LeasedAt = job.Running, process, now
		j.Epoch++
		j.Begun = j.History.Crashes < store.SuspectCrashes
		seqs[i] = j.Seq
	}
	slices.Sort(seqs)
	args := []any{process, micros(now), int64(store.SuspectCrashes)}
	var err error
	if isRun(seqs) {
		_, err = t.run("lease_range", append(args, seqs[0], seqs[len(seqs)-1])...)
	} else {
		_, err = t.run("lease_list", append(args, jsonList(seqs))...)
	}
	t.add(queue, job.Queued, -int64(len(jobs)))
	t.add(queue, job.Running, int64(len(jobs)))
	return err
}
