package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// Config is what a worker process is started with.
type Config struct {
	URL      string
	Evidence string // path
	// Kinds it handles; nil = all.
	Kinds       []Kind
	Concurrency int
	// Lease and Beat are worker.Config's; 0 = its defaults.
	Lease, Beat, Drain, Grace time.Duration
	// Elsewhere hides who the process is, as if it ran on another host: the
	// lease alone tells that it died.
	Elsewhere bool
	// Targets is the directory of the targets' moods.
	Targets string
	// Factor, if not 0, makes policy time run so much faster from Start on.
	Start  time.Time
	Factor float64
}

// Clock is the fleet's policy time.
func (c Config) Clock() clock.Clock {
	if c.Factor == 0 {
		return clock.System{}
	}
	return clock.Scaled{Start: c.Start, Factor: c.Factor}
}

// environment carries a Config to the worker program.
const environment = "EBB_CRASHTEST_WORKER"

// IsWorker reports whether this process was started as a worker.
func IsWorker() bool { return os.Getenv(environment) != "" }

// Work is the worker program. It returns its exit code.
func Work() int {
	var c Config
	err := json.Unmarshal([]byte(os.Getenv(environment)), &c)
	if err == nil {
		err = c.work(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// work runs a worker until it is told to stop: SIGTERM drains, a second one
// is faster.
func (c Config) work(ctx context.Context) (err error) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	evidence, err := OpenEvidence(c.Evidence)
	if err != nil {
		return err
	}
	s, err := Open(ctx, c.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	evidence.clock = c.Clock()
	p := &program{evidence: evidence, witness: newWitness(s, c, evidence), clock: c.Clock(), targets: c.Targets}
	config := worker.Config{
		Handlers: p.handlers(c.Kinds), Policies: Policies(c.Concurrency), Concurrency: c.Concurrency,
		Lease: c.Lease, Beat: c.Beat, Drain: c.Drain, Grace: c.Grace, Observe: p.observe,
	}
	if c.Factor != 0 {
		config.Clock = p.clock
	}
	w, err := worker.New(p.witness, config)
	if err != nil {
		return err
	}
	go func() {
		for range signals {
			w.Stop()
		}
	}()
	err = w.Run(ctx)
	p.late.Wait()
	return err
}

// program is the state of a worker process.
type program struct {
	evidence *Evidence
	witness  *witness
	clock    clock.Clock
	targets  string

	mu   sync.Mutex
	lost int64 // the process that was taken for dead; 0 = none
	late sync.WaitGroup
}

// observe turns the worker's events into evidence. What the store answered is
// the witness's to tell.
func (p *program) observe(e worker.Event) {
	what := map[worker.EventKind]What{
		worker.Registered: Registered, worker.Lost: Lost, worker.Reaped: Reaped, worker.Erred: Erred,
		worker.Draining: Draining, worker.Stopping: Stopping, worker.Stopped: Stopped, worker.Probing: Probing,
	}[e.What]
	if what == "" {
		return
	}
	text := e.Text
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	p.evidence.Add(Event{What: what, Process: e.Process, Ref: store.Ref{Seq: e.Job.Seq, Epoch: e.Job.Epoch}, Text: text})
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.What {
	case worker.Lost:
		p.lost = e.Process
	case worker.Registered:
		if lost := p.lost; lost != 0 {
			p.lost = 0
			p.late.Go(func() { p.witness.writeLate(context.Background(), lost, e.Process) })
		}
	}
}

// handlers returns those of the kinds; nil = of all.
func (p *program) handlers(kinds []Kind) map[string]worker.Handler {
	if kinds == nil {
		kinds = Kinds
	}
	all := map[string]worker.Handler{}
	for _, k := range kinds {
		all[string(k)] = p.handle
	}
	return all
}

// handle writes down that a start begins, does what the order says, and
// writes down what came of it.
func (p *program) handle(ctx context.Context, t *worker.Task) error {
	o, err := parseOrder(t.Args())
	if err != nil {
		return failure.Fatal(err)
	}
	j := t.Job()
	e := Event{Process: j.Process, Start: t.Start()}
	e.Seq, e.Epoch = j.Seq, j.Epoch
	e.What, e.Text = Started, o.Name
	p.evidence.Add(e)
	err = p.do(ctx, t, o)
	e.What, e.Text = Ended, "ok"
	if err != nil {
		e.Text = err.Error()
	}
	p.evidence.Add(e)
	return err
}

var errScripted = errors.New("scripted failure")

func (p *program) do(ctx context.Context, t *worker.Task, o Order) error {
	t.SetResult([]byte(o.Name))
	took := time.Duration(o.Millis) * time.Millisecond
	switch o.Kind {
	case Slow:
		return clock.Sleep(ctx, clock.System{}, took)
	case Steps:
		return steps(ctx, t, took)
	case Nap:
		stubborn := context.WithoutCancel(ctx)
		if err := clock.Sleep(stubborn, clock.System{}, took); err != nil {
			return err
		}
		return t.Progress(stubborn, []byte("awake"))
	case Stay:
		if err := t.Checkpoint(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	case Hold:
		<-ctx.Done()
		return context.Cause(ctx)
	case Call:
		return p.call(ctx, t, o)
	case Flaky:
		if t.Attempt() == 1 {
			return errScripted
		}
	case Hopeless:
		return errScripted
	case Fatal:
		return failure.Fatal(errScripted)
	case Bomb:
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		<-ctx.Done() // the signal is on its way
	}
	return nil
}

// lastStep is what Steps reports last.
const lastStep = "3 of 3"

// steps goes on where an earlier start came to. While the store is away, it
// waits: that is no fault of the work.
func steps(ctx context.Context, t *worker.Task, took time.Duration) error {
	reports := []string{"1 of 3", "2 of 3", lastStep}
	done := slices.Index(reports, string(t.Job().Progress)) + 1
	for _, report := range reports[done:] {
		for reported := false; !reported; {
			if err := clock.Sleep(ctx, clock.System{}, took/3); err != nil {
				return err
			}
			err := t.Progress(ctx, []byte(report))
			if errors.Is(err, worker.ErrLeaseLost) {
				return err
			}
			reported = err == nil
		}
	}
	return nil
}
