package telemetry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store"
)

const (
	// depthFresh is how long a count of retries answers further scrapes.
	depthFresh = 15 * time.Second
	// depthTargets is how many targets are counted, depthEach up to how many
	// retries of each: a count must not cost more than what it watches.
	depthTargets = 5000
	depthEach    = 10_000
)

var (
	depthDesc = prometheus.NewDesc("ebb_retry_queue_jobs",
		"Retries that wait in the lanes of targets, due or not, by queue: of the first 5,000 targets by name, up to 10,000 of each.", []string{"queue"}, nil)
	retryingDesc = prometheus.NewDesc("ebb_retry_queue_targets",
		"Targets that retries wait for, by queue.", []string{"queue"}, nil)
)

// RetryDepth counts the retries that wait for targets when somebody scrapes:
// the depth that grows without bound where retries are many and gentle ones
// few. Work without a target is not counted.
type RetryDepth struct {
	gates   store.Gates
	queues  []string
	machine clock.Clock

	mu     sync.Mutex // one count at a time: others wait and share it
	readAt time.Time
	last   []prometheus.Metric
}

// NewRetryDepth returns the collector of the named queues. Machine is the time
// that a count stays fresh by; nil = the machine's.
func NewRetryDepth(gates store.Gates, machine clock.Clock, queues ...string) *RetryDepth {
	if machine == nil {
		machine = clock.System{}
	}
	return &RetryDepth{gates: gates, queues: queues, machine: machine}
}

// Describe is of prometheus.Collector.
func (d *RetryDepth) Describe(out chan<- *prometheus.Desc) {
	out <- depthDesc
	out <- retryingDesc
}

// Collect is of prometheus.Collector. What cannot be read is not told.
func (d *RetryDepth) Collect(out chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.machine.Now(); d.readAt.IsZero() || now.Sub(d.readAt) >= depthFresh {
		d.last, d.readAt = d.read(), now
	}
	for _, m := range d.last {
		out <- m
	}
}

func (d *RetryDepth) read() []prometheus.Metric {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	jobs, targets := map[string]int{}, map[string]int{}
	for _, q := range d.queues {
		jobs[q] = 0
	}
	after := ""
	for seen := 0; seen < depthTargets; {
		page, err := d.gates.Targets(ctx, after, targetPage)
		if err != nil {
			return nil
		}
		for i := range page {
			if after = page[i].Target; d.count(ctx, after, jobs, targets) != nil {
				return nil
			}
		}
		if seen += len(page); len(page) < targetPage {
			break
		}
	}
	var list []prometheus.Metric
	for _, q := range slices.Sorted(maps.Keys(jobs)) {
		list = append(list, sample(depthDesc, float64(jobs[q]), valid(q)), sample(retryingDesc, float64(targets[q]), valid(q)))
	}
	return list
}

func (d *RetryDepth) count(ctx context.Context, target string, jobs, targets map[string]int) error {
	lanes, err := d.gates.Lanes(ctx, target, depthEach)
	for i := range lanes {
		if _, mine := jobs[lanes[i].Queue]; mine && lanes[i].Retries > 0 {
			jobs[lanes[i].Queue] += lanes[i].Retries
			targets[lanes[i].Queue]++
		}
	}
	return err
}
