package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

func (a *app) targetPauseCommand() *cobra.Command {
	var length time.Duration
	var at string
	c := &cobra.Command{
		Use:   "pause TARGET",
		Short: "Start nothing that calls a target, for a time or until it is resumed",
		Long: `Start nothing that calls a target, in any queue or process, for a time or until
"ebb target resume". What runs already runs on. The time spent in such a pause
never counts towards max_hold. A new pause replaces the one before; one may be
ordered before anything calls the target.`,
		Example: `  ebb target pause https://crm.example/in
  ebb target pause https://crm.example/in --for 30m
  ebb target pause https://crm.example/in --until 2026-02-21T18:00:00Z`,
		Args: exactly("TARGET"),
		RunE: func(c *cobra.Command, args []string) error {
			end, err := pauseEnd(a.now(), length, at)
			if err != nil {
				return flagError(c, err)
			}
			return a.ask(c, true, func(ctx context.Context, ops engine.Ops) error {
				_, unknown := ops.Target(ctx, args[0])
				t, err := ops.PauseTarget(ctx, args[0], end)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(t)
				}
				a.remarkOut("target %s is paused until %s: %s in flight", t.Name, pausedCell(&t.Target), count(t.InFlight, "call"))
				if errors.Is(unknown, engine.ErrNotFound) {
					a.remarkErr("note: nothing calls it yet; is the name right? See ebb target list")
				}
				return nil
			})
		},
	}
	c.Flags().DurationVar(&length, "for", 0, "end after so long, such as 30m")
	c.Flags().StringVar(&at, "until", "", "end at this time: RFC 3339, or from now such as +30m")
	return c
}

// pauseEnd is when a pause ends by itself; zero = it does not.
func pauseEnd(now time.Time, length time.Duration, at string) (time.Time, error) {
	switch {
	case length != 0 && at != "":
		return time.Time{}, errors.New("--for and --until: give one")
	case length < 0:
		return time.Time{}, fmt.Errorf("--for: %s: must be over 0", length)
	case length > 0:
		return now.Add(length), nil
	}
	end, err := future(now, at)
	if err != nil {
		return end, fmt.Errorf("--until: %w", err)
	}
	return end, nil
}

func (a *app) targetResumeCommand() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "resume TARGET",
		Short: "Let work call a target again, and bring back what was parked for it",
		Long: `End an operator's pause of a target, and its being disabled. What was parked
because the target was down for too long (target_down) or disabled comes back in
its order, by a redrive; --keep-parked leaves it where it is. If the breaker is
open, or the target asked for a pause (Retry-After), its next call goes out now, as
the probe.`,
		Example: `  ebb target resume https://crm.example/in
  ebb target resume https://crm.example/in --keep-parked`,
		Args: exactly("TARGET"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				return a.targetResume(ctx, ops, args[0], keep)
			})
		},
	}
	c.Flags().BoolVar(&keep, "keep-parked", false, "leave parked what was parked for it")
	return c
}

func (a *app) targetResume(ctx context.Context, ops engine.Ops, name string, keep bool) error {
	t, err := ops.ResumeTarget(ctx, name, keep)
	if err != nil {
		return err
	}
	return a.printResumed(ctx, ops, &t)
}
