package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document"
)

// documentEntry is the pages' place in the navigation.
var documentEntry = entry{"documents", "/documents", "Documents"}

// documentRoutes are the pages of documents; none where nothing processes
// them.
func (s *server) documentRoutes() map[string]handler {
	if s.Documents == nil {
		return nil
	}
	return map[string]handler{
		"GET /documents":               s.batches,
		"GET /documents/{id}":          s.document,
		"GET /batches/{id}":            s.batch,
		"POST /documents/{id}/requeue": s.ordered(s.requeueDocument),
		"POST /batches/{id}/requeue":   s.ordered(s.requeueBatch),
	}
}

// batchRow is a batch with how far it is.
type batchRow struct {
	document.Batch
	States []stateCount
	More   bool // it has more documents than were counted
	Cost   float64
	Share  float64 // of those counted, how many succeeded
}

type stateCount struct {
	State job.State
	Count int
}

type batchesBody struct {
	Batches []batchRow
	Usage   []document.Spent
	Calls   int64
	Tokens  int64
	Cost    float64
}

// maxBatches is how many batches are counted up on the page.
const maxBatches = 20

func (s *server) batches(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, document.Queue); err != nil {
		return err
	}
	list, err := s.Documents.Batches(r.Context(), maxBatches)
	if err != nil {
		return err
	}
	b := &batchesBody{}
	for i := range list {
		row, err := s.countBatch(r.Context(), list[i])
		if err != nil {
			return err
		}
		b.Batches = append(b.Batches, row)
	}
	if b.Usage, err = s.Documents.Usage(r.Context(), "", ""); err != nil {
		return err
	}
	for i := range b.Usage {
		b.Calls += b.Usage[i].Calls
		b.Tokens += b.Usage[i].Input + b.Usage[i].Output
		b.Cost += b.Usage[i].Cost
	}
	return s.show(w, r, http.StatusOK, "documents.html", page{Title: "Documents", Nav: "documents", Body: b})
}

// countBatch counts the first documents of a batch by state.
func (s *server) countBatch(ctx context.Context, b document.Batch) (batchRow, error) {
	row := batchRow{Batch: b}
	list, err := s.Documents.Documents(ctx, document.Filter{Batch: b.ID, Limit: engine.MaxLimit})
	if err != nil {
		return row, err
	}
	states := map[job.State]int{}
	for i := range list.Documents {
		states[list.Documents[i].State]++
		row.Cost += list.Documents[i].Cost
	}
	for _, state := range document.States() {
		if n := states[state]; n > 0 {
			row.States = append(row.States, stateCount{state, n})
		}
	}
	row.More = list.Next != ""
	row.Share = float64(states[job.Succeeded]) / float64(max(1, len(list.Documents)))
	return row, nil
}

type batchBody struct {
	ID        string
	State     string
	States    []string
	Documents []document.Document
	Next      string
	First     string
	Failed    bool // some shown can be queued again
}

func (s *server) batch(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, document.Queue); err != nil {
		return err
	}
	q := r.URL.Query()
	f := document.Filter{Batch: r.PathValue("id"), State: q.Get("state"), Cursor: q.Get("cursor"), Limit: pageSize}
	list, err := s.Documents.Documents(r.Context(), f)
	if err != nil {
		return err
	}
	at := "/batches/" + url.PathEscape(f.Batch)
	b := &batchBody{ID: f.Batch, State: f.State, States: states, Documents: list.Documents}
	b.Failed = slices.ContainsFunc(list.Documents, func(d document.Document) bool { return d.State == job.Failed })
	if f.Cursor != "" {
		b.First = at + "?" + url.Values{"state": {f.State}}.Encode()
	}
	if list.Next != "" {
		b.Next = at + "?" + url.Values{"state": {f.State}, "cursor": {list.Next}}.Encode()
	}
	return s.show(w, r, http.StatusOK, "batch.html", page{Title: "Batch " + f.Batch, Nav: "documents", Body: b})
}

type documentBody struct {
	document.Document
	Why     engine.Why
	Result  string
	Gone    string // why there is no result to show
	Answer  *document.RawAnswer
	Requeue bool
}

// maxShown is how much of a result is shown.
const maxShown = 64 << 10

func (s *server) document(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, document.Queue); err != nil {
		return err
	}
	id := r.PathValue("id")
	d, err := s.Documents.Document(r.Context(), id)
	if err != nil {
		return err
	}
	b := &documentBody{Document: d, Requeue: d.State == job.Failed || d.State == job.Parked}
	if b.Why, err = s.Ops.Why(r.Context(), d.Job); err != nil {
		b.Why = engine.Why{} // its job is kept no longer
	}
	if d.Stage == document.StageDone {
		if got, err := s.Documents.Result(r.Context(), id); err != nil {
			s.Log.Warn("console: result", "document", id, "error", err)
			b.Gone = "The result object could not be read. The server's log says why."
		} else {
			b.Result = indented(got)
		}
	}
	if raw, err := s.Documents.Raw(r.Context(), id); err == nil {
		b.Answer = &raw
	}
	return s.show(w, r, http.StatusOK, "document.html", page{Title: "Document " + id, Nav: "documents", Body: b})
}

func indented(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSpace(value), "", "  ") != nil {
		return string(value)
	}
	text := b.String()
	if len(text) > maxShown {
		text = text[:maxShown] + "\n…"
	}
	return text
}

func (s *server) requeueDocument(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	return s.requeue(w, r, document.Selection{IDs: []string{id}}, "/documents/"+url.PathEscape(id))
}

func (s *server) requeueBatch(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	return s.requeue(w, r, document.Selection{Batch: id}, "/batches/"+url.PathEscape(id))
}

func (s *server) requeue(w http.ResponseWriter, r *http.Request, o document.Selection, back string) error {
	if err := s.may(r, access.Operate, document.Queue); err != nil {
		return err
	}
	if _, err := s.Documents.Requeue(r.Context(), o); err != nil {
		return err
	}
	http.Redirect(w, r, back+"?done=requeued", http.StatusSeeOther)
	return nil
}
