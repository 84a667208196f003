package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// claim leases the least rows of the queue to the process.
func (t *tx) claim(process int64, c store.Claim) ([]job.Job, error) {
	if c.Limit <= 0 || len(c.Kinds) == 0 {
		return nil, nil
	}
	q, err := t.queue(c.Queue)
	if err != nil || !q.exists || q.paused {
		return nil, err
	}
	kinds, err := t.running(q, c.Kinds)
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	var p *pick
	if q.strict {
		busy := q.running + t.deltas[place{c.Queue, job.Running}]
		p, err = t.strictFirst(c.Queue, kinds, busy > 0)
	} else {
		p, err = t.least(c.Queue, kinds, c.Limit)
	}
	if err != nil || len(p.jobs) == 0 {
		return nil, err
	}
	if err := t.recall(t.ctx, p.jobs); err != nil {
		return nil, err
	}
	for _, h := range p.heads {
		if err := t.unready(h); err != nil {
			return nil, err
		}
	}
	return p.jobs, t.lease(process, c.Queue, p.jobs)
}

// strictFirst picks the only candidate of a strict queue: the least of all
// kinds, if it is of a known one and nothing runs.
func (t *tx) strictFirst(queue string, kinds []string, busy bool) (*pick, error) {
	if busy {
		return &pick{}, nil
	}
	var every []string
	err := t.query(t.ctx, "queue_kinds", []any{queue}, func(r row) error {
		every = append(every, r.text(0))
		return nil
	})
	if err != nil {
		return nil, err
	}
	p, err := t.least(queue, every, 1)
	if err != nil || len(p.jobs) == 0 || !slices.Contains(kinds, p.jobs[0].Kind) {
		return &pick{}, err
	}
	return p, nil
}

// lane is the waiting jobs of one queue, kind and priority: one range of
// ebb_ready.
type lane struct {
	queue    string
	kind     string
	priority int64
}

// pick is what a claim is about to take: the jobs in their order, and the
// lanes that they come from.
type pick struct {
	jobs  []job.Job
	heads []*head
}

// least picks the first due jobs by (priority, due, sequence).
func (t *tx) least(queue string, kinds []string, limit int) (*pick, error) {
	var lanes []lane
	err := t.query(t.ctx, "lanes", []any{queue, jsonTexts(kinds), micros(t.instant())}, func(r row) error {
		lanes = append(lanes, lane{queue: queue, kind: r.text(1), priority: r.int(0)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(lanes, func(a, b lane) int { return cmp.Compare(a.priority, b.priority) })
	p := &pick{jobs: make([]job.Job, 0, min(limit, t.store.claimed+minAlike))}
	for len(lanes) > 0 && len(p.jobs) < limit {
		n := 1
		for n < len(lanes) && lanes[n].priority == lanes[0].priority {
			n++
		}
		heads, err := t.heads(lanes[:n])
		if err == nil {
			err = p.merge(heads, limit)
		}
		for _, h := range heads {
			err = errors.Join(err, h.close())
		}
		if err != nil {
			return nil, err
		}
		p.heads = append(p.heads, heads...)
		lanes = lanes[n:]
	}
	return p, nil
}

// head is a lane with its first job that is not taken yet.
type head struct {
	lane
	*cursor
	now     time.Time
	job     job.Job
	more    bool
	taken   []taken
	skipped bool // a job whose deadline has passed stands among the taken
}

// taken is the place of a job in its lane.
type taken struct{ due, seq int64 }

// heads opens the lanes.
func (t *tx) heads(lanes []lane) ([]*head, error) {
	heads := make([]*head, 0, len(lanes))
	for i, l := range lanes {
		c, err := t.open(t.ctx, "lane", i, []any{l.queue, l.kind, l.priority, micros(t.instant())})
		if err != nil {
			return heads, err
		}
		h := &head{lane: l, cursor: c, now: t.instant()}
		heads = append(heads, h)
		if err := h.advance(); err != nil {
			return heads, err
		}
	}
	return heads, nil
}

// advance goes to the next job that may start.
func (h *head) advance() error {
	for {
		r, err := h.next()
		if h.more = err == nil && r != nil; !h.more {
			return err
		}
		h.read(r)
		if limit := h.job.DeadlineAt; limit.IsZero() || !limit.Before(h.now) {
			return nil
		}
		h.skipped = true
	}
}

// read fills in the job but for its past.
func (h *head) read(r row) {
	h.job = job.Job{
		Seq: r.int(0), Epoch: r.int(2), EnqueuedAt: r.at(3),
		New: job.New{
			Queue: h.queue, Kind: h.kind, Priority: int(h.priority), DueAt: r.at(1), Policy: r.text(4), Target: r.text(5),
			Key: r.text(6), Unique: r.text(7), DeadlineAt: r.at(8), Batch: r.text(9), Trace: r.text(10), Args: r.bytes(11),
		},
	}
	h.job.History.DeadlineAt = h.job.DeadlineAt
}

// recall fills in the past of those jobs that have one.
func (c *conn) recall(ctx context.Context, jobs []job.Job) error {
	places := map[int64]int{}
	var seqs []int64
	for i := range jobs {
		if jobs[i].Epoch > 0 {
			places[jobs[i].Seq] = i
			seqs = append(seqs, jobs[i].Seq)
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	name, args := forSeqs("past", seqs)
	return c.query(ctx, name, args, func(r row) error {
		j := &jobs[places[r.int(0)]]
		err := readPast(j, r[1:])
		j.History.Held = r.span(14)
		return err
	})
}

// merge takes the least jobs of lanes of one priority, reading no more of
// each than that.
func (p *pick) merge(heads []*head, limit int) error {
	for len(p.jobs) < limit {
		var first *head
		for _, h := range heads {
			if h.more && (first == nil || before(&h.job, &first.job)) {
				first = h
			}
		}
		if first == nil {
			return nil
		}
		first.taken = append(first.taken, taken{first.job.DueAt.UnixMicro(), first.job.Seq})
		p.jobs = append(p.jobs, first.job)
		if err := first.advance(); err != nil {
			return err
		}
	}
	return nil
}

// before orders jobs of one priority.
func before(a, b *job.Job) bool {
	if c := a.DueAt.Compare(b.DueAt); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}

// unready removes what was taken of a lane: mostly its beginning.
func (t *tx) unready(h *head) error {
	if len(h.taken) == 0 {
		return nil
	}
	if last := h.taken[len(h.taken)-1]; !h.skipped {
		_, err := t.run("unready_to", h.queue, h.kind, h.priority, last.due, last.seq)
		return err
	}
	for _, j := range h.taken {
		if _, err := t.run("unready", h.queue, h.kind, h.priority, j.due, j.seq); err != nil {
			return err
		}
	}
	return nil
}

// lease gives the jobs to the process, in the table and here. All have begun
// but suspects.
func (t *tx) lease(process int64, queue string, jobs []job.Job) error {
	t.store.claimed = len(jobs)
	now, seqs := t.instant(), make([]int64, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		j.Begun = j.History.Crashes < store.SuspectCrashes
		toRunning(j, process, now)
		seqs[i] = j.Seq
	}
	t.took(queue, len(jobs))
	if err := t.runFor("lease", seqs, process, micros(now), int64(store.SuspectCrashes)); err != nil {
		return err
	}
	return t.leaseKeys(jobs)
}

// toRunning makes a running job of a waiting one.
func toRunning(j *job.Job, process int64, now time.Time) {
	j.State, j.Process, j.LeasedAt = job.Running, process, now
	j.Epoch++
}

// took counts n jobs from queued to running.
func (t *tx) took(queue string, n int) {
	t.add(queue, job.Queued, -int64(n))
	t.add(queue, job.Running, int64(n))
}

// leaseKeys writes down the keys of those leases that have one, and reads
// their rules.
func (t *tx) leaseKeys(jobs []job.Job) error {
	seqs := keyed(jobs)
	if len(seqs) == 0 {
		return nil
	}
	if err := t.runFor("lease_keys", seqs); err != nil {
		return err
	}
	return t.keyRules(t.ctx, jobs)
}

// keyed lists the jobs that have a key.
func keyed(jobs []job.Job) (seqs []int64) {
	for i := range jobs {
		if jobs[i].Key != "" {
			seqs = append(seqs, jobs[i].Seq)
		}
	}
	return seqs
}

// keyRules reads the rules of those jobs that have a key.
func (c *conn) keyRules(ctx context.Context, jobs []job.Job) error {
	seqs := keyed(jobs)
	if len(seqs) == 0 {
		return nil
	}
	rules := map[int64]job.KeyRule{}
	name, args := forSeqs("key_rules", seqs)
	err := c.query(ctx, name, args, func(r row) error {
		rules[r.int(0)] = job.KeyRule(r.text(1))
		return nil
	})
	for i := range jobs {
		jobs[i].KeyRule = rules[jobs[i].Seq]
	}
	return err
}
