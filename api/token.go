package api

import (
	"context"
	"net/http"

	"github.com/ebbhq/ebb/access"
)

// TokenList is all living tokens, without their secrets.
type TokenList struct {
	Tokens []access.Token `json:"tokens"`
}

// TokenMade is a new token with its secret, which is shown this once.
type TokenMade struct {
	access.Token
	Secret string `json:"secret"`
}

func (s *server) tokenRoutes() []route {
	create := handle(s, access.Admin, http.MethodPost, "/v1/tokens", "createToken", "Make a token; its secret is shown this once",
		func(ctx context.Context, in *struct{ Body access.NewToken }) (TokenMade, error) {
			t, secret, err := s.Keeper.CreateToken(ctx, in.Body)
			return TokenMade{t, secret}, err
		})
	create.status = http.StatusCreated
	create.once = false // its answer must not be kept
	return []route{
		create,
		handle(s, access.Admin, http.MethodGet, "/v1/tokens", "listTokens", "List tokens", func(ctx context.Context, _ *none) (TokenList, error) {
			list, err := s.Keeper.Tokens(ctx)
			return TokenList{list}, err
		}),
		handle(s, access.Admin, http.MethodDelete, "/v1/tokens/{id}", "revokeToken", "Revoke a token", func(ctx context.Context, in *idIn) (none, error) {
			return none{}, s.Keeper.RevokeToken(ctx, in.ID)
		}),
	}
}
