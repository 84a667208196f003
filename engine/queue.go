package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Queue is one queue with its counts.
type Queue struct {
	Name   string              `json:"name"`
	Paused bool                `json:"paused"`
	Strict bool                `json:"strict"`
	Counts map[job.State]int64 `json:"counts"` // every state has its row
	// DueAt is the earliest due time of a queued job; zero = none waits.
	DueAt time.Time `json:"due_at,omitzero"`
	// Limit bounds it over all processes; nil = nothing does.
	Limit *QueueLimit `json:"limit,omitempty"`
}

// QueueExplained is a queue with who serves it and why nothing moves.
type QueueExplained struct {
	Queue
	// Lag is how long the oldest due job has been due.
	Lag      float64   `json:"lag_s"`
	PausedAt time.Time `json:"paused_at,omitzero"`
	PausedBy string    `json:"paused_by,omitempty"`
	Workers  []Worker  `json:"workers"`
	// Holder is the running job of a strict queue.
	Holder  *Job     `json:"holder,omitempty"`
	Moves   bool     `json:"moves"` // something runs, or will at once
	Reasons []Reason `json:"reasons"`
	Text    string   `json:"text"`
}

// Worker is a registered process.
type Worker struct {
	Process int64    `json:"process"`
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
	Kinds   []string `json:"kinds"`
	Queues  []string `json:"queues"`
	Alive   bool     `json:"alive"`
	// HeartbeatAge is how long it has been silent.
	HeartbeatAge float64   `json:"heartbeat_age_s"`
	SeenAt       time.Time `json:"seen_at"`
	BornAt       time.Time `json:"born_at"`
	Version      string    `json:"version,omitempty"`
}

func queueOf(q *store.QueueState) Queue {
	out := Queue{Name: q.Name, Paused: q.Paused, Strict: q.Strict, Counts: map[job.State]int64{}, DueAt: utc(q.DueAt)}
	for _, s := range job.States() {
		out.Counts[s] = q.Counts[s]
	}
	if l := q.Limit; l != (store.QueueLimit{}) {
		out.Limit = &QueueLimit{Concurrency: l.Concurrency, Rate: l.Rate}
	}
	return out
}

// Queues lists all queues by name.
func (e *Engine) Queues(ctx context.Context) ([]Queue, error) {
	rows, err := e.store.Queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	list := make([]Queue, len(rows))
	for i := range rows {
		list[i] = queueOf(&rows[i])
	}
	slices.SortFunc(list, func(a, b Queue) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// PauseQueue holds a queue back; one that holds no job yet can be paused too.
func (e *Engine) PauseQueue(ctx context.Context, name string) (Queue, error) {
	return e.setPaused(ctx, name, true)
}

// ResumeQueue lets a paused queue go. One that nobody knows is not found.
func (e *Engine) ResumeQueue(ctx context.Context, name string) (Queue, error) {
	if _, known, err := e.queueState(ctx, name); err != nil || !known {
		return Queue{}, noQueue(name, err)
	}
	return e.setPaused(ctx, name, false)
}

func (e *Engine) setPaused(ctx context.Context, name string, paused bool) (Queue, error) {
	if err := checkName("queue", name, maxName); err != nil {
		return Queue{}, err
	}
	if err := e.store.PauseQueue(ctx, e.storeNow(), e.by(ctx), name, paused); err != nil {
		return Queue{}, fmt.Errorf("queue: %s: %w", name, err)
	}
	q, _, err := e.queueState(ctx, name)
	if err != nil {
		return Queue{}, fmt.Errorf("queue: %s: %w", name, err)
	}
	return queueOf(&q), nil
}

// noQueue is the error of a queue that could not be read, or does not exist.
func noQueue(name string, err error) error {
	if err != nil {
		return fmt.Errorf("queue: %s: %w", name, err)
	}
	return &unknownError{text: fmt.Sprintf("queue: %s: no such queue: no job was ever put there", name)}
}

// ExplainQueue tells what is in a queue, who serves it, and why nothing moves.
func (e *Engine) ExplainQueue(ctx context.Context, name string) (QueueExplained, error) {
	g := &queueFacts{lease: e.lease}
	var known bool
	var err error
	if g.state, known, err = e.queueState(ctx, name); err != nil || !known {
		return QueueExplained{}, noQueue(name, err)
	}
	if err := e.gatherQueue(ctx, g); err != nil {
		return QueueExplained{}, fmt.Errorf("queue: %s: %w", name, err)
	}
	return explainQueue(g), nil
}

func (e *Engine) gatherQueue(ctx context.Context, g *queueFacts) (err error) {
	if g.now, err = e.now(ctx); err != nil {
		return err
	}
	if g.processes, err = e.store.Processes(ctx); err != nil {
		return err
	}
	rows, err := e.store.Audit(ctx, auditLimit)
	if err != nil {
		return err
	}
	g.paused = pausedBy(rows, g.state.QueueRule)
	if g.state.Strict {
		if g.holder, err = e.strictHolder(ctx, g.state.Name); err != nil {
			return err
		}
	}
	if g.state.Counts[job.Queued] > 0 {
		g.waiting, err = e.store.List(ctx, store.Filter{Queue: g.state.Name, State: job.Queued}, store.Page{Limit: sampleLimit})
		if err != nil {
			return err
		}
	}
	return e.gatherQueueFlow(ctx, g, rows)
}
