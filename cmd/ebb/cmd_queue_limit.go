package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

func (a *app) queueLimitCommand() *cobra.Command {
	var concurrency int
	var rate string
	var off bool
	c := &cobra.Command{
		Use:   "limit QUEUE",
		Short: "Bound a queue over all processes: so many at once, so many a second",
		Long: `Bound a queue over all processes that share the database: at most so many of its
jobs run at once, at most so many start a second. What is left out is not
bounded; a new limit replaces the one before. Jobs that name a target are bounded
by their target's policy instead. In a strict queue limits have no effect.`,
		Example: `  ebb queue limit mail --concurrency 5
  ebb queue limit mail --concurrency 5 --rate 100/m
  ebb queue limit mail --off`,
		Args: exactly("QUEUE"),
		RunE: func(c *cobra.Command, args []string) error {
			l := engine.QueueLimit{Concurrency: concurrency}
			var err error
			switch {
			case off && (concurrency != 0 || rate != ""):
				return flagError(c, errors.New("--off ends the limit; it takes no figures"))
			case !off && concurrency == 0 && rate == "":
				return flagError(c, errors.New("no limit given: want --concurrency, --rate, or --off"))
			}
			if l.Rate, err = parseRate(rate); err != nil {
				return flagError(c, fmt.Errorf("--rate: %w", err))
			}
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				q, err := ops.LimitQueue(ctx, args[0], l)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(q)
				}
				a.remarkOut("queue %s is %s: %d queued, %d running", q.Name, queueCell(&q), q.Counts[job.Queued], q.Counts[job.Running])
				return nil
			})
		},
	}
	c.Flags().IntVar(&concurrency, "concurrency", 0, "most jobs at once, over all processes")
	c.Flags().StringVar(&rate, "rate", "", "most starts, over all processes: 5/s, 100/m, 1000/h")
	c.Flags().BoolVar(&off, "off", false, "no limit any more")
	return c
}

// parseRate reads a rate in starts a second: 5/s, 100/m, 1000/h, 0.5.
func parseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	per, ok := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(n > 0) || n > 1e9 {
		return 0, fmt.Errorf("%q: want a number over 0 and a unit, such as 5/s, 100/m or 1000/h", text)
	}
	return n / per, nil
}

// rateCell writes a rate in the unit in which it reads best.
func rateCell(rate float64) string {
	for _, u := range []struct {
		name string
		per  float64
	}{{"s", 1}, {"m", 60}, {"h", 3600}} {
		if n := rate * u.per; n >= 1 || u.name == "h" {
			return strconv.FormatFloat(n, 'g', 6, 64) + "/" + u.name
		}
	}
	return ""
}

func limitCell(l *engine.QueueLimit) string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", l.Concurrency))
	}
	if l.Rate > 0 {
		parts = append(parts, rateCell(l.Rate))
	}
	return strings.Join(parts, " and ")
}
