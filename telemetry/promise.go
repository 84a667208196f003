package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/policy"
)

var (
	delayDesc = prometheus.NewDesc("ebb_policy_delay_seconds",
		"What the policy's schedule promises before a try: the least and the most delay.", []string{"policy", "attempt", "bound"}, nil)
	floorDesc = prometheus.NewDesc("ebb_policy_floor_seconds",
		"What the policy's nominal delays must reach, and the least after jitter 80 % of, whatever it says itself: the guard of its target's kind.", []string{"policy"}, nil)
)

// promises are the policies, to compare what happens with. As a collector it
// shows them.
type promises struct {
	policies map[string]*policy.Policy
	own      map[ruleName]bool // rules with a schedule of their own
}

type ruleName struct{ policy, label string }

func newPromises(given []policy.Policy) *promises {
	p := &promises{policies: make(map[string]*policy.Policy), own: make(map[ruleName]bool)}
	for _, name := range policy.PresetNames() {
		preset := policy.MustPreset(name)
		p.policies[name] = &preset
	}
	for _, g := range given {
		sealed, err := policy.Seal(g)
		if err != nil {
			panic(fmt.Sprintf("telemetry: policy %s: %v", g.Name, err))
		}
		p.policies[g.Name] = &sealed
	}
	for name, pol := range p.policies {
		for i := range pol.Classes {
			if pol.Classes[i].Backoff != nil {
				p.own[ruleName{name, pol.Classes[i].Label}] = true
			}
		}
	}
	return p
}

// ownSchedule reports whether a rule of the policy has its own schedule.
func (p *promises) ownSchedule(name, rule string) bool { return p.own[ruleName{name, rule}] }

// Describe is of prometheus.Collector.
func (p *promises) Describe(out chan<- *prometheus.Desc) {
	out <- delayDesc
	out <- floorDesc
}

// Collect is of prometheus.Collector.
func (p *promises) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, name := range slices.Sorted(maps.Keys(p.policies)) {
		pol := p.policies[name]
		gauge(floorDesc, pol.MinDelay().Seconds(), valid(name))
		for i, band := range pol.Delays() {
			n := i + 2
			if n > maxAttempt {
				break
			}
			gauge(delayDesc, band.Least.Seconds(), valid(name), strconv.Itoa(n), "least")
			gauge(delayDesc, band.Most.Seconds(), valid(name), strconv.Itoa(n), "most")
		}
	}
}
