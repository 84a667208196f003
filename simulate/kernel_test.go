package simulate

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestTimeStands: users without think whose calls take no time would call for
// ever at one instant. A batch that is as large ends.
func TestTimeStands(t *testing.T) {
	for _, c := range []struct {
		arrivals Arrivals
		stands   bool
	}{
		{Arrivals{Kind: Closed, Users: 10}, true},
		{Arrivals{Kind: Batch, Jobs: 20_000}, false},
	} {
		s := Scenario{
			Name: "still", Length: Length{Time: time.Second},
			Callers: []Caller{{
				Name: "users", Client: Client{Targets: []Target{{Downstream: "server"}}},
				Arrivals: []Arrivals{c.arrivals},
			}},
			Downstreams: []Downstream{{Name: "server"}},
		}
		k := newKernel(&s, 1, nil)
		k.still.patience = 1 << 13
		err := k.run(context.Background(), 0)
		if c.stands != (err != nil) || c.stands && !strings.Contains(err.Error(), "virtual time stands at 0s") {
			t.Errorf("%s: %v after %d events", c.arrivals.Kind, err, k.events)
		}
	}
}
