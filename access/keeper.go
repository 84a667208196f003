package access

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store"
)

// Kinds of the records kept here.
const (
	kindToken   = "token"
	kindLogin   = "login"
	kindSession = "session"
)

// Remembered is how long a token or session that was read is believed without
// another look: a revocation by this process works at once, one by another
// process within this time.
const Remembered = 5 * time.Second

// Keeper keeps tokens, logins and sessions. It is safe for use by several
// goroutines; several processes may keep on one store.
type Keeper struct {
	records store.Records
	clock   clock.Clock
	seal    cipher.AEAD // nil = no key was given
	logins  *limiter

	mu    sync.Mutex
	known map[string]remembered // by kind and id
}

type remembered struct {
	grant grant
	until time.Time
}

// mostRemembered bounds the memory: more are read again each time.
const mostRemembered = 10_000

// New returns a keeper over the records. key, 32 bytes as KeyFile makes them,
// seals secrets; nil = Seal and Open are refused.
func New(records store.Records, c clock.Clock, key []byte) (*Keeper, error) {
	if c == nil {
		c = clock.System{}
	}
	k := &Keeper{records: records, clock: c, known: map[string]remembered{}, logins: newLimiter(c)}
	if key != nil {
		var err error
		if k.seal, err = sealer(key); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// grant is the body of a token's, a login's and a session's record.
type grant struct {
	Name      string    `json:"name"`
	Sum       string    `json:"sum,omitempty"` // of a token's secret
	Scopes    []Scope   `json:"scopes"`
	Queues    []string  `json:"queues,omitempty"` // none = all
	TokenID   string    `json:"token,omitempty"`  // that began the session
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func (g *grant) principal() Principal {
	p := Principal{Name: g.Name, Scopes: g.Scopes, TokenID: g.TokenID}
	if len(g.Queues) > 0 {
		p.Queues = g.Queues
	}
	return p
}

func (g *grant) expired(now time.Time) bool {
	return !g.ExpiresAt.IsZero() && !now.Before(g.ExpiresAt)
}

// record makes the record of a grant.
func (g *grant) record(kind, id string) (store.Record, error) {
	body, err := json.Marshal(g)
	return store.Record{Kind: kind, ID: id, Ref: g.TokenID, ExpiresAt: g.ExpiresAt, Body: body}, err
}

// find reads a grant, from memory if it was read lately.
func (k *Keeper) find(ctx context.Context, kind, id string) (grant, error) {
	now := k.clock.Now()
	k.mu.Lock()
	r, ok := k.known[kind+" "+id]
	k.mu.Unlock()
	if !ok || !now.Before(r.until) {
		row, err := k.records.Record(ctx, kind, id)
		if err != nil {
			return grant{}, err
		}
		r = remembered{until: now.Add(Remembered)}
		if err := json.Unmarshal(row.Body, &r.grant); err != nil {
			return grant{}, fmt.Errorf("access: %s %s: %w", kind, id, err)
		}
		k.remember(kind+" "+id, r)
	}
	if r.grant.expired(now) {
		return grant{}, ErrUnknown
	}
	return r.grant, nil
}

func (k *Keeper) remember(key string, r remembered) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= mostRemembered {
		clear(k.known)
	}
	k.known[key] = r
}

func (k *Keeper) forget(kind, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, kind+" "+id)
}

// secret draws 256 bits, as text.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails: the program ends instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// sum is what is stored of a secret.
func sum(secret string) string {
	s := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(s[:])
}
