package engine

import (
	"context"
	"fmt"
	"time"
)

// Act is one row of the audit: who ordered what. Where it is told of one thing,
// What is left out.
type Act struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Act    string    `json:"act"`              // "queue.pause", "job.cancel", "token.create" …
	What   string    `json:"what,omitempty"`   // id, name or filter
	Detail string    `json:"detail,omitempty"` // until when, how many
}

// Acts lists what was ordered, newest first.
func (e *Engine) Acts(ctx context.Context, limit int) ([]Act, error) {
	bounds, err := Page{Limit: limit}.bounds()
	if err != nil {
		return nil, err
	}
	rows, err := e.store.Audit(ctx, bounds.Limit)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	list := make([]Act, len(rows))
	for i, r := range rows {
		list[i] = Act{At: utc(r.At), Actor: r.Actor, Act: r.Act, What: r.What, Detail: r.Detail}
	}
	return list, nil
}
