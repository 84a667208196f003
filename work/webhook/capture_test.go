package webhook

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
)

// beside plays 90 s: 50 endpoints, 10 events a second to those that are well,
// one in 5 s to each of the bad ones, which answer only after a while. It
// returns how long deliveries to the well ones took, sorted.
func beside(t *testing.T, bad int, takes time.Duration) (took []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var mended atomic.Bool // lets all calls end with the test
		r.pipe(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			wait := 40 * time.Millisecond
			if strings.HasPrefix(q.Host, "bad") && !mended.Load() {
				wait = takes
			}
			<-time.After(wait)
		}))
		const endpoints, step = 50, 10 * time.Millisecond
		well := map[string]bool{}
		for i := range endpoints {
			host := "well"
			if i < bad {
				host = "bad"
			}
			e, _ := r.add(NewEndpoint{URL: fmt.Sprintf("http://%s-%d.example/", host, i), Types: []string{fmt.Sprintf("to.%d", i)}})
			well[e.ID] = i >= bad
		}
		random := rand.New(rand.NewPCG(1, uint64(bad)))
		for range 90 * time.Second / step {
			if random.Float64() < 10*step.Seconds() {
				r.send(Message{Type: fmt.Sprintf("to.%d", bad+random.IntN(endpoints-bad)), Payload: []byte(`{}`)})
			}
			if random.Float64() < 0.2*float64(bad)*step.Seconds() {
				r.send(Message{Type: fmt.Sprintf("to.%d", random.IntN(bad)), Payload: []byte(`{}`)})
			}
			pass(step)
		}
		mended.Store(true)
		pass(time.Hour)
		for _, d := range r.byState(job.Succeeded) {
			if well[d.Endpoint] {
				took = append(took, d.EndedAt.Sub(d.CreatedAt))
			}
		}
		slices.Sort(took)
	})
	return took
}

// Endpoints that hang for longer than the timeout, or answer after 29 s, do not slow those that are well.
func TestHangingEndpointsCaptureNoSlots(t *testing.T) {
	alone := quantile(beside(t, 0, 0), 0.95)
	for _, bad := range []int{1, 5, 15, 45} {
		for _, takes := range []time.Duration{40 * time.Second, 29 * time.Second} {
			t.Run(fmt.Sprintf("%d take %s", bad, takes), func(t *testing.T) {
				took := beside(t, bad, takes)
				if len(took) < 700 {
					t.Fatalf("%d deliveries to endpoints that are well, want about 900", len(took))
				}
				got := quantile(took, 0.95)
				t.Logf("p50 %s, p95 %s; alone p95 %s", quantile(took, 0.5), got, alone)
				if most := 2*alone + 100*time.Millisecond; got > most {
					t.Errorf("p95 %s, want %s at most", got, most)
				}
			})
		}
	}
}
