package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebbhq/ebb/store"
)

const (
	// CookieName is the cookie of a console session.
	CookieName = "ebb_session"
	// LoginPath is the console's page that takes a one-time login.
	LoginPath = "/login"
	// LoginFor is how long a one-time login may be used.
	LoginFor = 15 * time.Minute
	// SessionFor is how long a session lasts.
	SessionFor = 12 * time.Hour
)

// LoginURL makes a one-time login for the principal at the server's address,
// such as http://127.0.0.1:7070. Whoever opens it first is logged in.
func (k *Keeper) LoginURL(ctx context.Context, base string, p Principal) (string, error) {
	text := secret()
	now := store.Instant(k.clock.Now())
	g := grant{Name: p.Name, Scopes: p.Scopes, Queues: p.Queues, CreatedAt: now, ExpiresAt: now.Add(LoginFor)}
	row, err := g.record(kindLogin, sum(text))
	if err == nil {
		_, err = k.records.Write(ctx, now, store.Write{
			Puts:  []store.Record{row},
			Audit: []store.AuditRow{{At: now, Actor: actor(ctx), Act: "login.offer", What: p.Name}},
		})
	}
	if err != nil {
		return "", fmt.Errorf("access: login: %w", err)
	}
	return strings.TrimSuffix(base, "/") + LoginPath + "?once=" + url.QueryEscape(text), nil
}

// Login spends a one-time login, or a token that a person pasted, and returns
// the value of the session's cookie. from is the client's address, which may
// try MaxLogins times a minute.
func (k *Keeper) Login(ctx context.Context, once, from string) (string, error) {
	if !k.logins.allow(from) {
		return "", ErrTooMany
	}
	if strings.HasPrefix(once, tokenPrefix) {
		p, err := k.Authenticate(ctx, once)
		if err != nil {
			return "", err
		}
		return k.begin(ctx, &grant{Name: p.Name, Scopes: p.Scopes, Queues: p.Queues, TokenID: p.TokenID}, nil)
	}
	row, err := k.records.Record(ctx, kindLogin, sum(once))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", ErrUnknown
	case err != nil:
		return "", fmt.Errorf("access: login: %w", err)
	}
	var g grant
	if err := json.Unmarshal(row.Body, &g); err != nil {
		return "", fmt.Errorf("access: login: %w", err)
	}
	if g.expired(k.clock.Now()) {
		return "", ErrUnknown
	}
	return k.begin(ctx, &g, []store.Record{{Kind: kindLogin, ID: row.ID, Version: row.Version}})
}

// begin makes a session and drops the login that it is made of, if that is
// still there: of two who spend one login, one gets in.
func (k *Keeper) begin(ctx context.Context, g *grant, spent []store.Record) (string, error) {
	text := secret()
	now := store.Instant(k.clock.Now())
	g.CreatedAt, g.ExpiresAt = now, now.Add(SessionFor)
	row, err := g.record(kindSession, sum(text))
	if err == nil {
		_, err = k.records.Write(ctx, now, store.Write{
			Puts: []store.Record{row}, Drops: spent,
			Audit: []store.AuditRow{{At: now, Actor: g.Name, Act: "session.login", What: g.Name}},
		})
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		return "", ErrUnknown
	case err != nil:
		return "", fmt.Errorf("access: login: %w", err)
	}
	return text, nil
}

// Session returns whose cookie it is, or ErrUnknown. A session that a token
// began ends with it.
func (k *Keeper) Session(ctx context.Context, cookie string) (Principal, error) {
	g, err := k.find(ctx, kindSession, sum(cookie))
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrUnknown):
		return Principal{}, ErrUnknown
	case err != nil:
		return Principal{}, fmt.Errorf("access: session: %w", err)
	}
	if g.TokenID != "" {
		if _, err := k.token(ctx, g.TokenID); err != nil {
			return Principal{}, err
		}
	}
	p := g.principal()
	p.Session = true
	return p, nil
}

// Logout ends a session; one that there is not is no error.
func (k *Keeper) Logout(ctx context.Context, cookie string) error {
	id := sum(cookie)
	g, err := k.find(ctx, kindSession, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrUnknown) {
		return nil
	}
	if err == nil {
		now := k.clock.Now()
		_, err = k.records.Write(ctx, now, store.Write{
			Drops: []store.Record{{Kind: kindSession, ID: id, Version: store.AnyVersion}},
			Audit: []store.AuditRow{{At: now, Actor: g.Name, Act: "session.logout", What: g.Name}},
		})
	}
	k.forget(kindSession, id)
	if err != nil {
		return fmt.Errorf("access: logout: %w", err)
	}
	return nil
}

// Cookie is the cookie of a session: sent to this server alone, never to
// scripts, never with another site's requests. An empty value takes it back.
func Cookie(value string, secure bool) *http.Cookie {
	c := &http.Cookie{
		Name: CookieName, Value: value, Path: "/", MaxAge: int(SessionFor.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}
