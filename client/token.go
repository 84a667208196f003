package client

import (
	"context"
	"net/http"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/policy"
)

// CreateToken makes a token and returns its secret, which is never shown
// again. It is not tried twice: a token whose answer was lost opens to nobody,
// but it would stay.
func (c *Client) CreateToken(ctx context.Context, n access.NewToken) (access.Token, string, error) {
	once := *c
	once.policy = &policy.Policy{Attempts: 1}
	var made struct {
		access.Token
		Secret string `json:"secret"`
	}
	err := once.ask(ctx, post, "/v1/tokens", nil, n, &made)
	return made.Token, made.Secret, err
}

// Tokens lists those that have not expired.
func (c *Client) Tokens(ctx context.Context) ([]access.Token, error) {
	var out struct{ Tokens []access.Token }
	err := c.ask(ctx, get, "/v1/tokens", nil, nil, &out)
	return out.Tokens, err
}

// RevokeToken ends a token and the sessions that it began.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.ask(ctx, http.MethodDelete, under("tokens", id), nil, nil, nil)
}
