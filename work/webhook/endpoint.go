package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
)

// NewEndpoint is an endpoint to be added. Only URL is required.
type NewEndpoint struct {
	URL         string `json:"url"`
	Description string `json:"description,omitempty"`
	// Owner is whose it is, such as a customer's id: an event goes to the
	// endpoints of its own owner. Empty is an owner too.
	Owner string `json:"owner,omitempty"`
	// Types are the events it wants: "invoice.paid", or "invoice.*" for all
	// that begin so. None = all but operational ones, which must be named.
	Types []string `json:"types,omitempty"`
	// Headers are sent with every call. Their values are kept sealed and never
	// shown.
	Headers map[string]string `json:"headers,omitempty"`
	// Secret is brought along from elsewhere: whsec_ and base64. Empty = one
	// is made.
	Secret string `json:"secret,omitempty"`
	// Policy is one of its own; it needs Config.EndpointPolicies.
	Policy string `json:"policy,omitempty"`
}

// State says whether an endpoint takes deliveries.
type State string

const (
	Enabled  State = "enabled"
	Paused   State = "paused"   // deliveries wait
	Disabled State = "disabled" // deliveries are parked
)

// Endpoint is where events go.
type Endpoint struct {
	ID          string   `json:"id"`
	URL         string   `json:"url"`
	Description string   `json:"description,omitempty"`
	Owner       string   `json:"owner,omitempty"`
	Types       []string `json:"types,omitempty"`
	Headers     []string `json:"headers,omitempty"` // names alone
	Policy      string   `json:"policy"`
	State       State    `json:"state"`
	// Reason is why it is not enabled.
	Reason string `json:"reason,omitempty"`
	// PausedUntil ends a pause; zero = until it is resumed.
	PausedUntil time.Time `json:"paused_until,omitzero"`
	Secrets     []Secret  `json:"secrets"` // newest first
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	// FailingSince is since when nothing has succeeded, as far as upkeep has
	// seen; Failures counts the attempts that failed since.
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failures     int       `json:"failures,omitempty"`
	// Probe tells that the endpoint is called now, though its breaker or a
	// Retry-After held it; only the answer to a resume has it.
	Probe *engine.Probe `json:"probe,omitempty"`
}

// endpointDoc is an endpoint as it is kept.
type endpointDoc struct {
	ID          string         `json:"id"`
	URL         string         `json:"url"`
	Description string         `json:"description,omitempty"`
	Owner       string         `json:"owner,omitempty"`
	Types       []string       `json:"types,omitempty"`
	Headers     []byte         `json:"headers,omitempty"` // sealed
	HeaderNames []string       `json:"header_names,omitempty"`
	Policy      string         `json:"policy,omitempty"`
	Secrets     []storedSecret `json:"secrets"` // newest first
	PauseReason string         `json:"pause_reason,omitempty"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`

	version int64 // of its record
}

func (d *endpointDoc) policy() string {
	if d.Policy == "" {
		return PolicyName
	}
	return d.Policy
}

// wants reports whether the endpoint gets events of the type. Operational
// ones it must have asked for by name.
func (d *endpointDoc) wants(kind string) bool {
	operational := strings.HasPrefix(kind, operationalPrefix)
	if len(d.Types) == 0 {
		return !operational
	}
	return slices.ContainsFunc(d.Types, func(t string) bool {
		start, wild := strings.CutSuffix(t, "*")
		if !wild {
			return t == kind
		}
		return strings.HasPrefix(kind, start) && (!operational || strings.HasPrefix(start, operationalPrefix))
	})
}

// ownerRef is what the records of an owner refer to; never empty, since an
// empty reference selects all.
func ownerRef(owner string) string { return "owner:" + owner }

// Add adds an endpoint and returns it with its secret: this once, in the
// clear.
func (s *Service) Add(ctx context.Context, n NewEndpoint) (Endpoint, string, error) {
	if err := errors.Join(s.checkURL(n.URL), checkTypes(n.Types), checkHeaders(n.Headers), checkOwner(n.Owner), checkText("description", n.Description), s.policyFor(n.Policy)); err != nil {
		return Endpoint{}, "", err
	}
	now := s.now()
	id, err := s.newID("ep_", now)
	if err != nil {
		return Endpoint{}, "", err
	}
	secret, err := s.newSecret(n.Secret)
	if err != nil {
		return Endpoint{}, "", err
	}
	doc := &endpointDoc{
		ID: id, URL: n.URL, Description: n.Description, Owner: n.Owner, Types: n.Types,
		HeaderNames: slices.Sorted(maps.Keys(n.Headers)), Policy: n.Policy, CreatedAt: now, UpdatedAt: now,
	}
	kept, err := s.sealSecret(id, secret, now)
	if err != nil {
		return Endpoint{}, "", err
	}
	doc.Secrets = []storedSecret{kept}
	if doc.Headers, err = s.sealHeaders(id, n.Headers); err != nil {
		return Endpoint{}, "", err
	}
	if err := s.put(ctx, doc, "webhook.endpoint.add", n.URL); err != nil {
		return Endpoint{}, "", err
	}
	e, err := s.Show(ctx, id)
	return e, secret, err
}

// put writes the endpoint and counts the change of its owner's.
func (s *Service) put(ctx context.Context, doc *endpointDoc, act, detail string) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	_, err = s.store.Write(ctx, s.storeNow(), store.Write{
		Puts: []store.Record{
			{Kind: recordEndpoint, ID: doc.ID, Ref: ownerRef(doc.Owner), Version: doc.version, Body: body},
			{Kind: recordOwner, ID: ownerRef(doc.Owner), Version: store.AnyVersion},
		},
		Audit: []store.AuditRow{{Actor: s.by(ctx), Act: act, What: doc.ID, Detail: detail}},
	})
	s.cache.forget(doc.ID, doc.Owner)
	if err != nil {
		return fmt.Errorf("webhook: endpoint: %s: %w", doc.ID, err)
	}
	return nil
}

func (s *Service) by(ctx context.Context) string {
	if actor := engine.ActorOf(ctx); actor != "" {
		return actor
	}
	return s.config.Actor
}

// Change is what Update changes: nil parts stay.
type Change struct {
	URL         *string           `json:"url,omitempty"`
	Description *string           `json:"description,omitempty"`
	Types       *[]string         `json:"types,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"` // replaces all; an empty, non-nil map removes all
	Policy      *string           `json:"policy,omitempty"`
}

// Update changes an endpoint. What waits for it goes where it points now.
func (s *Service) Update(ctx context.Context, id string, c Change) (Endpoint, error) {
	return s.edit(ctx, id, "webhook.endpoint.update", func(doc *endpointDoc) error {
		if c.URL != nil {
			if err := s.checkURL(*c.URL); err != nil {
				return err
			}
			doc.URL = *c.URL
		}
		if c.Description != nil {
			if err := checkText("description", *c.Description); err != nil {
				return err
			}
			doc.Description = *c.Description
		}
		if c.Types != nil {
			if err := checkTypes(*c.Types); err != nil {
				return err
			}
			doc.Types = *c.Types
		}
		if c.Policy != nil {
			if err := s.policyFor(*c.Policy); err != nil {
				return err
			}
			doc.Policy = *c.Policy
		}
		if c.Headers == nil {
			return nil
		}
		if err := checkHeaders(c.Headers); err != nil {
			return err
		}
		var err error
		doc.HeaderNames = slices.Sorted(maps.Keys(c.Headers))
		doc.Headers, err = s.sealHeaders(id, c.Headers)
		return err
	})
}

// editTries is how often a change is made anew when somebody else was faster.
const editTries = 20

// edit reads, changes and writes an endpoint, again if somebody else did
// meanwhile.
func (s *Service) edit(ctx context.Context, id, act string, change func(*endpointDoc) error) (Endpoint, error) {
	for try := 1; ; try++ {
		doc, err := s.endpoint(ctx, id)
		if err != nil {
			return Endpoint{}, err
		}
		if err := change(doc); err != nil {
			return Endpoint{}, err
		}
		doc.UpdatedAt = s.now()
		err = s.put(ctx, doc, act, "")
		if err == nil {
			return s.Show(ctx, id)
		}
		if !errors.Is(err, store.ErrConflict) || try == editTries {
			return Endpoint{}, err
		}
	}
}

// Rotate gives the endpoint a new secret and returns it: this once, in the
// clear. For the overlap the one before signs too; 0 = DefaultOverlap,
// negative = it stops at once.
func (s *Service) Rotate(ctx context.Context, id string, overlap time.Duration) (Endpoint, string, error) {
	if overlap == 0 {
		overlap = DefaultOverlap
	}
	secret, err := s.newSecret("")
	if err != nil {
		return Endpoint{}, "", err
	}
	e, err := s.edit(ctx, id, "webhook.endpoint.rotate", func(doc *endpointDoc) error {
		// Secrets live by the time that signatures carry.
		now := store.Instant(s.config.Machine.Now())
		next, err := s.sealSecret(id, secret, now)
		if err != nil {
			return err
		}
		kept := []storedSecret{next}
		for _, old := range doc.Secrets {
			if end := now.Add(overlap); old.ExpiresAt.IsZero() || old.ExpiresAt.After(end) {
				old.ExpiresAt = end
			}
			if old.ExpiresAt.After(now) {
				kept = append(kept, old)
			}
		}
		if len(kept) > maxSecrets {
			return &saidError{
				text: fmt.Sprintf("webhook: endpoint: %s: %d secrets sign already, the first of them until %s; rotate with a shorter overlap, or a negative one to stop them at once",
					id, len(kept)-1, kept[len(kept)-1].ExpiresAt.UTC().Format(time.RFC3339)), is: ErrState,
			}
		}
		doc.Secrets = kept
		return nil
	})
	return e, secret, err
}

// endpoint reads one.
func (s *Service) endpoint(ctx context.Context, id string) (*endpointDoc, error) {
	r, err := s.store.Record(ctx, recordEndpoint, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("endpoint", id)
	}
	if err != nil {
		return nil, fmt.Errorf("webhook: endpoint: %s: %w", id, err)
	}
	return endpointOf(&r)
}

func endpointOf(r *store.Record) (*endpointDoc, error) {
	doc := &endpointDoc{version: r.Version}
	if err := json.Unmarshal(r.Body, doc); err != nil {
		return nil, fmt.Errorf("webhook: endpoint: %s: its record cannot be read: %w", r.ID, err)
	}
	return doc, nil
}
