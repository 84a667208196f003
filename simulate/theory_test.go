package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/ebbhq/ebb/simulate"
)

func TestMM1(t *testing.T) {
	r := run(t, queue(t, 8, simulate.Downstream{Servers: 1, Service: simulate.Exp(100 * time.Millisecond)}), 12)
	within(t, r, "downstream/server/waits.mean", 0.4, 0.05)
	within(t, r, "downstream/server/in_system_mean", 4, 0.05)
	within(t, r, "downstream/server/queue_mean", 3.2, 0.06)
	within(t, r, "downstream/server/utilisation", 0.8, 0.01)
	within(t, r, "downstream/server/idle_share", 0.2, 0.03)
	within(t, r, "downstream/server/sojourns.mean", 0.5, 0.05)
	// The time in the system is exponential: quantile q is −mean × ln(1−q).
	within(t, r, "caller/caller/jobs.p90", -0.5*math.Log(0.1), 0.06)
}
