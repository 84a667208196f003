package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// probe asks a database whether work is left. It has a connection of its own
// that prefers an index whatever the statistics say: a probe that read the
// whole table would disturb the drain that it waits for.
type probe struct {
	conn *pgx.Conn
	sql  string // answers true or false
}

func newProbe(ctx context.Context, dsn, sql string) (*probe, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	config.RuntimeParams["enable_seqscan"] = "off"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	return &probe{conn, sql}, nil
}

func (p *probe) left(ctx context.Context) (left bool, err error) {
	err = p.conn.QueryRow(ctx, p.sql).Scan(&left)
	return left, err
}

func (p *probe) close() { _ = p.conn.Close(context.Background()) }
