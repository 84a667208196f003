package console

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
	"github.com/ebbhq/ebb/simulate/report"
	"github.com/ebbhq/ebb/simulate/scenario"
)

// Bounds of a simulation for a page.
const (
	maxMinutes  = 240
	maxRate     = 10_000.0
	maxSimJobs  = 50_000 // beyond it scenario.Outage would scale down
	maxSimSteps = 20_000_000
	brownLeft   = 0.3 // of the capacity in a brownout
	simP99      = time.Second
)

// outage is what the form of the simulator asks for.
type outage struct {
	A, B              string // policies
	Kind              string
	Minutes           float64
	Arrival, Capacity float64 // jobs and calls a second
	Seed              uint64
}

// outageKinds are how the modelled service can fail.
var outageKinds = []struct{ Name, Words string }{
	{"errors", "every call is answered 503"},
	{"hang", "no call is answered: each ends by its timeout"},
	{"brownout", "the capacity falls to 30 %"},
}

// field is one input of the form as it was given.
type field struct{ Value, Wrong string }

// simulation is the body of the page.
type simulation struct {
	Policies []policy.Policy
	Kinds    any
	Fields   map[string]field
	Wrong    []string // of the form as a whole
	Ran      *ranSimulation
}

type ranSimulation struct {
	Verdict string
	About   string
	Notes   []string
	Cases   []caseSentence
	// Charts is the body of the report, which escapes what it is given.
	Charts template.HTML
}

type caseSentence struct{ Colour, Name, Text string }

var simDefaults = map[string]string{
	"b": "default", "a": "webhook", "kind": "errors", "minutes": "10", "arrival": "10", "capacity": "40", "seed": "1",
}

func (s *server) simulate(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	body := &simulation{Policies: s.policies, Kinds: outageKinds, Fields: map[string]field{}}
	asked := query.Has("a")
	for key, usual := range simDefaults {
		value := usual
		if query.Has(key) {
			value = strings.TrimSpace(query.Get(key))
		}
		body.Fields[key] = field{Value: value}
	}
	status := http.StatusOK
	o := body.read()
	switch {
	case !asked:
	case body.faulty():
		status = http.StatusBadRequest
	default:
		ran, err := s.play(r.Context(), o)
		var own *refusal
		if errors.As(err, &own) {
			status = own.status
			body.Wrong = append(body.Wrong, own.text)
		} else if err != nil {
			return err
		}
		body.Ran = ran
	}
	return s.show(w, r, status, "simulate.html", page{Title: "Simulate an outage", Nav: "simulate", Body: body})
}

func (b *simulation) faulty() bool {
	for _, f := range b.Fields {
		if f.Wrong != "" {
			return true
		}
	}
	return len(b.Wrong) > 0
}

// read checks every field, and says at each what would be right.
func (b *simulation) read() (o outage) {
	wrong := func(key, text string) { b.Fields[key] = field{b.Fields[key].Value, text} }
	number := func(key string, least, most float64) float64 {
		v, err := strconv.ParseFloat(b.Fields[key].Value, 64)
		if err != nil || math.IsNaN(v) || v < least || v > most {
			wrong(key, fmt.Sprintf("a number from %g to %g", least, most))
		}
		return v
	}
	o.A, o.B, o.Kind = b.Fields["a"].Value, b.Fields["b"].Value, b.Fields["kind"].Value
	for key, name := range map[string]string{"a": o.A, "b": o.B} {
		if _, ok := find(b.Policies, name); !ok {
			wrong(key, "one of the policies that are known here")
		}
	}
	if o.A == o.B {
		wrong("b", "another policy than the first")
	}
	known := false
	for _, k := range outageKinds {
		known = known || k.Name == o.Kind
	}
	if !known {
		wrong("kind", "errors, hang or brownout")
	}
	o.Minutes = number("minutes", 0.5, maxMinutes)
	o.Arrival = number("arrival", 0.01, maxRate)
	o.Capacity = number("capacity", 0.1, maxRate)
	seed, err := strconv.ParseUint(b.Fields["seed"].Value, 10, 64)
	if err != nil {
		wrong("seed", "a whole number, 0 or more")
	}
	o.Seed = seed
	return o
}

func find(list []policy.Policy, name string) (policy.Policy, bool) {
	for i := range list {
		if list[i].Name == name {
			return list[i], true
		}
	}
	return policy.Policy{}, false
}

// play runs both policies through the same outage.
func (s *server) play(ctx context.Context, o outage) (*ranSimulation, error) {
	select {
	case s.playing <- struct{}{}:
		defer func() { <-s.playing }()
	default:
		return nil, &refusal{http.StatusTooManyRequests, "Other simulations are running: try again in a few seconds."}
	}
	ctx, cancel := context.WithTimeout(ctx, s.MaxSimulation)
	defer cancel()
	ran := &ranSimulation{}
	var scenes []simulate.Scenario
	var length time.Duration
	for _, name := range []string{o.A, o.B} {
		p, _ := find(s.policies, name)
		if p.Waves.Count > 0 {
			ran.Notes = append(ran.Notes, "Jobs arrive one by one here, so that the waves of "+name+", which follow a batch, are not played.")
		}
		scene := o.scene(p)
		length = max(length, scene.Length.Time)
		scenes = append(scenes, scene)
	}
	if jobs := o.Arrival * length.Seconds(); jobs > maxSimJobs {
		return nil, &refusal{http.StatusBadRequest, fmt.Sprintf("That is %s jobs in %s, and a page plays %s at most: ask for up to %.3g arrivals a second or a shorter outage, or run ebb simulate in a terminal.",
			count(int64(jobs)), coarse(length), count(maxSimJobs), math.Floor(10*maxSimJobs/length.Seconds())/10)}
	}
	rep := &report.Report{Name: "outage", From: 0, To: 1}
	for i, name := range []string{o.A, o.B} {
		scenes[i].Length.Time = length
		c, err := report.Play(ctx, name, "", scenes[i], report.Options{Options: simulate.Options{MaxEvents: maxSimSteps}})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil, &refusal{http.StatusServiceUnavailable, "That took longer than " + coarse(s.MaxSimulation) + " and was stopped: ask for less, or run ebb simulate in a terminal."}
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, &refusal{http.StatusBadRequest, sentence(err.Error())}
		}
		rep.Cases = append(rep.Cases, c)
		ran.Cases = append(ran.Cases, caseSentence{fmt.Sprintf("c%d", i), name, sentence(c.Sentence())})
	}
	ran.Verdict = sentence(rep.Verdict())
	ran.About = o.words(length)
	ran.Charts = template.HTML(rep.Body()) //nolint:gosec // the report escapes every name
	return ran, nil
}

// scene is the outage of a policy's expect block with the form's figures.
func (o *outage) scene(p policy.Policy) simulate.Scenario {
	lasts := time.Duration(o.Minutes * float64(time.Minute))
	p.Waves.Count = 0
	p.Expect.Outage, p.Expect.Arrival, p.Expect.Capacity, p.Expect.P99 = lasts, o.Arrival, o.Capacity, simP99
	s, _ := scenario.Outage(p)
	s.Seed = o.Seed
	d := &s.Downstreams[0]
	// So many servers, each so fast that together they serve the capacity.
	d.Service = simulate.Exp(time.Duration(float64(d.Servers) / o.Capacity * float64(time.Second)))
	fault := &d.Faults[0]
	switch o.Kind {
	case "hang":
		fault.Kind, fault.Answer = simulate.FaultHang, simulate.Answer{}
	case "brownout":
		d.Capacity = simulate.Steps(1, simulate.Point{At: fault.From, Value: brownLeft}, simulate.Point{At: fault.Until, Value: 1})
		d.Faults = nil
	}
	return s
}

// words tell what was played.
func (o *outage) words(length time.Duration) string {
	for _, k := range outageKinds {
		if k.Name == o.Kind {
			return fmt.Sprintf("%g jobs a second arrive for %s at a service that can answer %g calls a second. After 2 minutes, for %s, %s. Seed %d.",
				o.Arrival, coarse(length), o.Capacity, coarse(time.Duration(o.Minutes*float64(time.Minute))), k.Words, o.Seed)
		}
	}
	return ""
}
