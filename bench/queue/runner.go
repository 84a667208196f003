package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/bench/child"
)

// errOnce is what a job of the load "failonce" fails with.
var errOnce = errors.New("upstream answered 503, try again")

// Runner answers requests with a queue.
type Runner struct {
	q       Queue
	numbers int64 // of the jobs enqueued so far
	served  *starts
}

// NewRunner returns a runner over a queue that is not set up yet.
func NewRunner(q Queue) *Runner { return &Runner{q: q} }

// Handle does one request.
func (r *Runner) Handle(q child.Request) (child.Answer, error) {
	ctx := context.Background()
	switch q.Op {
	case "setup":
		return child.Answer{}, r.q.Setup(ctx, q.DSN)
	case "insert":
		return timed(func() error { return r.insert(ctx, q.N, q.Batch, q.Due) })
	case "drain":
		return r.drain(ctx, q.N, AllWorkers, func(context.Context, []byte) error { return nil })
	case "failonce":
		return r.failOnce(ctx, q.N)
	case "slow":
		pause := time.Duration(q.Millis * float64(time.Millisecond))
		return r.drain(ctx, q.N, q.Workers, func(context.Context, []byte) error { time.Sleep(pause); return nil })
	case "serve":
		return child.Answer{}, r.serve(ctx)
	case "enqueue":
		return timed(func() error { return r.enqueue(ctx, q.N, q.Millis) })
	case "collect":
		values, err := r.collect(q.N)
		return child.Answer{Values: values}, err
	case "load":
		return r.load(ctx, q.Seconds, q.Batch)
	case "close":
		r.q.Close()
		return child.Answer{}, nil
	}
	return child.Answer{}, fmt.Errorf("no such order: %q", q.Op)
}

func timed(f func() error) (child.Answer, error) {
	began := time.Now()
	err := f()
	return child.Answer{Seconds: time.Since(began).Seconds()}, err
}

func (r *Runner) insert(ctx context.Context, n, batch int, due float64) error {
	jobs := make([]Job, 0, batch)
	var at time.Time
	if due > 0 {
		at = time.Now().Add(time.Duration(due * float64(time.Second)))
	}
	for n > 0 {
		jobs = jobs[:0]
		for range min(n, batch) {
			r.numbers++
			jobs = append(jobs, Job{Args: number(r.numbers), Due: at})
		}
		if err := r.q.Insert(ctx, jobs); err != nil {
			return err
		}
		n -= len(jobs)
	}
	return nil
}

// drain works until n jobs succeeded and the database has them all. Stopping
// is not timed.
func (r *Runner) drain(ctx context.Context, n, workers int, handle Handler) (child.Answer, error) {
	var done atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	stop, err := r.q.Work(ctx, workers, func(ctx context.Context, args []byte) error {
		if err := handle(ctx, args); err != nil {
			return err
		}
		if done.Add(1) == int64(n) {
			close(all)
		}
		return nil
	})
	if err != nil {
		return child.Answer{}, err
	}
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		return child.Answer{}, fmt.Errorf("only %d of %d jobs ran within 2 minutes", done.Load(), n)
	}
	if err := r.settled(ctx); err != nil {
		return child.Answer{}, err
	}
	took := time.Since(began).Seconds()
	return child.Answer{Seconds: took}, stop()
}

// settled waits until the database knows no unfinished job.
func (r *Runner) settled(ctx context.Context) error {
	for {
		left, err := r.q.Left(ctx)
		if err != nil || !left {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func (r *Runner) failOnce(ctx context.Context, n int) (child.Answer, error) {
	failed := make([]atomic.Bool, r.numbers+1)
	return r.drain(ctx, n, AllWorkers, func(_ context.Context, args []byte) error {
		if !failed[numberOf(args)].Swap(true) {
			return errOnce
		}
		return nil
	})
}

// starts notes how long after its enqueue each job started.
type starts struct {
	mu     sync.Mutex
	millis []float64
	stop   func() error
}

func (r *Runner) serve(ctx context.Context) (err error) {
	s := &starts{}
	r.served = s
	s.stop, err = r.q.Work(ctx, AllWorkers, func(_ context.Context, args []byte) error {
		now := time.Now().UnixMicro()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.millis = append(s.millis, float64(now-numberOf(args))/1000)
		return nil
	})
	return err
}

// enqueue adds single jobs that carry the instant before their enqueue.
func (r *Runner) enqueue(ctx context.Context, n int, millis float64) error {
	for range n {
		time.Sleep(time.Duration(millis * float64(time.Millisecond)))
		if err := r.q.Insert(ctx, []Job{{Args: number(time.Now().UnixMicro())}}); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) collect(n int) ([]float64, error) {
	s := r.served
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		have := len(s.millis)
		s.mu.Unlock()
		if have >= n {
			break
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("only %d of %d jobs started", have, n), s.stop())
		}
	}
	return s.millis, s.stop()
}

// backlog is how many jobs the load keeps ready.
const backlog = 20_000

// load enqueues and drains at once for some seconds: the rates of each second.
func (r *Runner) load(ctx context.Context, seconds float64, batch int) (child.Answer, error) {
	var done, added atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.insert(ctx, backlog, batch, 0); err != nil {
		return child.Answer{}, err
	}
	added.Store(backlog)
	stop, err := r.q.Work(ctx, AllWorkers, func(context.Context, []byte) error { done.Add(1); return nil })
	if err != nil {
		return child.Answer{}, err
	}
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if added.Load()-done.Load() >= backlog {
				time.Sleep(time.Millisecond)
				continue
			}
			if err := r.insert(ctx, batch, batch, 0); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
			added.Add(int64(batch))
		}
		ended <- nil
	}()
	var a child.Answer
	began, last := time.Now(), int64(0)
	for time.Since(began).Seconds() < seconds && len(ended) == 0 {
		time.Sleep(time.Second)
		now := done.Load()
		a.Values, last = append(a.Values, float64(now-last)), now
	}
	a.Seconds = time.Since(began).Seconds()
	stopErr := stop()
	cancel()
	return a, errors.Join(stopErr, <-ended)
}
