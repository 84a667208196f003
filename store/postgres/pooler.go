package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Parameters of the URL that are Ebb's own.
const (
	// poolerParameter says that the URL is a pooler's: Options.Pooler.
	poolerParameter = "ebb_pooler"
	// listenParameter is the URL of the database itself: Options.Listen.
	listenParameter = "ebb_listen"
)

// parse reads the URL, and with it what it says of a pooler.
func (o *Options) parse(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: url: %w", err)
	}
	said := config.ConnConfig.RuntimeParams
	switch how, given := said[poolerParameter]; {
	case how == "transaction":
		o.Pooler = true
	case given:
		return nil, fmt.Errorf("postgres: url: %s=%s: want transaction", poolerParameter, how)
	}
	if listen, given := said[listenParameter]; given {
		o.Listen = listen
	}
	if o.Listen != "" && !o.Pooler {
		return nil, fmt.Errorf("postgres: url: %s is for a pooler's URL, which says %s=transaction", listenParameter, poolerParameter)
	}
	delete(said, poolerParameter)
	delete(said, listenParameter)
	return config, nil
}

// listener is how the line for LISTEN connects: as everything else does, or
// past the pooler.
func (o *Options) listener(config *pgx.ConnConfig) (*pgx.ConnConfig, error) {
	if o.Listen == "" {
		return config, nil
	}
	direct, err := pgx.ParseConfig(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("postgres: url: %s: %w", listenParameter, err)
	}
	if _, said := direct.RuntimeParams["application_name"]; !said {
		direct.RuntimeParams["application_name"] = o.Name
	}
	return direct, nil
}

// settings are what a connection of the store's begins with.
func (o *Options) settings() map[string]string {
	all := maps.Clone(plans)
	if o.StatementTimeout > 0 {
		all["statement_timeout"] = fmt.Sprint(o.StatementTimeout.Milliseconds())
	}
	if o.IdleTimeout > 0 {
		all[idleTimeout] = fmt.Sprint(o.IdleTimeout.Milliseconds())
	}
	return all
}

// locally is the statement that makes the settings those of one transaction:
// behind a pooler the next one may have another connection.
func (o *Options) locally() string {
	all := o.settings()
	set := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		set = append(set, fmt.Sprintf("set_config('%s', '%s', true)", name, all[name]))
	}
	return "SELECT " + strings.Join(set, ", ")
}

// pooled puts the settings before what the batch does.
func (s *Store) pooled(b *pgx.Batch) {
	if s.options.Pooler {
		first := &pgx.Batch{}
		first.Queue(s.locally)
		b.QueuedQueries = append(first.QueuedQueries, b.QueuedQueries...)
	}
}

// refusedByPooler says what to do about a pooler that was not announced: it
// refuses session settings in its own words.
func refusedByPooler(err error) error {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == "08P01" && strings.Contains(refusal.Message, "startup parameter") {
		return fmt.Errorf("%w: the URL is a pooler's. Try: add %s=transaction to it", err, poolerParameter)
	}
	return err
}
