package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

const (
	// operationalPrefix begins the types of events that the sender itself
	// sends.
	operationalPrefix = "webhook."
	// TypeTest is the event of Test.
	TypeTest = "webhook.test"
	// TypeDisabled tells an endpoint's owner that it was disabled. It goes to
	// those endpoints of the owner, and to those without an owner, that name
	// the type.
	TypeDisabled = "webhook.endpoint.disabled"
)

const maxKey = 256

// Message is an event to be sent. Type and Payload are required.
type Message struct {
	Type string
	// Payload is sent as it is, byte by byte.
	Payload []byte
	// ContentType is the payload's. Default application/json.
	ContentType string
	Owner       string // whose endpoints get it
	// Key is an idempotency key: a second send of the same message under it
	// answers as the first did and sends nothing.
	Key string
	// Order is an ordering key: an endpoint gets the events of one Order one
	// at a time, as they were sent; one that waits for its retry holds up
	// those behind it. Empty = no order.
	Order string
	// Blocks says what a dead letter does to those behind it in its Order:
	// nothing, or it holds them up until it is redriven or dropped.
	Blocks bool
	Trace  string // W3C traceparent of the caller
}

// Event is what was sent.
type Event struct {
	ID         string    `json:"id"` // the webhook-id of all its deliveries
	Type       string    `json:"type"`
	Owner      string    `json:"owner,omitempty"`
	Key        string    `json:"key,omitempty"`
	Order      string    `json:"order,omitempty"`
	Size       int       `json:"size"` // of the payload, in bytes
	CreatedAt  time.Time `json:"created_at"`
	Fanout     int       `json:"fanout"` // how many endpoints it went to
	Deliveries []Sent    `json:"deliveries"`
	// Replayed says that the answer is an earlier send's, by its key.
	Replayed bool `json:"-"`
	// Probe tells what became of an endpoint that was held; only the answer to a
	// test has it.
	Probe *engine.Probe `json:"probe,omitempty"`
}

// Sent names one delivery of an event.
type Sent struct {
	ID       string `json:"id"`
	Endpoint string `json:"endpoint"`
}

// keyDoc is what is remembered of an idempotency key.
type keyDoc struct {
	Event string `json:"event"`
	Sum   string `json:"sum"` // of the message
	Doc   Event  `json:"doc"`
}

// Send commits an event and its deliveries, one for each endpoint of its
// owner that wants its type, and returns. ErrConflict if its Key was used for
// another message.
func (s *Service) Send(ctx context.Context, m Message) (Event, error) {
	return s.send(ctx, nil, m)
}

// SendTx is Send inside the caller's own transaction, *sql.Tx or pgx.Tx: the
// event is sent if, and only if, it commits.
func (s *Service) SendTx(ctx context.Context, tx any, m Message) (Event, error) {
	return s.send(ctx, tx, m)
}

func (s *Service) send(ctx context.Context, tx any, m Message) (Event, error) {
	if err := s.checkMessage(&m); err != nil {
		return Event{}, err
	}
	if strings.HasPrefix(m.Type, operationalPrefix) {
		return Event{}, invalid("event: type %q: types that begin with %s are the sender's own", m.Type, operationalPrefix)
	}
	docs, err := s.cache.owner(ctx, m.Owner)
	if err != nil {
		return Event{}, fmt.Errorf("webhook: event: %w", err)
	}
	var to []*endpointDoc
	for _, d := range docs {
		if d.wants(m.Type) {
			to = append(to, d)
		}
	}
	return s.commit(ctx, tx, m, to)
}

func (s *Service) checkMessage(m *Message) error {
	if err := errors.Join(checkType(m.Type), checkOwner(m.Owner)); err != nil {
		return err
	}
	for _, k := range []struct{ name, key string }{{"key", m.Key}, {"order", m.Order}} {
		if len(k.key) > maxKey || strings.ContainsRune(k.key, 0) || strings.ToValidUTF8(k.key, "") != k.key {
			return invalid("event: %s: must be UTF-8 without zero bytes, %d bytes at most", k.name, maxKey)
		}
	}
	switch {
	case len(m.Payload) > s.config.MaxPayload:
		return invalid("event: the payload has %d bytes; at most %d", len(m.Payload), s.config.MaxPayload)
	case !httpguts.ValidHeaderFieldValue(m.ContentType):
		return invalid("event: content type %q: is none", m.ContentType)
	}
	return nil
}

// sum tells messages apart that use one key.
func (m *Message) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %t\n", m.Type, m.ContentType, m.Owner, m.Order, m.Blocks)
	h.Write(m.Payload)
	return hex.EncodeToString(h.Sum(nil))
}

func keyID(owner, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", owner, key))
	return hex.EncodeToString(sum[:])
}

// commit writes the event, its key and its deliveries, or answers as before.
func (s *Service) commit(ctx context.Context, tx any, m Message, to []*endpointDoc) (Event, error) {
	if m.Key != "" {
		e, found, err := s.replay(ctx, &m)
		if found || err != nil {
			return e, err
		}
	}
	e, w, err := s.draft(&m, to)
	if err != nil {
		return Event{}, err
	}
	var answers []store.Enqueued
	if tx == nil {
		answers, err = s.store.Write(ctx, s.storeNow(), w)
	} else {
		answers, err = s.store.WriteTx(ctx, tx, s.storeNow(), w)
	}
	if errors.Is(err, store.ErrConflict) && m.Key != "" {
		e, found, again := s.replay(ctx, &m)
		if found || again != nil {
			return e, again
		}
	}
	if err != nil {
		return Event{}, fmt.Errorf("webhook: event: %w", err)
	}
	for i, a := range answers {
		e.Deliveries[i].ID = job.FormatID(a.Seq)
	}
	return e, nil
}

// draft makes the write of an event.
func (s *Service) draft(m *Message, to []*endpointDoc) (Event, store.Write, error) {
	now := s.now()
	id, err := s.newID("evt_", now)
	if err != nil {
		return Event{}, store.Write{}, err
	}
	e := Event{
		ID: id, Type: m.Type, Owner: m.Owner, Key: m.Key, Order: m.Order, Size: len(m.Payload), CreatedAt: now,
		Fanout: len(to),
	}
	body, err := json.Marshal(e)
	if err != nil {
		return Event{}, store.Write{}, err
	}
	w := store.Write{Puts: []store.Record{{Kind: recordEvent, ID: id, Ref: ownerRef(m.Owner), ExpiresAt: now.Add(s.config.EventsKept), Body: body}}}
	if m.Key != "" {
		known, err := json.Marshal(keyDoc{Event: id, Sum: m.sum(), Doc: e})
		if err != nil {
			return Event{}, store.Write{}, err
		}
		w.Puts = append(w.Puts, store.Record{Kind: recordKey, ID: keyID(m.Owner, m.Key), Ref: id, ExpiresAt: now.Add(s.config.KeysKept), Body: known})
	}
	args, err := pack(envelope{Event: id, Type: m.Type, ContentType: m.ContentType, SentAt: now}, m.Payload)
	if err != nil {
		return Event{}, store.Write{}, err
	}
	e.Deliveries = make([]Sent, len(to))
	for i, d := range to {
		e.Deliveries[i].Endpoint = d.ID
		w.Jobs = append(w.Jobs, deliveryJob(d, m, id, args))
	}
	return e, w, nil
}

func deliveryJob(d *endpointDoc, m *Message, event string, args []byte) job.New {
	n := job.New{Kind: Kind, Queue: Queue, Target: d.ID, Policy: d.policy(), Batch: event, Args: args, Trace: m.Trace}
	if m.Order != "" {
		n.Key, n.KeyRule = d.ID+" "+m.Order, job.KeySkip
		if m.Blocks {
			n.KeyRule = ""
		}
	}
	return n
}

// replay answers for a key that is known.
func (s *Service) replay(ctx context.Context, m *Message) (Event, bool, error) {
	r, err := s.store.Record(ctx, recordKey, keyID(m.Owner, m.Key))
	if errors.Is(err, store.ErrNotFound) {
		return Event{}, false, nil
	}
	if err != nil {
		return Event{}, false, fmt.Errorf("webhook: event: %w", err)
	}
	var known keyDoc
	if err := json.Unmarshal(r.Body, &known); err != nil {
		return Event{}, false, fmt.Errorf("webhook: event: key %q: its record cannot be read: %w", m.Key, err)
	}
	if known.Sum != m.sum() {
		return Event{}, true, &saidError{
			text: fmt.Sprintf("webhook: event: key %q: was used for another message, %s; use a new key for a new event", m.Key, known.Event), is: ErrConflict,
		}
	}
	known.Doc.Replayed = true
	all, err := s.sent(ctx, known.Event)
	known.Doc.Deliveries = all[:min(len(all), known.Doc.Fanout)] // what was sent anew came later
	return known.Doc, true, err
}

// sent lists the deliveries of an event in the order of its fan-out.
func (s *Service) sent(ctx context.Context, event string) ([]Sent, error) {
	list := []Sent{}
	page := store.Page{Limit: engine.MaxLimit}
	for {
		jobs, err := s.store.List(ctx, store.Filter{Kind: Kind, Batch: event}, page)
		if err != nil {
			return nil, fmt.Errorf("webhook: event: %s: %w", event, err)
		}
		for i := range jobs {
			list = append(list, Sent{ID: jobs[i].ID(), Endpoint: jobs[i].Target})
		}
		if len(jobs) < page.Limit {
			break
		}
		page.Before = jobs[len(jobs)-1].Seq
	}
	for i, k := 0, len(list)-1; i < k; i, k = i+1, k-1 {
		list[i], list[k] = list[k], list[i]
	}
	return list, nil
}

// Event returns one event with its deliveries.
func (s *Service) Event(ctx context.Context, id string) (Event, error) {
	r, err := s.store.Record(ctx, recordEvent, id)
	if errors.Is(err, store.ErrNotFound) {
		return Event{}, notFound("event", id)
	}
	if err != nil {
		return Event{}, fmt.Errorf("webhook: event: %s: %w", id, err)
	}
	e, err := eventOf(&r)
	if err != nil {
		return Event{}, err
	}
	e.Deliveries, err = s.sent(ctx, id)
	return e, err
}

func eventOf(r *store.Record) (Event, error) {
	var e Event
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return Event{}, fmt.Errorf("webhook: event: %s: its record cannot be read: %w", r.ID, err)
	}
	return e, nil
}

// Events is a part of a list; its events have no deliveries named.
type Events struct {
	Events []Event `json:"events"`
	Next   string  `json:"next,omitempty"`
}

// Events lists events from the newest.
func (s *Service) Events(ctx context.Context, f EndpointFilter, p engine.Page) (Events, error) {
	limit, err := pageLimit(p)
	if err != nil {
		return Events{}, err
	}
	filter := store.RecordFilter{Kind: recordEvent, After: p.Cursor, Down: true, Limit: limit + 1}
	if !f.AnyOwner {
		filter.Ref = ownerRef(f.Owner)
	}
	rows, err := s.store.Records(ctx, filter)
	if err != nil {
		return Events{}, fmt.Errorf("webhook: events: %w", err)
	}
	out := Events{Events: []Event{}}
	if len(rows) > limit {
		rows = rows[:limit]
		out.Next = rows[limit-1].ID
	}
	for i := range rows {
		e, err := eventOf(&rows[i])
		if err != nil {
			return Events{}, err
		}
		e.Deliveries = []Sent{}
		out.Events = append(out.Events, e)
	}
	return out, nil
}

// Test sends a signed event of type webhook.test to the endpoint alone,
// whatever types it wants.
func (s *Service) Test(ctx context.Context, id string) (Event, error) {
	doc, err := s.endpoint(ctx, id)
	if err != nil {
		return Event{}, err
	}
	payload, err := operational(TypeTest, s.now(), map[string]string{"endpoint": id})
	if err != nil {
		return Event{}, err
	}
	e, err := s.commit(ctx, nil, Message{Type: TypeTest, Payload: payload, Owner: doc.Owner}, []*endpointDoc{doc})
	if err != nil {
		return e, err
	}
	e.Probe, err = s.probeFor(ctx, id, "test event "+e.ID)
	return e, err
}

// operational is the payload of an event of our own, in the form that
// Standard Webhooks recommends.
func operational(kind string, at time.Time, content any) ([]byte, error) {
	return json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      any       `json:"data"`
	}{kind, at.UTC(), content})
}
