package supervise

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// Options are seed 003's names for what a policy says. 0 = as the policy.
// Under annual-crawl lower values than the seed's are raised to them.
type Options struct {
	MaxContainerRestarts  int     `json:"max_container_restarts,omitempty" yaml:"max_container_restarts"`
	ErrorThresholdTimeout int     `json:"error_threshold_timeout,omitempty" yaml:"error_threshold_timeout"`
	ErrorThresholdHTTP    int     `json:"error_threshold_http,omitempty" yaml:"error_threshold_http"`
	BackoffDelayMinutes   float64 `json:"backoff_delay_minutes,omitempty" yaml:"backoff_delay_minutes"`
}

func (o Options) check() []error {
	var errs []error
	for _, v := range []struct {
		name string
		n    float64
	}{
		{"max_container_restarts", float64(o.MaxContainerRestarts)},
		{"error_threshold_timeout", float64(o.ErrorThresholdTimeout)},
		{"error_threshold_http", float64(o.ErrorThresholdHTTP)},
		{"backoff_delay_minutes", o.BackoffDelayMinutes},
	} {
		if v.n < 0 {
			errs = append(errs, fmt.Errorf("%s: %g is negative; 0 means as the policy says", v.name, v.n))
		}
	}
	return errs
}

// minima are the figures below which annual-crawl does not go.
var minima = policy.MustPreset("annual-crawl")

// Apply returns the policy with the options in it, sealed. Lower values than
// annual-crawl's are raised under that name.
func (o Options) Apply(p policy.Policy) (policy.Policy, error) {
	if o.MaxContainerRestarts > 0 {
		p.Restarts.Max = o.MaxContainerRestarts
	}
	if o.ErrorThresholdTimeout > 0 {
		p.Thresholds.Timeout = o.ErrorThresholdTimeout
	}
	if o.ErrorThresholdHTTP > 0 {
		p.Thresholds.HTTP = o.ErrorThresholdHTTP
	}
	if o.BackoffDelayMinutes > 0 {
		p.Backoff.Base = time.Duration(o.BackoffDelayMinutes * float64(time.Minute))
		p.Backoff.Steps = nil
	}
	if p.Name == minima.Name {
		p.Restarts.Max = max(p.Restarts.Max, minima.Restarts.Max)
		p.Thresholds.Timeout = max(p.Thresholds.Timeout, minima.Thresholds.Timeout)
		p.Thresholds.HTTP = max(p.Thresholds.HTTP, minima.Thresholds.HTTP)
	}
	return policy.Seal(p)
}

// Raised returns the options with every figure that is set, and lower than
// the policy's, raised to it: what `ebb campaign recover` does to old runs.
func (o Options) Raised(p *policy.Policy) Options {
	raise := func(v *int, least int) {
		if *v > 0 {
			*v = max(*v, least)
		}
	}
	raise(&o.MaxContainerRestarts, p.Restarts.Max)
	raise(&o.ErrorThresholdTimeout, p.Thresholds.Timeout)
	raise(&o.ErrorThresholdHTTP, p.Thresholds.HTTP)
	return o
}
