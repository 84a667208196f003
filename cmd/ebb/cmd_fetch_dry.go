package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/fetch/input"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

// schedule is what `ebb fetch --dry-run` prints.
type schedule struct {
	Policy      string         `json:"policy"`
	URLs        int64          `json:"urls"`
	Bad         int64          `json:"bad"`
	Repeated    int64          `json:"repeated"`
	Hosts       map[string]int `json:"hosts"`
	Concurrency int            `json:"concurrency"`
	Spacing     float64        `json:"spacing_s"`
	PerHost     float64        `json:"starts_per_second"` // most, of this process
	Least       float64        `json:"least_s"`           // if all goes well and every answer is instant
	Cooldowns   float64        `json:"cooldowns_s"`       // more, at worst, in waves
	Held        float64        `json:"held_s,omitempty"`  // more, at worst, while hosts are down
	Refused     string         `json:"refused,omitempty"` // why it would not start
}

// fetchDry reads the input and sends nothing.
func (a *app) fetchDry(c *cobra.Command, f *fetchFlags, args []string) error {
	p, err := f.policy(a)
	if err != nil {
		return err
	}
	sources := f.sources(args)
	if len(sources) == 0 {
		return usage(errors.New("fetch: there is no URL in the input"), "ebb fetch -i urls.txt --dry-run")
	}
	reader := input.Read(sources, input.Options{Open: a.opener(c.Context(), f.Agent)})
	s := schedule{Policy: p.Name, Hosts: map[string]int{}}
	for item, err := range reader.All() {
		var bad *input.Error
		switch {
		case errors.As(err, &bad) && !bad.Fatal:
		case err != nil:
			return usage(fmt.Errorf("fetch: %w", err), "mend the input")
		default:
			s.Hosts[scope.Host(item.URL)]++
		}
	}
	count := reader.Count()
	s.URLs, s.Bad, s.Repeated = int64(count.Unique), int64(count.Bad), int64(count.Duplicates)
	s.plan(&p)
	if err := fetch.CheckFloors(&p, f.Waiver); err != nil {
		s.Refused = err.Error()
	}
	if a.json {
		return a.printJSON(s)
	}
	a.printSchedule(&s)
	return nil
}

// plan reckons how long it takes.
func (s *schedule) plan(p *policy.Policy) {
	s.Concurrency, s.Spacing = p.Concurrency, p.Spacing.Seconds()
	least := time.Duration(max(0, s.URLs-1)) * p.Spacing
	if rate := p.PerTarget.Rate; rate > 0 {
		for _, n := range s.Hosts {
			least = max(least, time.Duration(float64(n-1)/rate*float64(time.Second)))
		}
		s.PerHost = rate
	}
	if p.Spacing > 0 {
		s.PerHost = cmp.Or(min(s.PerHost, 1/p.Spacing.Seconds()), 1/p.Spacing.Seconds())
	}
	s.Least = least.Seconds()
	s.Cooldowns = (time.Duration(p.Waves.Count) * p.Waves.Cooldown).Seconds()
	if p.Gate {
		s.Held = p.MaxHold.Seconds()
	}
}

func (a *app) printSchedule(s *schedule) {
	fmt.Fprintf(a.stdout, "%d URLs of %d hosts (%d repeated, %d no URLs), policy %s; nothing is fetched\n", s.URLs, len(s.Hosts), s.Repeated, s.Bad, s.Policy)
	hosts := slices.SortedFunc(maps.Keys(s.Hosts), func(x, y string) int {
		return cmp.Or(cmp.Compare(s.Hosts[y], s.Hosts[x]), cmp.Compare(x, y))
	})
	const most = 10
	for _, host := range hosts[:min(most, len(hosts))] {
		fmt.Fprintf(a.stdout, "  %s: %d\n", host, s.Hosts[host])
	}
	if len(hosts) > most {
		fmt.Fprintf(a.stdout, "  and %d more\n", len(hosts)-most)
	}
	fmt.Fprintf(a.stdout, "%d requests at once, %s between starts\n", s.Concurrency, secondsOf(s.Spacing))
	fmt.Fprintf(a.stdout, "takes at least %s; waves wait up to %s more", secondsOf(s.Least), secondsOf(s.Cooldowns))
	if s.Held > 0 {
		fmt.Fprintf(a.stdout, "; a host that is down is waited for, up to %s", secondsOf(s.Held))
	}
	fmt.Fprintln(a.stdout)
	if s.Refused != "" {
		fmt.Fprintf(a.stdout, "it would be refused: %s\n", s.Refused)
	}
}

func secondsOf(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
