package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/store"
)

// NewToken is a token to be made.
type NewToken struct {
	Name      string    `json:"name"` // whom the audit names; required
	Scopes    []Scope   `json:"scopes"`
	Queues    []string  `json:"queues,omitempty"`    // none = all
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero = never
}

// Token is what is told of a token: all but its secret.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Scopes    []Scope   `json:"scopes"`
	Queues    []string  `json:"queues,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// tokenPrefix begins every token, so that scanners for leaked secrets find it.
const tokenPrefix = "ebb_"

// mostTokens bounds lists.
const mostTokens = 1000

// CreateToken makes a token and returns the secret, which is never shown
// again.
func (k *Keeper) CreateToken(ctx context.Context, n NewToken) (Token, string, error) {
	now := store.Instant(k.clock.Now()).UTC()
	if err := n.check(now); err != nil {
		return Token{}, "", err
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	id, text := hex.EncodeToString(b[:]), secret()
	g := grant{Name: n.Name, Sum: sum(text), Scopes: n.Scopes, Queues: n.Queues, CreatedAt: now, ExpiresAt: store.Instant(n.ExpiresAt)}
	row, err := g.record(kindToken, id)
	if err != nil {
		return Token{}, "", fmt.Errorf("access: token: %w", err)
	}
	audit := store.AuditRow{At: now, Actor: actor(ctx), Act: "token.create", What: id, Detail: n.detail()}
	if _, err := k.records.Write(ctx, now, store.Write{Puts: []store.Record{row}, Audit: []store.AuditRow{audit}}); err != nil {
		return Token{}, "", fmt.Errorf("access: token: %w", err)
	}
	return g.token(id), tokenPrefix + id + "_" + text, nil
}

func (n *NewToken) check(now time.Time) error {
	switch {
	case n.Name == "" || len(n.Name) > 100 || strings.ContainsFunc(n.Name, func(r rune) bool { return r < ' ' }):
		return invalid("token: the name must have 1 to 100 characters; it is whom the audit names")
	case len(n.Scopes) == 0:
		return invalid("token: %s: no scope; give one or more of read, produce, work, operate, admin", n.Name)
	case !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now):
		return invalid("token: %s: expires at %s: must be in the future", n.Name, n.ExpiresAt.UTC().Format(time.RFC3339))
	case slices.Contains(n.Queues, ""):
		return invalid("token: %s: a queue's name is empty; name each, or none for all", n.Name)
	case len(n.Queues) > 0 && slices.Contains(n.Scopes, Admin):
		return invalid("token: %s: scope admin is for all queues; leave them out, or take operate", n.Name)
	}
	for _, s := range n.Scopes {
		if !slices.Contains(Scopes(), s) {
			return invalid("token: %s: scope %q: must be one of read, produce, work, operate, admin", n.Name, s)
		}
	}
	return nil
}

func (n *NewToken) detail() string {
	text := fmt.Sprintf("%s: %v", n.Name, n.Scopes)
	if len(n.Queues) > 0 {
		text += fmt.Sprintf(" on %v", n.Queues)
	}
	return text
}

func (g *grant) token(id string) Token {
	return Token{ID: id, Name: g.Name, Scopes: g.Scopes, Queues: g.Queues, CreatedAt: g.CreatedAt, ExpiresAt: g.ExpiresAt}
}

// Tokens lists by id those that have not expired.
func (k *Keeper) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := k.records.Records(ctx, store.RecordFilter{Kind: kindToken, Limit: mostTokens})
	if err != nil {
		return nil, fmt.Errorf("access: tokens: %w", err)
	}
	list := []Token{}
	for _, r := range rows {
		var g grant
		if err := json.Unmarshal(r.Body, &g); err != nil {
			return nil, fmt.Errorf("access: token %s: %w", r.ID, err)
		}
		if !g.expired(k.clock.Now()) {
			list = append(list, g.token(r.ID))
		}
	}
	return list, nil
}

// RevokeToken ends a token and the sessions that it began: here at once, in
// other processes within Remembered. ErrNotFound if there is none.
func (k *Keeper) RevokeToken(ctx context.Context, id string) error {
	row, err := k.records.Record(ctx, kindToken, id)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return &unknownError{text: fmt.Sprintf("token: %s: no such token", id)}
		}
		return fmt.Errorf("access: token: %w", err)
	}
	now := k.clock.Now()
	_, err = k.records.Write(ctx, now, store.Write{
		Drops: []store.Record{{Kind: kindToken, ID: row.ID, Version: store.AnyVersion}},
		Audit: []store.AuditRow{{At: now, Actor: actor(ctx), Act: "token.revoke", What: id}},
	})
	if err != nil {
		return fmt.Errorf("access: token: %w", err)
	}
	k.forget(kindToken, id)
	return nil
}

// Authenticate returns whose token it is, or ErrUnknown.
func (k *Keeper) Authenticate(ctx context.Context, bearer string) (Principal, error) {
	rest, ok := strings.CutPrefix(bearer, tokenPrefix)
	id, text, both := strings.Cut(rest, "_")
	if !ok || !both || len(id) != 16 || len(text) != 43 {
		return Principal{}, ErrUnknown
	}
	g, err := k.token(ctx, id)
	if err != nil {
		return Principal{}, err
	}
	if subtle.ConstantTimeCompare([]byte(g.Sum), []byte(sum(text))) != 1 {
		return Principal{}, ErrUnknown
	}
	g.TokenID = id
	return g.principal(), nil
}

// token reads a living token's grant.
func (k *Keeper) token(ctx context.Context, id string) (grant, error) {
	g, err := k.find(ctx, kindToken, id)
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrUnknown):
		return grant{}, ErrUnknown
	case err != nil:
		return grant{}, fmt.Errorf("access: token: %w", err)
	}
	return g, nil
}
