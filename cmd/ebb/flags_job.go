package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// jobFlags describe a job to be enqueued, now or by a schedule.
type jobFlags struct {
	engine.NewJob
	args      string
	uniqueFor time.Duration
	keyRule   string
	scope     string
	conflict  string
}

func (f *jobFlags) bind(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Kind, "kind", "", "what handles the job (required)")
	flags.StringVar(&f.args, "args", "", "arguments: a JSON value, @FILE, or - for standard input")
	flags.StringVar(&f.Queue, "queue", "", "where it waits (default \"default\")")
	flags.StringVar(&f.Target, "target", "", "whom the work calls: its breaker, limits and pauses hold the job")
	flags.StringVar(&f.Key, "key", "", "jobs of one key and queue run one at a time, in order")
	flags.StringVar(&f.keyRule, "key-rule", "", "when a job of the key fails, those behind it: block, skip or park (default \"block\")")
	flags.StringVar(&f.Unique, "unique", "", "only one living job may have this key")
	flags.StringVar(&f.scope, "unique-scope", "", "among which jobs: everywhere, queue or kind (default \"everywhere\")")
	flags.DurationVar(&f.uniqueFor, "unique-for", 0, "keep the unique key taken for so long after the enqueue, though the job has ended")
	flags.StringVar(&f.conflict, "on-conflict", "", "when the unique key is taken: keep the job there is, replace it while it has not started, or refuse (default \"keep\")")
	flags.StringVar(&f.Policy, "policy", "", "name of the retry policy (default \"default\")")
	flags.IntVar(&f.Priority, "priority", 0, "0 (first) to 9 (last)")
	flags.StringVar(&f.Batch, "batch", "", "name of the jobs enqueued together")
}

// job is what the flags ask for.
func (f *jobFlags) job(a *app) (engine.NewJob, error) {
	n := f.NewJob
	if n.Kind == "" {
		return n, errors.New("--kind is missing: which handler?")
	}
	n.KeyRule, n.UniqueScope, n.OnConflict = job.KeyRule(f.keyRule), job.UniqueScope(f.scope), job.Conflict(f.conflict)
	for _, w := range []struct {
		flag, word string
		known      [3]string
		needs      string
	}{
		{"--key-rule", f.keyRule, [3]string{"block", "skip", "park"}, n.Key},
		{"--unique-scope", f.scope, [3]string{"everywhere", "queue", "kind"}, n.Unique},
		{"--on-conflict", f.conflict, [3]string{"keep", "replace", "refuse"}, n.Unique},
	} {
		switch {
		case w.word == "":
		case w.word != w.known[0] && w.word != w.known[1] && w.word != w.known[2]:
			return n, fmt.Errorf("%s: %q: want %s, %s or %s", w.flag, w.word, w.known[0], w.known[1], w.known[2])
		case w.needs == "" && w.flag == "--key-rule":
			return n, fmt.Errorf("%s needs --key", w.flag)
		case w.needs == "":
			return n, fmt.Errorf("%s needs --unique", w.flag)
		}
	}
	switch {
	case f.uniqueFor < 0:
		return n, fmt.Errorf("--unique-for: %s: must not be negative", f.uniqueFor)
	case f.uniqueFor > 0 && n.Unique == "":
		return n, errors.New("--unique-for needs --unique")
	}
	n.UniqueFor = f.uniqueFor.Seconds()
	var err error
	n.Args, err = a.readArgs(f.args)
	return n, err
}
