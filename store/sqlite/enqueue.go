package sqlite

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Enqueue adds the jobs, all or none.
func (s *Store) Enqueue(ctx context.Context, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	now = at(now)
	prepared, err := prepare(now, jobs)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	var answers []store.Enqueued
	err = s.write(ctx, "enqueue", now, func(t *tx) (err error) {
		answers, err = t.enqueue(prepared)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// prepare checks all jobs before anything is written.
func prepare(now time.Time, jobs []job.New) ([]job.New, error) {
	prepared := make([]job.New, len(jobs))
	for i, n := range jobs {
		var err error
		if prepared[i], err = store.Prepare(now, n); err != nil {
			return nil, err
		}
	}
	return prepared, nil
}

// enqueue inserts the jobs whose unique keys are free. The write lock is
// held, so sequence numbers can be counted here.
func (t *tx) enqueue(jobs []job.New) ([]store.Enqueued, error) {
	last, err := t.one(t.ctx, "last_seq")
	if err != nil {
		return nil, err
	}
	next := int64(1)
	if last != nil {
		next = last.int(0) + 1
	}
	answers := make([]store.Enqueued, len(jobs))
	fresh := make([]job.New, 0, len(jobs))
	u := uniques{tx: t, first: next}
	for i := range jobs {
		if n := &jobs[i]; n.Unique != "" {
			seq, err := u.taken(n, fresh)
			if err != nil {
				return nil, err
			}
			if seq != 0 {
				answers[i] = store.Enqueued{Seq: seq, Existing: true}
				continue
			}
		}
		answers[i].Seq = next + int64(len(fresh))
		fresh = append(fresh, jobs[i])
	}
	if err := t.insert(next, fresh); err != nil {
		return nil, err
	}
	return answers, u.keep(fresh)
}

// insert adds the jobs under consecutive numbers: runs of jobs that differ in
// their args alone by one statement, which is three times as fast as one each.
func (t *tx) insert(first int64, jobs []job.New) error {
	if len(jobs) == 0 {
		return nil
	}
	next, all := first, jobs
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && alike(&jobs[0], &jobs[n]) {
			n++
		}
		run := jobs[:n]
		if n < minAlike {
			run = jobs[:1]
		}
		if err := t.insertRun(next, run); err != nil {
			return err
		}
		next += int64(len(run))
		jobs = jobs[len(run):]
	}
	return t.place(first, all)
}

// place lets new jobs of known queues wait where they belong.
func (t *tx) place(first int64, jobs []job.New) error {
	plain := true
	for i := range jobs {
		n := &jobs[i]
		plain = plain && n.Target == "" && n.Key == "" && !t.queues[n.Queue].limited()
	}
	if plain {
		_, err := t.run("ready"+asRun, first, first+int64(len(jobs))-1)
		return err
	}
	queues := map[string][]int64{}
	for i := range jobs {
		queues[jobs[i].Queue] = append(queues[jobs[i].Queue], first+int64(i))
	}
	for queue, seqs := range queues {
		if err := t.shelve(queue, seqs, false); err != nil {
			return err
		}
	}
	return nil
}

// alike reports whether two jobs differ in their args alone. Of unique ones
// no two do.
func alike(a, b *job.New) bool {
	return a.Unique == "" && b.Unique == "" && a.Kind == b.Kind && a.Queue == b.Queue && a.Priority == b.Priority &&
		a.DueAt.Equal(b.DueAt) && a.Policy == b.Policy && a.Target == b.Target && a.Key == b.Key && a.KeyRule == b.KeyRule &&
		a.DeadlineAt.Equal(b.DeadlineAt) && a.Batch == b.Batch && a.Trace == b.Trace
}

func (t *tx) insertRun(first int64, run []job.New) error {
	n := &run[0]
	q, err := t.queue(n.Queue)
	if err != nil {
		return err
	}
	if !q.exists {
		if _, err := t.run("queue_add", n.Queue); err != nil {
			return err
		}
		q.exists = true
	}
	t.add(n.Queue, job.Queued, int64(len(run)))
	same := []any{
		first, n.Queue, n.Kind, int64(n.Priority), micros(n.DueAt), micros(t.instant()), n.Policy,
		orNull(n.Target), orNull(n.Key), orNull(n.Unique), micros(n.DeadlineAt), orNull(n.Batch), orNull(n.Trace),
	}
	if len(run) == 1 {
		_, err = t.run("enqueue_one", append(same, orEmpty(n.Args))...)
	} else {
		places, bytes := make([]int64, len(run)), []byte{0} // of an empty blob substr would make NULL
		for i := range run {
			places[i] = int64(len(bytes))<<32 | int64(len(run[i].Args))
			bytes = append(bytes, run[i].Args...)
		}
		_, err = t.run("enqueue_alike", append([]any{jsonList(places), bytes}, same...)...)
	}
	if err != nil || n.KeyRule == job.KeyBlock {
		return err
	}
	_, err = t.run("key_rule"+asRun, first, first+int64(len(run))-1, string(n.KeyRule))
	return err
}
