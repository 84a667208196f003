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
	s := Scenario{
		Name: "still", Length: Length{Time: time.Second},
		Callers: []Caller{{
			Name: "users", Client: Client{Targets: []Target{{Downstream: "server"}}},
			Arrivals: []Arrivals{{Kind: Closed, Users: 10}},
		}},
		Downstreams: []Downstream{{Name: "server"}},
	}
	for kind, stands := range map[ArrivalKind]bool{Closed: true, Batch: false} {
		s.Callers[0].Arrivals[0].Kind, s.Callers[0].Arrivals[0].Jobs = kind, 0
		if kind == Batch {
			s.Callers[0].Arrivals[0] = Arrivals{Kind: Batch, Jobs: 20_000}
		}
		k := newKernel(&s, 1, nil)
		k.still.patience = 1 << 13
		err := k.run(context.Background(), 0)
		if stands != (err != nil) || stands && !strings.Contains(err.Error(), "virtual time stands at 0s") {
			t.Errorf("%s: %v after %d events", kind, err, k.events)
		}
	}
}
