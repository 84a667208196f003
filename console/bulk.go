package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

const (
	// bulkStep is how many jobs an act on all that match takes at a time.
	bulkStep = 200
	// maxCounted is how far a dry run counts; beyond it says "more than".
	maxCounted = 10_000
	// maxBulk is how many such acts run at a time, and maxKept how many ended
	// ones are still shown.
	maxBulk = 2
	maxKept = 5
)

// act is what can be done to all jobs that match.
type act struct {
	Name   string // in forms
	Word   string // "Cancel"
	Done   string // "cancelled"
	Text   string
	states []job.State // that it can be done to
	do     func(context.Context, string) (engine.Job, error)
}

func (s *server) acts() []act {
	return []act{
		{
			"cancel", "Cancel", "cancelled", "What waits or is parked ends now; what runs is told to stop. Jobs that are enqueued from now on are left alone.",
			[]job.State{job.Queued, job.Running, job.Parked},
			s.Ops.Cancel,
		},
		{
			"run", "Run now", "due now", "What waits for its due time becomes due now, with its attempts as they are. Gates, limits and pauses still hold it.",
			[]job.State{job.Queued},
			s.Ops.Retry,
		},
	}
}

// offered are the acts on a list of that state.
func (s *server) offered(state job.State) []act {
	return slices.DeleteFunc(s.acts(), func(a act) bool { return state != "" && !slices.Contains(a.states, state) })
}

// of narrows the filter to each state that the act can be done to.
func (a *act) of(f engine.Filter) (list []engine.Filter) {
	for _, state := range a.states {
		if one := f; f.State == "" || f.State == state {
			one.State = state
			list = append(list, one)
		}
	}
	return list
}

// bulk is one act on all that match. It is carried out by this server, step
// by step; when the server stops, what was done is done and the rest is not.
type bulk struct {
	ID      int
	Act     act
	Filter  engine.Filter
	Actor   string
	StartAt time.Time

	mu      sync.Mutex
	done    int
	refused int // whose state had changed meanwhile
	ended   bool
	stopped bool
	failed  bool
	stop    context.CancelFunc
}

// bulkSeen is a bulk as a page shows it.
type bulkSeen struct {
	ID            int
	Act           act
	Filter        engine.Filter
	Actor         string
	StartAt       time.Time
	Done, Refused int
	State         string // running | done | stopped | failed
}

func (b *bulk) seen() bulkSeen {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := bulkSeen{ID: b.ID, Act: b.Act, Filter: b.Filter, Actor: b.Actor, StartAt: b.StartAt, Done: b.done, Refused: b.refused, State: "running"}
	switch {
	case b.failed:
		out.State = "failed"
	case b.stopped:
		out.State = "stopped"
	case b.ended:
		out.State = "done"
	}
	return out
}

// bulks are the acts of this server, newest first.
type bulks struct {
	mu   sync.Mutex
	last int
	list []*bulk
}

// begin adds an act, unless too many are under way.
func (l *bulks) begin(b *bulk) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	under, over := 0, 0
	l.list = slices.DeleteFunc(l.list, func(o *bulk) bool {
		if o.seen().State == "running" {
			under++
			return false
		}
		over++
		return over > maxKept
	})
	if under >= maxBulk {
		return false
	}
	l.last++
	b.ID = l.last
	l.list = slices.Insert(l.list, 0, b)
	return true
}

// seen are those of the queues; nil = all.
func (l *bulks) seen(queues []string) []bulkSeen {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []bulkSeen
	for _, b := range l.list {
		if queues == nil || slices.Contains(queues, b.Filter.Queue) {
			list = append(list, b.seen())
		}
	}
	return list
}

type bulkBody struct {
	Act      act
	Filter   engine.Filter
	Matching int
	More     bool
}

// all does something to all jobs that match: it counts first and shows what it
// would do; a second form orders it.
func (s *server) all(w http.ResponseWriter, r *http.Request) error {
	f, err := s.filter(r)
	if err != nil {
		return err
	}
	if err := s.may(r, access.Operate, f.Queue); err != nil {
		return err
	}
	acts := s.acts()
	at := slices.IndexFunc(acts, func(a act) bool { return a.Name == r.PostForm.Get("act") })
	if at < 0 {
		return &refusal{http.StatusBadRequest, "The act is cancel or run."}
	}
	a := acts[at]
	if len(a.of(f)) == 0 {
		return &refusal{http.StatusBadRequest, sentence("jobs that are " + string(f.State) + " cannot be " + a.Done)}
	}
	if r.PostForm.Get("sure") == "" {
		b := &bulkBody{Act: a, Filter: f}
		if b.Matching, b.More, err = s.matching(r.Context(), a.of(f)); err != nil {
			return err
		}
		return s.show(w, r, http.StatusOK, "bulk.html", page{Title: a.Word + " all that match", Nav: "jobs", Body: b})
	}
	who, _ := access.PrincipalOf(r.Context())
	ctx, stop := context.WithCancel(engine.WithoutProbe(context.WithoutCancel(r.Context())))
	b := &bulk{Act: a, Filter: f, Actor: who.Name, StartAt: s.Now(), stop: stop}
	if !s.bulks.begin(b) {
		stop()
		return &refusal{http.StatusTooManyRequests, "Other acts on all that match are under way: wait until one has ended, or stop it."}
	}
	go s.carryOut(ctx, b)
	http.Redirect(w, r, "/jobs?"+withDone(f, "begun"), http.StatusSeeOther)
	return nil
}

func withDone(f engine.Filter, done string) string {
	q := query(f)
	q.Set("done", done)
	return q.Encode()
}

// matching counts in parts, up to a bound.
func (s *server) matching(ctx context.Context, filters []engine.Filter) (n int, more bool, err error) {
	for _, f := range filters {
		for looks, page := 0, (engine.Page{Limit: engine.MaxLimit, Rows: engine.PageRows}); ; looks++ {
			list, err := s.Ops.Jobs(ctx, f, page)
			if err != nil {
				return 0, false, err
			}
			n += len(list.Jobs)
			if list.Next == "" {
				break
			}
			if n >= maxCounted || looks >= maxCounted/engine.MaxLimit {
				return min(n, maxCounted), true, nil
			}
			page.Cursor = list.Next
		}
	}
	return n, false, nil
}

// carryOut walks from the newest job that there was when it began down to the
// oldest. Each job is one order of its own, in the audit under its actor.
func (s *server) carryOut(ctx context.Context, b *bulk) {
	defer b.stop()
	var err error
	for _, f := range b.Act.of(b.Filter) {
		if err = s.carryOutOf(ctx, b, f); err != nil {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	switch {
	case ctx.Err() != nil:
		b.stopped = true
	case err != nil:
		b.failed = true
		s.Log.Error("console: "+b.Act.Name+" all that match", "actor", b.Actor, "done", b.done, "error", err)
	}
}

func (s *server) carryOutOf(ctx context.Context, b *bulk, f engine.Filter) error {
	for page := (engine.Page{Limit: bulkStep, Rows: engine.PageRows}); ; {
		list, err := s.Ops.Jobs(ctx, f, page)
		if err != nil {
			return err
		}
		for i := range list.Jobs {
			_, err := b.Act.do(ctx, list.Jobs[i].ID)
			refused := errors.Is(err, engine.ErrState) || errors.Is(err, engine.ErrNotFound)
			if err != nil && !refused {
				return err
			}
			b.mu.Lock()
			if refused {
				b.refused++
			} else {
				b.done++
			}
			b.mu.Unlock()
		}
		if page.Cursor = list.Next; list.Next == "" {
			return nil
		}
	}
}

// stopAll ends an act on all that match where it is.
func (s *server) stopAll(w http.ResponseWriter, r *http.Request) error {
	id, err := strconv.Atoi(r.PostForm.Get("id"))
	if err != nil {
		return &refusal{http.StatusBadRequest, "The act is named by its number."}
	}
	s.bulks.mu.Lock()
	at := slices.IndexFunc(s.bulks.list, func(b *bulk) bool { return b.ID == id })
	var b *bulk
	if at >= 0 {
		b = s.bulks.list[at]
	}
	s.bulks.mu.Unlock()
	if b == nil {
		return &refusal{http.StatusNotFound, "There is no such act any more."}
	}
	if err := s.may(r, access.Operate, b.Filter.Queue); err != nil {
		return err
	}
	b.stop()
	http.Redirect(w, r, "/jobs?"+withDone(b.Filter, "stopped"), http.StatusSeeOther)
	return nil
}
