package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
	"github.com/ebbhq/ebb/simulate/file"
	"github.com/ebbhq/ebb/simulate/report"
	"github.com/ebbhq/ebb/simulate/scenario"
)

// Bounds of a simulation that is asked for over HTTP: what takes longer is for
// ebb simulate in a terminal.
const (
	maxPlaying  = 2          // at a time; further ones are refused
	maxPlaySize = 20_000_000 // events of one run
	maxSeeds    = 100
)

// ScenarioList is the built-in scenarios.
type ScenarioList struct {
	Scenarios []scenario.Listed `json:"scenarios"`
}

// SimulationOrder is what to simulate: a built-in scenario or one that is
// given, as it is or under policies that are known here.
type SimulationOrder struct {
	Scenario string   `json:"scenario,omitempty" doc:"the name of a built-in scenario"`
	Source   string   `json:"source,omitempty" doc:"in its place: the text of a scenario file, which may name no other file; ebb simulate schema has its form"`
	Variants []string `json:"variants,omitempty" doc:"play only these"`
	Policy   string   `json:"policy,omitempty" doc:"a policy known here, in place of the scenario's own"`
	Against  string   `json:"against,omitempty" doc:"a policy known here, to be set beside it"`
	Caller   string   `json:"caller,omitempty" doc:"whose policy is replaced; missing = every caller's"`
	Seed     *int64   `json:"seed,omitempty" doc:"the first seed; missing = the scenario's"`
	Seeds    int      `json:"seeds,omitempty" doc:"how many seeds, for confidence intervals; at most 100"`
}

type simulationIn struct{ Body SimulationOrder }

func (s *server) simulationRoutes() []route {
	simulated := handle(s, access.Read, http.MethodPost, "/v1/simulations", "simulate", "Play a scenario and tell what the policies did", s.simulate)
	simulated.once = false // it changes nothing, and the same order has the same answer
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/simulations", "listScenarios", "List the built-in scenarios", listScenarios),
		simulated,
	}
}

func listScenarios(context.Context, *none) (ScenarioList, error) {
	list, err := scenario.List()
	return ScenarioList{list}, err
}

func (s *server) simulate(ctx context.Context, in *simulationIn) (report.Told, error) {
	order := &in.Body
	f, err := order.read()
	if err != nil {
		return report.Told{}, err
	}
	plays, from, to, err := s.plays(f, order)
	if err != nil {
		return report.Told{}, err
	}
	select {
	case s.playing <- struct{}{}:
		defer func() { <-s.playing }()
	default:
		return report.Told{}, problem(http.StatusTooManyRequests, "busy", "the same again in a few seconds", "%d simulations are running", maxPlaying)
	}
	ctx, cancel := context.WithTimeout(ctx, s.MaxSimulation)
	defer cancel()
	r := &report.Report{Name: f.Scenario.Name, About: f.Scenario.About, From: from, To: to}
	for _, p := range plays {
		if order.Seed != nil {
			p.Scenario.Seed = uint64(*order.Seed)
		}
		seeds := order.Seeds
		if seeds == 0 {
			seeds = min(max(f.Seeds, 1), maxSeeds)
		}
		played, err := report.Play(ctx, p.Name, p.About, p.Scenario, report.Options{Options: simulate.Options{Seeds: seeds, MaxEvents: maxPlaySize}})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return report.Told{}, problem(http.StatusUnprocessableEntity, "too_long", "fewer seeds or variants, a shorter scenario, or ebb simulate in a terminal", "that takes longer than %s", s.MaxSimulation)
		case err != nil && ctx.Err() != nil:
			return report.Told{}, err // nobody waits for it any more
		case err != nil:
			return report.Told{}, unfit(err)
		}
		r.Cases = append(r.Cases, played)
	}
	return r.Told(), nil
}

func unfit(err error) *Problem {
	return problem(http.StatusUnprocessableEntity, "invalid", "mend what is named and ask again; ebb simulate schema has the form of a scenario", "%v", err)
}

// read returns the scenario that is meant.
func (o *SimulationOrder) read() (*file.File, error) {
	switch {
	case (o.Scenario == "") == (o.Source == ""):
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "scenario with a name of GET /v1/simulations, or source", "the body needs one of scenario and source")
	case o.Seeds < 0 || o.Seeds > maxSeeds:
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "ebb simulate in a terminal plays more", "seeds %d: 1 to %d", o.Seeds, maxSeeds)
	case o.Seed != nil && *o.Seed < 0:
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "a whole number, 0 or more", "seed %d", *o.Seed)
	case o.Caller != "" && o.Policy == "" && o.Against == "":
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "policy, or leave caller out", "caller says whose policy is replaced, and none is given")
	case o.Policy != "" && o.Policy == o.Against:
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "another policy, or leave one out", "policy and against are both %.100q", o.Policy)
	case len(o.Variants) > 0 && (o.Policy != "" || o.Against != ""):
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "variants, or policy and against", "a policy is played on the scenario itself, not on its variants")
	case o.Source != "":
		f, err := file.Parse("source", []byte(o.Source), nil)
		if err != nil {
			return nil, unfit(err)
		}
		return f, nil
	case !scenario.Is(o.Scenario):
		return nil, problem(http.StatusNotFound, "not_found", "one of "+strings.Join(scenario.Names(), ", "), "there is no built-in scenario %.100q", o.Scenario)
	}
	return scenario.Load(o.Scenario)
}

// plays lists what is to be run, and which two of them are compared.
func (s *server) plays(f *file.File, o *SimulationOrder) (plays []file.Variant, from, to int, err error) {
	if o.Policy == "" && o.Against == "" {
		if plays, from, to, err = f.Plays(o.Variants); err != nil {
			return nil, 0, 0, unfit(err)
		}
		return plays, from, to, nil
	}
	for _, name := range []string{o.Policy, o.Against} {
		if name == "" {
			continue
		}
		v, err := s.under(f, name, o.Caller)
		if err != nil {
			return nil, 0, 0, err
		}
		plays = append(plays, v)
	}
	if o.Against == "" {
		return plays, 0, 0, nil
	}
	if o.Policy == "" { // beside the scenario's own
		plays = slices.Insert(plays, 0, file.Variant{Name: f.Scenario.Callers[0].Policy.Name, Scenario: f.Scenario})
	}
	if plays[0].Name == plays[1].Name {
		plays[0].Name += " of the scenario"
	}
	return plays, 1, 0, nil
}

// under is the scenario under a policy that is known here.
func (s *server) under(f *file.File, name, caller string) (file.Variant, error) {
	i := slices.IndexFunc(s.Policies, func(p policy.Policy) bool { return p.Name == name })
	if i < 0 {
		return file.Variant{}, problem(http.StatusNotFound, "not_found", "look at GET /v1/policies", "there is no policy %.100q here", name)
	}
	v, err := f.With(s.Policies[i], name, caller)
	if err != nil {
		return v, unfit(err)
	}
	return v, nil
}
