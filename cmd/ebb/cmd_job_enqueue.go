package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// enqueueFlags are the wishes of `job enqueue`.
type enqueueFlags struct {
	jobFlags
	at, deadline string
}

func (a *app) jobEnqueueCommand() *cobra.Command {
	var f enqueueFlags
	c := &cobra.Command{
		Use:   "enqueue --kind KIND",
		Short: "Enqueue a job",
		Long: `Enqueue a job. When the command has ended with 0, the job is on the disk.

Arguments are one JSON value: given as it is, read from a file with @FILE, or
from standard input with -. A time is RFC 3339 (2026-02-21T09:00:00Z) or counts
from now (+10m).

With --unique, a living job (queued, running or parked) of the same key is the
answer, and nothing is added; --on-conflict says otherwise. Jobs of one --key run
one at a time, in the order of their enqueue. With --target, what guards the
target holds the job back (ebb target show). The database is created if there is
none.`,
		Example: `  ebb job enqueue --kind mail --args '{"to": "maya"}'
  ebb job enqueue --kind report --args @report.json --queue nightly --at +2h
  ebb job enqueue --kind sync --unique customer-7 --deadline +1h --json
  ebb job enqueue --kind hook --target https://crm.example/in --key order-7 --key-rule skip
  ebb job enqueue --kind report --unique daily --unique-for 24h --on-conflict refuse`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := f.job(a)
			if err != nil {
				return flagError(c, err)
			}
			return a.jobEnqueue(c, n)
		},
	}
	f.bind(c)
	c.Flags().StringVar(&f.at, "at", "", "not before this time")
	c.Flags().StringVar(&f.deadline, "deadline", "", "no start after this time")
	return c
}

// job is what the flags ask for.
func (f *enqueueFlags) job(a *app) (engine.NewJob, error) {
	n, err := f.jobFlags.job(a)
	if err != nil {
		return n, err
	}
	now := a.now()
	if n.DueAt, err = future(now, f.at); err != nil {
		return n, fmt.Errorf("--at: %w", err)
	}
	if n.DeadlineAt, err = future(now, f.deadline); err != nil {
		return n, fmt.Errorf("--deadline: %w", err)
	}
	return n, nil
}

// readArgs reads the arguments and refuses what is not JSON, with the place.
func (a *app) readArgs(from string) (json.RawMessage, error) {
	text, name := []byte(from), "--args"
	var err error
	switch path, isFile := strings.CutPrefix(from, "@"); {
	case from == "":
		return nil, nil
	case from == "-":
		name = "standard input"
		text, err = io.ReadAll(a.stdin)
	case isFile:
		name = path
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("--args: %w", err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, jsonError(name, text, err)
	}
	return bytes.TrimSpace(text), nil
}

// jsonError says at which line and column a text stops being JSON.
func jsonError(name string, text []byte, err error) error {
	at := len(text)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && int(syntax.Offset) <= len(text) && syntax.Offset > 0 {
		at = int(syntax.Offset) - 1
		if strings.Contains(err.Error(), "unexpected end") {
			at = len(text)
		}
	}
	before := text[:at]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:])))
	return fmt.Errorf("%s:%d:%d: not JSON: %w", name, line, column, err)
}

// future reads a time: RFC 3339, or +10m from now; empty is no time.
func future(now time.Time, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if rest, ok := strings.CutPrefix(text, "+"); ok {
		if d, err := time.ParseDuration(rest); err == nil && d >= 0 {
			return now.Add(d), nil
		}
	} else if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q: want RFC 3339 such as 2026-02-21T09:00:00Z, or a time from now such as +10m", text)
}

func (a *app) jobEnqueue(c *cobra.Command, n engine.NewJob) error {
	return a.ask(c, true, func(ctx context.Context, ops engine.Ops) error {
		added, err := ops.Enqueue(ctx, n)
		if err != nil {
			return err
		}
		if err := a.warnOfPolicy(ctx, ops, n.Policy); err != nil {
			return err
		}
		j := &added[0]
		switch {
		case a.json:
			return a.printJSON(j)
		case a.quiet:
			fmt.Fprintln(a.stdout, j.ID)
		case j.Existing:
			fmt.Fprintln(a.stdout, existing(j, n.OnConflict))
		default:
			fmt.Fprintf(a.stdout, "%s enqueued: %s in queue %s, due %s\n", j.ID, j.Kind, j.Queue, stamp(j.DueAt))
		}
		return nil
	})
}

// existing says what became of an enqueue whose unique key was taken.
func existing(j *engine.Enqueued, conflict job.Conflict) string {
	switch {
	case conflict == job.ConflictReplace && j.State == job.Queued && j.Starts == 0:
		return fmt.Sprintf("%s had not started and was replaced: due %s", j.ID, stamp(j.DueAt))
	case !j.State.Live():
		return fmt.Sprintf("%s has ended (%s) and keeps the unique key: nothing was added", j.ID, j.State)
	}
	return fmt.Sprintf("%s lives already (%s): nothing was added", j.ID, j.State)
}

// warnOfPolicy remarks on a name that nobody here knows: workers may.
func (a *app) warnOfPolicy(ctx context.Context, ops engine.Ops, name string) error {
	known, err := ops.Policies(ctx)
	if err != nil || name == "" {
		return err
	}
	for _, p := range known {
		if p.Name == name {
			return nil
		}
	}
	a.remarkErr("ebb: note: policy %s is not known here; a worker that does not know it parks the job", name)
	return nil
}
