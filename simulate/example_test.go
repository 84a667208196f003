package simulate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// What does the webhook policy do when an endpoint that gets 2 calls a second
// refuses connections for ten minutes?
func Example() {
	scenario := simulate.Scenario{
		Name:   "outage",
		Length: simulate.Length{Time: time.Hour, End: simulate.Drain},
		Callers: []simulate.Caller{{
			Name: "webhooks", Mode: simulate.Durable,
			Arrivals: []simulate.Arrivals{{Kind: simulate.Poisson, Rate: simulate.Constant(2)}},
			Client: simulate.Client{
				Policy:  policy.MustPreset("webhook"),
				Targets: []simulate.Target{{Downstream: "endpoint"}},
				Gate:    simulate.GateShared,
			},
		}},
		Downstreams: []simulate.Downstream{{
			Name: "endpoint", Service: simulate.Exp(200 * time.Millisecond),
			Faults: []simulate.Fault{{Kind: simulate.FaultRefuse, From: 10 * time.Minute, Until: 20 * time.Minute}},
		}},
	}
	result, err := simulate.Run(context.Background(), scenario, simulate.Options{Seeds: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"dead_share", "amplification"} {
		e, _ := result.Estimate("caller/webhooks/" + name)
		fmt.Printf("%s %.3f ± %.3f\n", name, e.Mean, e.Half)
	}
	first := result.Runs[0].Caller("webhooks").Recovery
	fmt.Println("recovered:", first.Recovered, "drained:", first.Drained)
	// Output:
	// dead_share 0.000 ± 0.000
	// amplification 1.003 ± 0.000
	// recovered: true drained: true
}
