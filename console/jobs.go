package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
)

// pageSize is how many rows a list has.
const pageSize = 50

// listBody is a list of jobs with the filter that selects them.
type listBody struct {
	Filter engine.Filter
	States []string
	Queues []string // the only ones to choose from; nil = any
	Jobs   []engine.Job
	Next   string // address of the rows that follow
	First  string // address of the newest, where this page is not theirs
	// Looked is how many jobs it had looked at where it ended for that, and
	// older ones may match as well; 0 = it did not.
	Looked int
}

// jobsBody is the page of all jobs.
type jobsBody struct {
	*listBody
	Classes  []string
	Known    *names // nil where not all may be seen
	Acts     []act
	Redrives bool // they can be redriven
	Parked   *parkedSum
	Bulks    []bulkSeen
}

// names are what a filter can be chosen from.
type names struct{ Kinds, Queues []string }

var states = []string{string(job.Queued), string(job.Running), string(job.Succeeded), string(job.Failed), string(job.Parked), string(job.Cancelled)}

// filter reads the filter of a list. Who may see some queues only sees one of
// them at a time.
func (s *server) filter(r *http.Request) (engine.Filter, error) {
	q := r.Form
	if q == nil {
		q = r.URL.Query()
	}
	word := func(key string) string { return strings.TrimSpace(q.Get(key)) }
	f := engine.Filter{
		State: job.State(word("state")), Kind: word("kind"), Queue: word("queue"), Target: word("target"),
		Class: word("class"), Cause: job.Cause(word("cause")), Fingerprint: word("fingerprint"), Batch: word("batch"), Key: word("key"),
	}
	if own := queues(r); own != nil && f.Queue == "" {
		f.Queue = own[0]
	}
	return f, s.mayRead(r, f.Queue)
}

func (s *server) mayRead(r *http.Request, queue string) error {
	return s.may(r, access.Read, queue)
}

// query writes a filter as filter reads it.
func query(f engine.Filter) url.Values {
	v := url.Values{}
	for key, value := range map[string]string{
		"state": string(f.State), "kind": f.Kind, "queue": f.Queue, "target": f.Target,
		"class": f.Class, "cause": string(f.Cause), "fingerprint": f.Fingerprint, "batch": f.Batch, "key": f.Key,
	} {
		if value != "" {
			v.Set(key, value)
		}
	}
	return v
}

func (s *server) jobs(w http.ResponseWriter, r *http.Request) error {
	f, err := s.filter(r)
	if err != nil {
		return err
	}
	if f.State != "" && !slices.Contains(states, string(f.State)) {
		return &refusal{http.StatusBadRequest, "The state must be one of: " + strings.Join(states, ", ") + "."}
	}
	cursor := r.URL.Query().Get("cursor")
	list, err := s.Ops.Jobs(r.Context(), f, listPage(cursor))
	if err != nil {
		return err
	}
	b := &jobsBody{
		listBody: s.list(r, "/jobs", f, list, cursor), Acts: s.offered(f.State), Bulks: s.bulks.seen(queues(r)),
		Redrives: f.State == job.Failed || f.State == job.Parked,
	}
	if f.State == job.Parked && cursor == "" {
		if b.Parked, err = s.parked(r.Context(), r, f); err != nil {
			return err
		}
	}
	for _, c := range failure.Classes() {
		b.Classes = append(b.Classes, c.String())
	}
	if queues(r) == nil {
		if b.Known, err = s.names(r.Context()); err != nil {
			return err
		}
	}
	return s.show(w, r, http.StatusOK, "jobs.html", page{Title: "Jobs", Nav: "jobs", Body: b})
}

// listPage is the part of a list that one page shows.
func listPage(cursor string) engine.Page {
	return engine.Page{Cursor: cursor, Limit: pageSize, Rows: engine.PageRows}
}

func (s *server) names(ctx context.Context) (*names, error) {
	kinds, err := s.Ops.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := s.Ops.Queues(ctx)
	n := &names{}
	for _, k := range kinds {
		n.Kinds = append(n.Kinds, k.Name)
	}
	for _, q := range queues {
		n.Queues = append(n.Queues, q.Name)
	}
	return n, err
}

func (s *server) list(r *http.Request, path string, f engine.Filter, list engine.Jobs, cursor string) *listBody {
	q := query(f)
	b := &listBody{Filter: f, States: states, Queues: queues(r), Jobs: list.Jobs}
	if list.Next != "" && len(list.Jobs) < pageSize {
		b.Looked = f.LooksAt(engine.PageRows)
	}
	if cursor != "" {
		b.First = path + "?" + q.Encode()
	}
	if list.Next != "" {
		q.Set("cursor", list.Next)
		b.Next = path + "?" + q.Encode()
	}
	return b
}

type jobBody struct {
	Job      engine.Job
	Why      engine.Why
	Attempts []engine.Attempt // newest first
	Retry    bool             // it can be retried
	Cancel   bool
}

func (s *server) job(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	j, err := s.Ops.Job(r.Context(), id)
	if err != nil {
		return err
	}
	if err := s.mayRead(r, j.Queue); err != nil {
		return err
	}
	why, err := s.Ops.Why(r.Context(), id)
	if err != nil {
		return err
	}
	attempts, err := s.Ops.Attempts(r.Context(), id)
	if err != nil {
		return err
	}
	slices.Reverse(attempts)
	b := &jobBody{
		Job: j, Why: why, Attempts: attempts,
		Retry:  j.State == job.Failed || j.State == job.Parked || j.State == job.Queued,
		Cancel: j.State == job.Queued || j.State == job.Running || j.State == job.Parked,
	}
	return s.show(w, r, http.StatusOK, "job.html", page{Title: "Job " + id, Nav: "jobs", Body: b})
}
