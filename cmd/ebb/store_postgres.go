package main

import (
	"context"
	"errors"

	"github.com/ebbhq/ebb/store"
)

func postgresDatabase(_, shown string) database {
	return database{
		shown: shown,
		open:  func(context.Context) (store.Store, error) { return nil, errors.New("postgres: not wired yet") },
		migrate: func(context.Context, direction) ([]schemaStep, error) {
			return nil, errors.New("postgres: not wired yet")
		},
		script: func() (string, error) { return "", errors.New("postgres: not wired yet") },
	}
}
