package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *app) migrateCommand() *cobra.Command {
	c := group("migrate", "The database's schema: up, down, status, sql",
		`Move the schema of the database that --db names. An empty database gets it when
it is first opened. So does an SQLite file of an older schema; an older schema
on PostgreSQL is refused until somebody runs "ebb migrate up".`)
	c.AddCommand(a.migrateUpCommand(), a.migrateDownCommand(), a.migrateStatusCommand(), a.migrateSQLCommand())
	return c
}

func (a *app) migrateUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "up",
		Short:   "Move the schema to the newest",
		Example: "  ebb migrate up --db postgres://ebb@localhost/ebb",
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return a.migrate(c, up, true) },
	}
}

func (a *app) migrateDownCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "down",
		Short: "Take the newest step back, with everything in its tables",
		Long: `Take the newest step of the schema back. The tables of that step are dropped
with everything in them, so a database that holds jobs is refused without --yes,
unless the step only moved what it holds: then nothing is lost.`,
		Example: "  ebb migrate down --db sqlite:ebb.db --yes",
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return a.migrate(c, down, yes) },
	}
	c.Flags().BoolVar(&yes, "yes", false, "also where jobs are lost with it")
	return c
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the steps of the schema and when they were applied",
		Example: "  ebb migrate status\n  ebb migrate status --json",
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return a.migrate(c, status, true) },
	}
}

func (a *app) migrateSQLCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sql",
		Short: "Print the schema as SQL, for whoever applies it by hand",
		Example: `  ebb migrate sql --db postgres:// > ebb.sql
  ebb migrate sql --db sqlite:`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			db, err := a.database()
			if err != nil {
				return err
			}
			script := db.script()
			if a.json {
				return a.printJSON(map[string]string{"sql": script})
			}
			_, err = fmt.Fprint(a.stdout, script)
			return err
		},
	}
}

func (a *app) migrate(c *cobra.Command, way direction, sure bool) error {
	ctx := c.Context()
	db, err := a.ownDatabase(c)
	if err != nil {
		return err
	}
	if way != up && db.missing() {
		return db.absent()
	}
	if !sure {
		if err := db.mayLose(ctx); err != nil {
			return interrupted(ctx, err)
		}
	}
	steps, err := db.migrate(ctx, way)
	if err != nil {
		return interrupted(ctx, db.unreachable(err))
	}
	if a.json {
		return a.printJSON(map[string]any{"db": db.shown, "steps": steps})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tNAME\tAPPLIED")
	for _, s := range steps {
		fmt.Fprintf(w, "%d\t%s\t%s\n", s.Version, s.Name, stamp(s.AppliedAt))
	}
	return w.Flush()
}

// mayLose refuses to take a step back from a database that holds jobs.
func (d *database) mayLose(ctx context.Context) error {
	steps, err := d.migrate(ctx, status)
	if err != nil {
		return d.unreachable(err)
	}
	applied := slices.DeleteFunc(slices.Clone(steps), func(s schemaStep) bool { return s.AppliedAt.IsZero() })
	if len(applied) == 0 {
		return nil // nothing is there, and opening would make it
	}
	switch last := applied[len(applied)-1]; {
	case last.keeps:
		return nil
	case len(applied) < len(steps):
		return &failed{code: exitNo, err: fmt.Errorf("migrate down: %s: its schema is an older one, so what it holds cannot be counted", d.shown), try: "ebb migrate down --yes"}
	}
	s, err := d.open(ctx)
	if err != nil {
		return d.unreachable(err)
	}
	queues, err := s.Queues(ctx)
	if err = errors.Join(err, s.Close()); err != nil {
		return d.unreachable(err)
	}
	jobs := int64(0)
	for _, q := range queues {
		for _, n := range q.Counts {
			jobs += n
		}
	}
	if jobs > 0 {
		return &failed{code: exitNo, err: fmt.Errorf("migrate down: %s: it holds %s, which would be lost", d.shown, count(int(jobs), "job")), try: "ebb migrate down --yes"}
	}
	return nil
}
