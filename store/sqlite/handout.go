package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// placed is a job that is handed out: its number, and its place among them.
type placed struct {
	seq int64
	at  int
}

// handed is jobs that were taken out of lanes.
type handed struct {
	jobs   []job.Job
	order  []placed
	unread bool // what they are is read when they are durably ours
}

// readLater is from how many jobs on they are read after the commit: who stands
// in line for the next transaction need not wait for that.
const readLater = 256

// handOut takes what the lanes give out of them, for the process.
func (l *laning) handOut(queue string, lanes []*serving) error {
	n, all := 0, true // all begin
	for _, v := range lanes {
		n += v.took
		all = all && v.begin >= v.took
	}
	if n == 0 {
		return nil
	}
	h := &handed{jobs: make([]job.Job, n), unread: all && n >= readLater}
	l.handed = append(l.handed, h)
	rest := h.jobs
	for _, v := range lanes {
		if v.took == 0 {
			continue
		}
		l.targets[v.target] = true
		v.name(queue, rest[:v.took])
		rest = rest[v.took:]
		for _, p := range v.parts {
			if err := l.unwait(p); err != nil {
				return err
			}
		}
	}
	h.order = bySeq(h.jobs)
	l.took(queue, n)
	if h.unread {
		return l.leaseUnread(h)
	}
	if err := l.readTaken(l.ctx, h); err != nil {
		return err
	}
	rest = h.jobs
	for _, v := range lanes {
		markBegun(rest[:v.took], v.begin)
		rest = rest[v.took:]
	}
	return l.leaseSome(queue, h)
}

// leaseUnread gives the jobs to the process in the table alone. All begin but
// suspects.
func (l *laning) leaseUnread(h *handed) error {
	return l.runForEach("lease_unread", h.seqs(), l.process, micros(l.instant()), int64(store.SuspectCrashes))
}

// readUnread reads what the jobs are after the commit. They are leased: nobody
// else changes them, unless the process was taken for dead meanwhile. If it
// fails, the answer of the turn is lost, as with any that the caller does not
// get: its worker adopts what it holds.
func (s *Store) readUnread(ctx context.Context, process int64, now time.Time, all []*handed) error {
	ctx = context.WithoutCancel(ctx) // the leases are ours, whoever has stopped waiting
	for _, h := range all {
		if !h.unread {
			continue
		}
		err := s.readOn(ctx, s.takers, "turn", true, func(c *conn) error {
			if err := c.readTaken(ctx, h); err != nil {
				return err
			}
			return c.keyRules(ctx, h.jobs)
		})
		if err != nil {
			return err
		}
		for i := range h.jobs {
			j := &h.jobs[i]
			j.Begun = j.History.Crashes < store.SuspectCrashes
			toRunning(j, process, now)
		}
	}
	return nil
}

// name fills in what is known of the jobs that the lane gives: where they stood.
func (v *serving) name(queue string, jobs []job.Job) {
	target := v.target
	if strings.HasPrefix(target, store.QueuePrefix) {
		target = "" // they wait for the queue itself
	}
	for i, p := range v.picks[:v.took] {
		w := p.rows[p.given]
		p.given++
		j := &jobs[i]
		j.Seq, j.Queue, j.Kind, j.Target = w.seq, queue, p.kind, target
		j.Priority, j.DueAt = int(w.priority), time.UnixMicro(w.due).UTC()
	}
}

// bySeq returns the jobs by their numbers. Lanes give theirs in their own order,
// but rows stand by number: those that follow each other are found together.
func bySeq(jobs []job.Job) []placed {
	order := make([]placed, len(jobs))
	for i := range jobs {
		order[i] = placed{jobs[i].Seq, i}
	}
	slices.SortFunc(order, func(a, b placed) int { return cmp.Compare(a.seq, b.seq) })
	return order
}

// seqs returns the numbers in their order.
func (h *handed) seqs() []int64 {
	seqs := make([]int64, len(h.order))
	for i, p := range h.order {
		seqs[i] = p.seq
	}
	return seqs
}

// readTaken fills in what the jobs are.
func (c *conn) readTaken(ctx context.Context, h *handed) error {
	read := 0
	for _, part := range orStretches(h.seqs()) {
		name, args := forSeqs("taken", part)
		err := c.query(ctx, name, args, func(r row) error {
			j := &h.jobs[h.order[read].at]
			if r.int(0) != j.Seq {
				return fmt.Errorf("sqlite: job %d was taken out of its lane and is not there", j.Seq)
			}
			read++
			j.Epoch, j.EnqueuedAt, j.Policy, j.Key, j.Unique = r.int(1), r.at(2), r.text(3), r.text(4), r.text(5)
			j.DeadlineAt, j.Batch, j.Trace, j.Args = r.at(6), r.text(7), r.text(8), r.bytes(9)
			j.History.DeadlineAt = j.DeadlineAt
			return nil
		})
		if err != nil {
			return err
		}
	}
	if read < len(h.order) {
		return fmt.Errorf("sqlite: job %d was taken out of its lane and is not there", h.order[read].seq)
	}
	return c.recall(ctx, h.jobs)
}

// markBegun marks the first n jobs that are no suspects.
func markBegun(jobs []job.Job, n int) {
	for i := range jobs {
		if n > 0 && jobs[i].History.Crashes < store.SuspectCrashes {
			jobs[i].Begun = true
			n--
		}
	}
}

// unwait removes what was taken of a part: the beginning of each priority.
func (t *tx) unwait(p *part) error {
	for i := range p.taken {
		w := p.rows[i]
		if last := i+1 == p.taken || p.rows[i+1].priority != w.priority; !last {
			continue
		}
		_, err := t.run("unwait_to", p.id, w.priority, w.due, w.seq, micros(t.instant()))
		if err != nil {
			return err
		}
	}
	return nil
}

// leaseSome is lease for jobs of lanes, of which only those begin that say so.
func (l *laning) leaseSome(queue string, h *handed) error {
	type like struct {
		epoch int64
		begun bool
	}
	now, groups := l.instant(), map[like][]int64{}
	var last like
	var seqs []int64 // of the last, which most are like
	for _, p := range h.order {
		j := &h.jobs[p.at]
		toRunning(j, l.process, now)
		if g := (like{j.Epoch, j.Begun}); g != last {
			groups[last], last, seqs = seqs, g, groups[g]
		}
		seqs = append(seqs, j.Seq)
	}
	groups[last] = seqs
	for g, seqs := range groups {
		if err := l.leaseAlike(l.process, queue, seqs, g.epoch, g.begun); err != nil {
			return err
		}
	}
	return l.leaseKeys(h.jobs)
}

// leaseAlike adds leases that differ in their numbers alone, which rise. A run
// of numbers is read from the jobs; scattered ones are told, and no job is
// looked for.
func (t *tx) leaseAlike(process int64, queue string, seqs []int64, epoch int64, begun bool) error {
	if len(seqs) == 0 {
		return nil
	}
	var err error
	if isRun(seqs) {
		_, err = t.run("lease_run", seqs[0], seqs[len(seqs)-1], process, epoch, micros(t.instant()), flag(begun), queue)
	} else {
		_, err = t.run("lease_list", jsonList(seqs), process, epoch, micros(t.instant()), flag(begun), queue)
	}
	return err
}
