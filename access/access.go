// Package access answers "who may do what?": tokens, console sessions and
// their scopes, kept as records beside the jobs, and the seal of secrets at
// rest.
//
// Nothing that opens a door is stored: of tokens, sessions and one-time logins
// the store has SHA-256 sums. Each secret is 256 random bits, so that a plain
// sum is enough.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ebbhq/ebb/engine"
)

// Scope is what a principal may do.
type Scope string

const (
	Read    Scope = "read"    // ask
	Produce Scope = "produce" // ask and enqueue
	Work    Scope = "work"    // ask and take leases
	Operate Scope = "operate" // ask, enqueue, retry, cancel, pause, redrive
	Admin   Scope = "admin"   // everything, tokens too
)

// Scopes lists all, least first.
func Scopes() []Scope { return []Scope{Read, Produce, Work, Operate, Admin} }

// includes are the scopes that come with one.
var includes = map[Scope][]Scope{
	Read:    {Read},
	Produce: {Read, Produce},
	Work:    {Read, Work},
	Operate: {Read, Produce, Operate},
	Admin:   {Read, Produce, Work, Operate, Admin},
}

// Principal is who asks.
type Principal struct {
	Name   string
	Scopes []Scope
	// Queues are the only ones it may ask about and act on; nil = all.
	Queues  []string
	TokenID string // empty where a one-time login began the session
	Session bool   // it came with a cookie
}

// Has reports whether the principal has the scope, for one queue at least.
func (p Principal) Has(s Scope) bool {
	return slices.ContainsFunc(p.Scopes, func(own Scope) bool { return slices.Contains(includes[own], s) })
}

// May reports whether the principal has the scope for the queue. The empty
// name stands for what is of no single queue, such as targets: only a
// principal of all queues may.
func (p Principal) May(s Scope, queue string) bool {
	return p.Has(s) && (p.Queues == nil || queue != "" && slices.Contains(p.Queues, queue))
}

var (
	// ErrUnknown is returned for a token, session or login that does not
	// open: there is none, it has expired or it was revoked. Which of them is
	// not told.
	ErrUnknown = errors.New("access: unknown, expired or revoked")
	// ErrTooMany is returned by a login after too many tries.
	ErrTooMany = errors.New("access: too many logins; wait a minute")
	// ErrInvalid is returned for a token that makes no sense.
	ErrInvalid = engine.ErrInvalid
)

type principalKey struct{}

// WithPrincipal returns a context of the principal's request. The audit names
// it for orders that are given with it.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(engine.WithActor(ctx, p.Name), principalKey{}, p)
}

// PrincipalOf returns whose request it is.
func PrincipalOf(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}

// actor is whom the audit names.
func actor(ctx context.Context) string {
	if name := engine.ActorOf(ctx); name != "" {
		return name
	}
	return "unknown"
}

// invalid makes an ErrInvalid that says what would be right.
func invalid(format string, args ...any) error {
	return &invalidError{text: fmt.Sprintf(format, args...)}
}

// unknownError is a store.ErrNotFound that says what there is none of.
type unknownError struct{ text string }

func (e *unknownError) Error() string { return e.text }
func (e *unknownError) Unwrap() error { return engine.ErrNotFound }

type invalidError struct{ text string }

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return ErrInvalid }
