package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// queueRow is a queue as lists show it.
type queueRow struct {
	engine.Queue
	Lag time.Duration // how long the earliest due job has been due; 0 = it is not
}

// N is the count of a state.
func (q queueRow) N(state string) int64 { return q.Counts[job.State(state)] }

type overviewBody struct {
	Verdict verdict
	Recent  engine.Recent
	Drawn   *endings
	Meter   meter
	Queues  []queueRow
	Totals  map[string]int64
	Lag     time.Duration // the longest of any queue
	LagOf   string        // the queue that has it
	Paused  int
	Kinds   []engine.Kind
	Workers []engine.Worker
	Groups  []engine.Group
	Causes  []causeRow // of dead letters
	Parked  *parkedSum
	Orders  []engine.Redrive // unfinished redrives
	// Held are the first targets that hold work back.
	Held []engine.Target
}

func (s *server) overview(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	rows, err := s.queueRows(r)
	if err != nil {
		return err
	}
	b := &overviewBody{Queues: rows, Totals: map[string]int64{}}
	for _, q := range rows {
		for state, n := range q.Counts {
			b.Totals[string(state)] += n
		}
		if q.Lag > b.Lag {
			b.Lag, b.LagOf = q.Lag, q.Name
		}
		if q.Paused {
			b.Paused++
		}
	}
	if queues(r) == nil {
		if err := s.overall(r, b); err != nil {
			return err
		}
	}
	if b.Workers, err = s.workers(ctx, queues(r)); err != nil {
		return err
	}
	groups, err := s.groups(ctx, r, engine.Filter{}, maxGroups)
	if err != nil {
		return err
	}
	b.Causes, b.Groups = deadCauses(engine.Filter{}, groups), groups[:min(len(groups), 5)]
	if b.Parked, err = s.parked(ctx, r, engine.Filter{}); err != nil {
		return err
	}
	if b.Recent, err = s.Ops.Recent(ctx, queues(r)); err != nil {
		return err
	}
	b.Drawn, b.Meter = drawEndings(&b.Recent), drawMeter(b.Recent.DeadRate(), b.Recent.Accepted)
	b.Verdict = b.judge()
	return s.show(w, r, http.StatusOK, "overview.html", page{Title: "Overview", Nav: "overview", Body: b})
}

// workers are the processes that serve one of the queues that the visitor may
// see.
func (s *server) workers(ctx context.Context, own []string) ([]engine.Worker, error) {
	all, err := s.Ops.Workers(ctx)
	return slices.DeleteFunc(all, func(w engine.Worker) bool {
		return own != nil && !slices.ContainsFunc(w.Queues, func(q string) bool { return slices.Contains(own, q) })
	}), err
}

// maxHeld is how many targets that hold work back are shown.
const maxHeld = 8

// overall adds what is of all queues: kinds, targets, redrives.
func (s *server) overall(r *http.Request, b *overviewBody) error {
	var err error
	if b.Kinds, err = s.Ops.Kinds(r.Context()); err != nil {
		return err
	}
	held, err := s.Ops.Targets(r.Context(), engine.Page{Limit: maxHeld, Held: true})
	if err != nil {
		return err
	}
	b.Held = held.Targets
	orders, err := s.Ops.Redrives(r.Context(), 20)
	if err != nil {
		return err
	}
	b.Orders = slices.DeleteFunc(orders, func(o engine.Redrive) bool { return o.Done() })
	return nil
}

// queueRows are the queues that the visitor may see.
func (s *server) queueRows(r *http.Request) ([]queueRow, error) {
	list, err := s.Ops.Queues(r.Context())
	if err != nil {
		return nil, err
	}
	own := queues(r)
	now := s.Now()
	var rows []queueRow
	for _, q := range list {
		if own != nil && !slices.Contains(own, q.Name) {
			continue
		}
		row := queueRow{Queue: q}
		if !q.DueAt.IsZero() {
			row.Lag = max(0, now.Sub(q.DueAt))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (s *server) queues(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.queueRows(r)
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "queues.html", page{Title: "Queues", Nav: "queues", Body: rows})
}

func (s *server) queue(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("name")
	if err := s.mayRead(r, name); err != nil {
		return err
	}
	q, err := s.Ops.ExplainQueue(r.Context(), name)
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "queue.html", page{Title: "Queue " + name, Nav: "queues", Body: q})
}
