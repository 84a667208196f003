package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// filterFlags select jobs.
type filterFlags struct {
	ids                                      []string
	state, cause, kind, queue, target, batch string
	class, fingerprint, since, until         string
	parked                                   bool
	page                                     engine.Page
}

func (f *filterFlags) bind(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.kind, "kind", "", "only this kind")
	flags.StringVar(&f.queue, "queue", "", "only this queue")
	flags.StringVar(&f.target, "target", "", "only this target")
	flags.StringVar(&f.batch, "batch", "", "only this batch")
	flags.StringVar(&f.class, "class", "", "only this class of the last failure, such as server or timeout")
	flags.StringVar(&f.cause, "cause", "", "only this cause, such as fatal or exhausted")
	flags.StringVar(&f.fingerprint, "fingerprint", "", "only what failed alike, as dead groups shows it")
	flags.StringVar(&f.since, "since", "", "enqueued (living) or ended (others) at or after: RFC 3339, or so long ago (2h)")
	flags.StringVar(&f.until, "until", "", "… and before")
	flags.StringSliceVar(&f.ids, "id", nil, "only these ids, separated by commas")
}

// filter is what the flags select.
func (f *filterFlags) filter(now time.Time) (engine.Filter, error) {
	out := engine.Filter{
		IDs: f.ids, State: job.State(f.state), Cause: job.Cause(f.cause), Kind: f.kind, Queue: f.queue, Target: f.target, Batch: f.batch,
		Class: f.class, Fingerprint: f.fingerprint,
	}
	if f.parked {
		out.State = job.Parked
	}
	var err error
	if out.Since, err = past(now, f.since); err != nil {
		return out, fmt.Errorf("--since: %w", err)
	}
	if out.Until, err = past(now, f.until); err != nil {
		return out, fmt.Errorf("--until: %w", err)
	}
	return out, nil
}

// past reads a time: RFC 3339, or 2h for two hours ago; empty is no time.
func past(now time.Time, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(strings.TrimPrefix(text, "-")); err == nil && d >= 0 && text[0] != '+' {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q: want RFC 3339 such as 2026-02-21T09:00:00Z, or so long ago such as 2h", text)
}
