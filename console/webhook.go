package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/webhook"
)

// webhookEntry is the pages' place in the navigation.
var webhookEntry = entry{"endpoints", "/endpoints", "Webhooks"}

// webhookRoutes are the pages of webhooks; none where nothing sends them.
func (s *server) webhookRoutes() map[string]handler {
	if s.Webhooks == nil {
		return nil
	}
	return map[string]handler{
		"GET /endpoints":                s.endpoints,
		"POST /endpoints":               s.ordered(s.addEndpoint),
		"GET /endpoints/{id}":           s.endpoint,
		"POST /endpoints/{id}/pause":    s.ordered(s.pauseEndpoint),
		"POST /endpoints/{id}/resume":   s.ordered(s.resumeEndpoint),
		"POST /endpoints/{id}/disable":  s.ordered(s.disableEndpoint),
		"POST /endpoints/{id}/rotate":   s.ordered(s.rotateEndpoint),
		"POST /endpoints/{id}/test":     s.ordered(s.testEndpoint),
		"GET /deliveries/{id}":          s.delivery,
		"POST /deliveries/{id}/redrive": s.ordered(s.redriveDelivery),
	}
}

// sampled is how many of the newest deliveries rates are told from: they are
// read whole, payloads too, whenever the page is.
const sampled = 300

// record is how deliveries to an endpoint ended lately.
type record struct{ OK, Ended int }

// Rate is the share that succeeded.
func (r record) Rate() float64 { return float64(r.OK) / float64(max(r.Ended, 1)) }

// Mood is the class of the rate's badge.
func (r record) Mood() string {
	switch {
	case r.Ended == 0:
		return ""
	case r.Rate() >= 0.98:
		return "ok"
	case r.Rate() >= 0.8:
		return "warn"
	}
	return "bad"
}

// records tells how the newest deliveries ended, by endpoint: one look that
// does not depend on how many endpoints there are.
func (s *server) records(ctx context.Context) (map[string]record, error) {
	list, err := s.Webhooks.Deliveries(ctx, webhook.DeliveryFilter{}, engine.Page{Limit: sampled})
	if err != nil {
		return nil, err
	}
	out := map[string]record{}
	for i := range list.Deliveries {
		d := &list.Deliveries[i]
		r := out[d.Endpoint]
		switch d.State {
		case job.Succeeded:
			r.OK++
			r.Ended++
		case job.Failed:
			r.Ended++
		default:
			continue
		}
		out[d.Endpoint] = r
	}
	return out, nil
}

// endpointRow is an endpoint with what its gate and its deliveries say.
type endpointRow struct {
	webhook.Endpoint
	Record record
	Target engine.Target
}

// Mood is the class of the state's badge.
func (e *endpointRow) Mood() string { return mood(e.State) }

func mood(s webhook.State) string {
	switch s {
	case webhook.Enabled:
		return "ok"
	case webhook.Paused:
		return "warn"
	}
	return "bad"
}

type endpointsBody struct {
	Endpoints  []endpointRow
	Next       string
	First      string
	Owner      string
	AnyOwner   bool
	Sampled    int
	URL, Types string // of a form that was refused
	Wrong      string
}

func (s *server) endpoints(w http.ResponseWriter, r *http.Request) error {
	return s.showEndpoints(w, r, http.StatusOK, &endpointsBody{})
}

func (s *server) showEndpoints(w http.ResponseWriter, r *http.Request, status int, b *endpointsBody) error {
	if err := s.mayRead(r, webhook.Queue); err != nil {
		return err
	}
	q := r.URL.Query()
	b.Sampled, b.Owner = sampled, strings.TrimSpace(q.Get("owner"))
	b.AnyOwner = b.Owner == ""
	cursor := q.Get("cursor")
	list, err := s.Webhooks.List(r.Context(), webhook.EndpointFilter{Owner: b.Owner, AnyOwner: b.AnyOwner}, engine.Page{Cursor: cursor, Limit: pageSize})
	if err != nil {
		return err
	}
	if b.Endpoints, err = s.rows(r.Context(), list.Endpoints); err != nil {
		return err
	}
	at := func(cursor string) string {
		v := url.Values{}
		if b.Owner != "" {
			v.Set("owner", b.Owner)
		}
		if cursor != "" {
			v.Set("cursor", cursor)
		}
		return "/endpoints?" + v.Encode()
	}
	if cursor != "" {
		b.First = at("")
	}
	if list.Next != "" {
		b.Next = at(list.Next)
	}
	return s.show(w, r, status, "webhook_endpoints.html", page{Title: "Webhooks", Nav: webhookEntry.Name, Body: b})
}

// rows adds to endpoints what their gates and deliveries say. Their ids follow
// each other, so one list of targets has all their gates.
func (s *server) rows(ctx context.Context, list []webhook.Endpoint) ([]endpointRow, error) {
	if len(list) == 0 {
		return nil, nil
	}
	records, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	first := list[0].ID
	targets, err := s.Ops.Targets(ctx, engine.Page{Cursor: first[:len(first)-1], Limit: engine.MaxLimit})
	if err != nil {
		return nil, err
	}
	gates := map[string]engine.Target{}
	for i := range targets.Targets {
		gates[targets.Targets[i].Name] = targets.Targets[i]
	}
	rows := make([]endpointRow, len(list))
	for i := range list {
		rows[i] = endpointRow{Endpoint: list[i], Record: records[list[i].ID], Target: gates[list[i].ID]}
	}
	return rows, nil
}

type endpointBody struct {
	endpointRow
	Reasons    []engine.Reason
	Deliveries []webhook.Delivery
	State      string // that the list is of
	States     []string
	Next       string
	First      string
}

func (s *server) endpoint(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, webhook.Queue); err != nil {
		return err
	}
	ctx, id := r.Context(), r.PathValue("id")
	e, err := s.Webhooks.Show(ctx, id)
	if err != nil {
		return err
	}
	b := &endpointBody{endpointRow: endpointRow{Endpoint: e}, State: strings.TrimSpace(r.URL.Query().Get("state")), States: states}
	t, err := s.Ops.Target(ctx, id)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	b.Target, b.Reasons = t.Target, t.Reasons
	cursor := r.URL.Query().Get("cursor")
	list, err := s.Webhooks.Deliveries(ctx, webhook.DeliveryFilter{Endpoint: id, State: job.State(b.State)}, engine.Page{Cursor: cursor, Limit: pageSize})
	if err != nil {
		return err
	}
	b.Deliveries = list.Deliveries
	records, err := s.records(ctx)
	if err != nil {
		return err
	}
	b.Record = records[id]
	at := "/endpoints/" + url.PathEscape(id) + "?state=" + url.QueryEscape(b.State)
	if cursor != "" {
		b.First = at
	}
	if list.Next != "" {
		b.Next = at + "&cursor=" + url.QueryEscape(list.Next)
	}
	return s.show(w, r, http.StatusOK, "webhook_endpoint.html", page{Title: "Endpoint " + e.URL, Nav: webhookEntry.Name, Body: b})
}
