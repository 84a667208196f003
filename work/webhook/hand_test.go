package webhook

import (
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/worker"
)

const (
	// reachedWithin is how soon an order of a person reaches the endpoint.
	reachedWithin = 2 * time.Second
	// lastsLong is for how long the breaker stays open by itself.
	lastsLong = 8 * time.Minute
)

// mending is an endpoint on loopback that answers 500 until it is mended, the
// worker that calls it, and another process that gives orders.
type mending struct {
	*rig
	hand     *Service // the other process
	endpoint Endpoint
	received *receiver
	mended   atomic.Bool
	opened   chan struct{} // the breaker has opened

	dead    []Sent // the deliveries that opened it
	waiting []Sent // those that it holds
}

// newMending lets a breaker open that stays open for long: of five deliveries
// three have failed for good and two wait.
func newMending(t *testing.T, open func(*testing.T) store.Store) *mending {
	t.Helper()
	o := openBreaker(t, open, 1)
	for range 2 {
		o.waiting = append(o.waiting, o.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0])
	}
	o.quiet()
	if n := len(o.received.calls); n != 0 {
		t.Fatalf("%d calls while the breaker is open", n)
	}
	return o
}

// openBreaker lets three deliveries fail, of so many attempts each, and the breaker
// open.
func openBreaker(t *testing.T, open func(*testing.T) store.Store, attempts int) *mending {
	t.Helper()
	o := &mending{opened: make(chan struct{}, 100)}
	o.received = receive(t, func(w http.ResponseWriter, _ call) {
		if !o.mended.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	p := policy.Base(PolicyName)
	p.Attempts, p.PerTarget.Concurrency = attempts, 1
	p.Breaker = policy.Breaker{Consecutive: 3, Open: lastsLong, Cap: lastsLong}
	for _, rule := range []string{policy.RuleWindow, policy.RuleHold} {
		p.Waivers = append(p.Waivers, policy.Waiver{Rule: rule, Reason: "nothing but an order ends it", Expires: time.Now().AddDate(0, 1, 0)})
	}
	sealed, err := policy.Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	o.rig = newRig(t, func(c *Config, w *worker.Config) {
		c.Store, c.Policies = open(t), []policy.Policy{sealed}
		w.Observe = func(e worker.Event) {
			if e.What == worker.GateOpened {
				o.opened <- struct{}{}
			}
		}
	})
	o.hand = stillRig(t, func(c *Config, _ *worker.Config) {
		c.Store, c.Policies, c.Actor = open(t), []policy.Policy{sealed}, "ann"
	}).Service
	t.Cleanup(o.hand.Close)
	o.endpoint, _ = o.add(NewEndpoint{URL: o.received.URL})
	for range 3 {
		o.dead = append(o.dead, o.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0])
		<-o.received.calls
	}
	<-o.opened
	o.quiet()
	return o
}

// quiet waits until the worker has done all that it can.
func (o *mending) quiet() {
	o.t.Helper()
	if err := o.worker.Quiet(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
}

// reached waits for the next call.
func (o *mending) reached() {
	o.t.Helper()
	late := time.NewTimer(reachedWithin)
	defer late.Stop()
	select {
	case <-o.received.calls:
	case <-late.C:
		t, err := o.ops.Target(o.t.Context(), o.endpoint.ID)
		o.t.Fatalf("the order did not reach the endpoint within %s: %v\n%s", reachedWithin, err, t.Text)
	}
}

// inSQLite opens one more handle on the database of the test.
func inSQLite(t *testing.T) func(*testing.T) store.Store {
	path := filepath.Join(t.TempDir(), "ebb.db")
	return func(t *testing.T) store.Store {
		t.Helper()
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
}

func inPostgreSQL(t *testing.T) func(*testing.T) store.Store {
	url := pgtest.Database(t)
	return func(t *testing.T) store.Store {
		t.Helper()
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
}

// orders are what a person can do about an endpoint that was mended.
var orders = []struct {
	name string
	give func(ctx context.Context, o *mending) error
}{
	{"redrive of a delivery", func(ctx context.Context, o *mending) error {
		_, err := o.hand.Redrive(ctx, o.dead[0].ID)
		return err
	}},
	{"redrive of an endpoint", func(ctx context.Context, o *mending) error {
		_, err := o.hand.RedriveAll(ctx, DeliveryFilter{Endpoint: o.endpoint.ID}, 1, false)
		return err
	}},
	{"redrive of dead letters by id", func(ctx context.Context, o *mending) error {
		_, err := o.hand.ops.Redrive(ctx, engine.Order{Filter: engine.Filter{IDs: []string{o.dead[0].ID}}})
		return err
	}},
	{"resend", func(ctx context.Context, o *mending) error {
		if _, err := o.hand.ops.Cancel(ctx, o.waiting[1].ID); err != nil {
			return err
		}
		_, err := o.hand.Redrive(ctx, o.waiting[1].ID)
		return err
	}},
	{"test", func(ctx context.Context, o *mending) error {
		_, err := o.hand.Test(ctx, o.endpoint.ID)
		return err
	}},
	{"resume of the enabled endpoint", func(ctx context.Context, o *mending) error {
		_, err := o.hand.Resume(ctx, o.endpoint.ID, false)
		return err
	}},
	{"pause and resume of the endpoint", func(ctx context.Context, o *mending) error {
		if _, err := o.hand.Pause(ctx, o.endpoint.ID, "", time.Time{}); err != nil {
			return err
		}
		_, err := o.hand.Resume(ctx, o.endpoint.ID, false)
		return err
	}},
	{"resume of the target", func(ctx context.Context, o *mending) error {
		_, err := o.hand.ops.ResumeTarget(ctx, o.endpoint.ID, false)
		return err
	}},
	{"resume with everything parked", func(ctx context.Context, o *mending) error {
		o.park(ctx)
		_, err := o.hand.ops.ResumeTarget(ctx, o.endpoint.ID, false)
		return err
	}},
	{"retry of a waiting job", func(ctx context.Context, o *mending) error {
		_, err := o.hand.ops.Retry(ctx, o.waiting[1].ID)
		return err
	}},
	{"retry of a failed job", func(ctx context.Context, o *mending) error {
		_, err := o.hand.ops.Retry(ctx, o.dead[2].ID)
		return err
	}},
	{"retry of a parked job", func(ctx context.Context, o *mending) error {
		o.park(ctx)
		_, err := o.hand.ops.Retry(ctx, o.waiting[0].ID)
		return err
	}},
	{"probe of the target", func(ctx context.Context, o *mending) error {
		_, err := o.hand.ops.ProbeTarget(ctx, o.endpoint.ID)
		return err
	}},
	{"probe with everything parked", func(ctx context.Context, o *mending) error {
		o.park(ctx)
		_, err := o.hand.ops.ProbeTarget(ctx, o.endpoint.ID)
		return err
	}},
}

// park parks what waits, as the end of max_hold does.
func (o *mending) park(ctx context.Context) {
	o.t.Helper()
	ended, err := o.store.EndWaiting(ctx, time.Time{}, store.Ending{
		Target: o.endpoint.ID, Any: true, DueBy: store.Never, To: job.Parked, Cause: "target_down", Limit: 10,
	})
	if n := store.EndTotal(ended); err != nil || n != len(o.waiting) {
		o.t.Fatalf("%d parked, want %d: %v", n, len(o.waiting), err)
	}
}

// TestOrderReachesTheMendedEndpointNow: the endpoint was mended while its
// breaker is open. Whatever a person orders in another process reaches it
// now, and what waited follows.
func TestOrderReachesTheMendedEndpointNow(t *testing.T) {
	for _, order := range orders {
		t.Run(order.name, func(t *testing.T) {
			o := newMending(t, inSQLite(t))
			o.mended.Store(true)
			if err := order.give(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.reached()
			for _, sent := range o.waiting {
				d, err := o.Delivery(t.Context(), sent.ID)
				if err != nil {
					t.Fatal(err)
				}
				if d.State == job.Queued || d.State == job.Running {
					o.await(sent.ID, "succeeded")
				}
			}
		})
	}
}

// TestOrderCallsAnEndpointThatIsStillBadOnce: the order makes exactly one call,
// whose failure opens the breaker again.
func TestOrderCallsAnEndpointThatIsStillBadOnce(t *testing.T) {
	for _, order := range orders {
		t.Run(order.name, func(t *testing.T) {
			o := newMending(t, inSQLite(t))
			if err := order.give(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.reached()
			<-o.opened
			o.quiet()
			if n := len(o.received.calls); n != 0 {
				t.Errorf("%d more calls, want none after the probe", n)
			}
			got, err := o.ops.Target(t.Context(), o.endpoint.ID)
			if err != nil || got.Held != "breaker" || got.Breaker.Trips != 2 {
				t.Errorf("held by %s after %d openings, want by the breaker after 2: %v", got.Held, got.Breaker.Trips, err)
			}
		})
	}
}

// TestOrderReachesAnEndpointWhoseRetriesAreNotDue: what waits is due in a minute
// or later. The order does not wait for that either.
func TestOrderReachesAnEndpointWhoseRetriesAreNotDue(t *testing.T) {
	for _, order := range orders {
		switch order.name {
		case "probe of the target", "resume of the target", "resume of the enabled endpoint":
		default:
			continue
		}
		t.Run(order.name, func(t *testing.T) {
			o := openBreaker(t, inSQLite(t), 6)
			o.mended.Store(true)
			if err := order.give(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.reached()
			o.quiet()
			if n := len(o.received.calls); n != 0 {
				t.Errorf("%d more calls, want the others when they are due", n)
			}
		})
	}
}

// TestOrdersOnPostgreSQL: the same where processes share a server.
func TestOrdersOnPostgreSQL(t *testing.T) {
	for _, order := range orders {
		switch order.name {
		case "redrive of a delivery", "test", "resume of the target", "probe of the target":
		default:
			continue
		}
		t.Run(order.name, func(t *testing.T) {
			o := newMending(t, inPostgreSQL(t))
			o.mended.Store(true)
			if err := order.give(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.reached()
			for _, sent := range o.waiting {
				o.await(sent.ID, "succeeded")
			}
		})
	}
}

// TestClosedByHandLetsAllGo: a person who knows that the endpoint is well needs
// no probe.
func TestClosedByHandLetsAllGo(t *testing.T) {
	o := newMending(t, inSQLite(t))
	o.mended.Store(true)
	got, err := o.hand.ops.CloseTarget(t.Context(), o.endpoint.ID)
	// The worker may be at its first call by now, as many as the endpoint may get.
	if err != nil || got.Held != "none" && got.Held != "concurrency" {
		t.Fatalf("held by %s: %v", got.Held, err)
	}
	o.reached()
	for _, sent := range o.waiting {
		o.await(sent.ID, "succeeded")
	}
}

// TestOrderOfAPausedEndpoint: it is not called, and the answer says what helps.
func TestOrderOfAPausedEndpoint(t *testing.T) {
	o := newMending(t, inSQLite(t))
	o.mended.Store(true)
	if _, err := o.hand.Pause(t.Context(), o.endpoint.ID, "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	e, err := o.hand.Test(t.Context(), o.endpoint.ID)
	if err != nil || e.Probe == nil || e.Probe.State != engine.ProbePaused || e.Probe.Try != "ebb webhook endpoint resume "+o.endpoint.ID {
		t.Errorf("%+v, %v", e.Probe, err)
	}
	d, err := o.hand.Redrive(t.Context(), o.dead[0].ID)
	if err != nil || d.Probe == nil || d.Probe.State != engine.ProbePaused {
		t.Errorf("%+v, %v", d.Probe, err)
	}
	o.quiet()
	if n := len(o.received.calls); n != 0 {
		t.Errorf("%d calls of a paused endpoint", n)
	}
}
