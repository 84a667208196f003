package engine

import "context"

type actorKey struct{}

// WithActor returns a context whose orders the audit ascribes to the actor
// instead of to Config.Actor: one engine serves many people.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns whom WithActor named; empty = nobody.
func ActorOf(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}

// by is who gives an order.
func (e *Engine) by(ctx context.Context) string {
	if actor := ActorOf(ctx); actor != "" {
		return actor
	}
	return e.actor
}
