package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/webhook"
)

// Seed 002's kind of trouble: customers' endpoints, of which one is down for
// ten minutes, one answers after 25 s, and one never comes back by itself.
const (
	endpointCount  = 10
	endpointOutage = 10 * time.Minute
	slowAnswer     = 25 * time.Second
)

// webhooks sends events to all endpoints, waits until each delivery has ended,
// then repairs the dead endpoint and redrives what it missed.
func webhooks(ctx context.Context, w *world) (result, error) {
	r, err := newReceivers(ctx, w.clock, endpointCount*w.size.events)
	if err != nil {
		return result{}, err
	}
	defer r.close()
	for i := range endpointCount {
		_, _, err := w.webhooks.Add(ctx, webhook.NewEndpoint{
			URL: fmt.Sprintf("%s/customer/%d", r.base, i), Description: r.describe(i), Types: []string{fmt.Sprintf("order.%d", i)},
		})
		if err != nil {
			return result{}, err
		}
	}
	for n := range w.size.events {
		for i := range endpointCount {
			_, err := w.webhooks.Send(ctx, webhook.Message{Type: fmt.Sprintf("order.%d", i), Payload: fmt.Appendf(nil, `{"order": %d}`, n)})
			if err != nil {
				return result{}, err
			}
		}
	}
	if err := w.delivered(ctx); err != nil {
		return result{}, err
	}
	missed := r.missing()
	r.repaired.Store(true)
	if !w.foil {
		order, err := w.webhooks.RedriveAll(ctx, webhook.DeliveryFilter{State: job.Failed}, 0, false)
		if err != nil {
			return result{}, err
		}
		if _, err := w.ops.FinishRedrive(ctx, order.ID, nil); err != nil {
			return result{}, err
		}
		if err := w.delivered(ctx); err != nil {
			return result{}, err
		}
	}
	said := fmt.Sprintf("%d calls fell into the outage", r.refused.Load())
	if !w.foil {
		said += fmt.Sprintf("; %d dead letters of the dead endpoint were kept, and one redrive delivered %d of them when it was repaired", missed, missed-r.missing())
	}
	k := w.counts.seen(webhook.Kind)
	return result{
		asked:  fmt.Sprintf("%d events to %d endpoints; one is down for %s, one answers after %s, one is dead", endpointCount*w.size.events, endpointCount, policy.FormatDuration(endpointOutage), policy.FormatDuration(slowAnswer)),
		failed: k.failures() + "; " + k.retries(),
		lost:   r.missing(),
		said:   said,
	}, nil
}

// delivered waits until no delivery is waiting or under way.
func (w *world) delivered(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		queues, err := w.ops.Queues(ctx)
		for _, q := range queues {
			if q.Name == webhook.Queue {
				return q.Counts[job.Queued]+q.Counts[job.Running] == 0, err
			}
		}
		return false, err
	})
}

// receivers are the customers' endpoints: 0 is down for a while, 1 slow, 2
// dead until it is repaired, the others well.
type receivers struct {
	*server
	messages int // that should come
	clock    clock.Clock
	began    time.Time
	repaired atomic.Bool
	refused  atomic.Int64

	mu  sync.Mutex
	got map[string]map[string]bool // by endpoint, the ids of messages
}

func newReceivers(ctx context.Context, c clock.Clock, messages int) (*receivers, error) {
	r := &receivers{messages: messages, clock: c, began: c.Now(), got: map[string]map[string]bool{}}
	var err error
	r.server, err = listen(ctx, r.serve)
	return r, err
}

func (r *receivers) describe(i int) string {
	switch i {
	case 0:
		return "down for ten minutes"
	case 1:
		return "slow"
	case 2:
		return "dead"
	}
	return "well"
}

func (r *receivers) serve(w http.ResponseWriter, req *http.Request) {
	path := req.URL.Path
	switch {
	case path == "/customer/0" && r.clock.Now().Sub(r.began) < endpointOutage:
		r.refused.Add(1)
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	case path == "/customer/1":
		if clock.Sleep(req.Context(), r.clock, slowAnswer) != nil {
			return
		}
	case path == "/customer/2" && !r.repaired.Load():
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.(*net.TCPConn).SetLinger(0) // a reset, as of a machine that is gone
			_ = c.Close()
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got[path] == nil {
		r.got[path] = map[string]bool{}
	}
	r.got[path][req.Header.Get("Webhook-Id")] = true
}

// missing counts the messages that no endpoint has.
func (r *receivers) missing() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.messages
	for _, ids := range r.got {
		n -= len(ids)
	}
	return n
}
