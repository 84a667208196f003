package gate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

func TestStateAsJSON(t *testing.T) {
	text, err := json.Marshal(gate.State{})
	if err != nil || string(text) != `{"v":1}` {
		t.Errorf("a healthy target: %s, %v; want {\"v\":1}", text, err)
	}
	p := policy.MustPreset("webhook")
	g := newTarget(t, gate.Of(&p))
	g.failed(9)
	g.start(true)
	text, err = json.Marshal(g.s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"seen_at":63902822400000000,"failed":9,` +
		`"calls":{"bits":23,"head":7617810058,"cells":[[0,9]]},"in_flight":1,"retries":1,` +
		`"starts":{"bits":20,"head":60942480468,"cells":[[-800000,1000000]]}}`
	if string(text) != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}

func TestStateRefusesWhatItCannotKnow(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{"v":2,"mood":"sunny"}`, "format version 2 is newer than 1"},
		{`{"v":-1}`, `want "v": 1`},
		{`{}`, `want "v": 1`},
		{`null`, `want "v": 1`},
		{`[]`, "cannot unmarshal"},
		{`{"v":1,"mood":"sunny"}`, `unknown field "mood"`},
		{`{"v":1,"phase":"ajar"}`, "unknown phase"},
		{`{"v":1,"phase":"ramping"}`, "does not fit phase ramping"},
		{`{"v":1,"ramp":2}`, "does not fit phase closed"},
		{`{"v":1,"phase":"open","probing":true}`, "open breaker has no probe"},
		{`{"v":1,"in_flight":-1}`, "in_flight: -1 is out of range"},
		{`{"v":1,"in_flight":1,"retries":2}`, "retries: 2 is out of range"},
		{`{"v":1,"trips":61}`, "trips: 61 is out of range"},
		{`{"v":1,"pause_until":9000000000000000000}`, "pause_until"},
		{`{"v":1,"calls":{"bits":53,"head":3}}`, "calls: bits: 53"},
		{`{"v":1,"calls":{"bits":0,"head":-3}}`, "up to number -3"},
		{`{"v":1,"calls":{"bits":20,"head":9000000000000000000}}`, "calls: head"},
		{`{"v":1,"calls":{"bits":0,"head":50,"cells":[[0,-1]]}}`, "calls: cells"},
		{`{"v":1,"asked":{"bits":0,"head":0,"cells":[[1,1],[1,1]]}}`, "2 cells up to number 0"},
		{`{"v":1,"starts":{"bits":0,"head":50,"cells":[[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[1,1]]}}`, "13 cells; at most 12"},
		{`{"v":1,"starts":{"bits":0,"head":5,"depth":3}}`, `unknown field "depth"`},
		{`{"v":1,"held":{"since":-1}}`, "held: since: -1 is out of range"},
		{`{"v":1,"held":{"past":[[5,5]]}}`, "held: past: [5,5] is out of order"},
		{`{"v":1,"dry":{"past":[[5,7],[6,8]]}}`, "dry: past: [6,8] is out of order"},
		{`{"v":1,"dry":{"past":[[0,0],[6,8]]}}`, "dry: past: [0,0] is out of order"},
		{`{"v":1,"dry":{"past":[[1,2],[1,2],[1,2],[1,2],[1,2],[1,2],[1,2],[1,2],[1,2]]}}`, "9 spans; at most 8"},
		{`{"v":1,"dry":{"until":3}}`, `unknown field "until"`},
	} {
		s := gate.State{InFlight: 7}
		err := json.Unmarshal([]byte(tc.text), &s)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want an error with %q", tc.text, err, tc.want)
		}
		if s != (gate.State{InFlight: 7}) {
			t.Errorf("%s: refused, but the state changed", tc.text)
		}
	}
}

// FuzzState: what decodes can be stepped from without a panic, and stays a
// state that decodes to itself.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"v":1}`), 0.5, int64(0))
	f.Add([]byte(`{"v":1,"seen_at":63902822400000000,"failed":9,"calls":{"bits":23,"head":7617810058,"cells":[[0,9]]},"in_flight":1,"retries":1,"starts":{"bits":20,"head":60942480468,"cells":[[-800000,1000000]]}}`), 0.1, int64(time.Hour))
	f.Add([]byte(`{"v":1,"phase":"half_open","trips":60,"probing":true,"in_flight":1}`), 0.9, int64(-time.Hour))
	f.Add([]byte(`{"v":1,"phase":"ramping","ramp":16,"passed":15,"spent":9007199254740992}`), 0., int64(1))
	f.Add([]byte(`{"v":1,"asked":{"bits":3,"head":9,"cells":[[9007199254740992,9007199254740992],[1,0]]},"stopped":true,"stop_until":5}`), 1., int64(-1))
	f.Add([]byte(`{"v":1,"seen_at":99,"phase":"open","open_until":120,"held":{"since":90,"past":[[50,60],[1,7]]},"dry":{"since":2}}`), 0.5, int64(time.Minute))
	f.Fuzz(func(t *testing.T, text []byte, draw float64, after int64) {
		var s gate.State
		if json.Unmarshal(text, &s) != nil {
			return
		}
		sameAfterJSON(t, s)
		now := s.SeenAt.Time().Add(time.Duration(after))
		for _, kind := range []policy.BudgetKind{policy.BudgetWindow, policy.BudgetTokens, policy.BudgetShare, policy.BudgetThrottle} {
			c := gate.Of(new(policy.MustPreset("polite")))
			c.Budget = policy.Budget{Kind: kind, Ratio: 0.5, Floor: 2, TTL: 10 * time.Second}
			next, v := gate.Step(c, s, gate.Ask{Retry: true}, now, draw)
			sameAfterJSON(t, next)
			next, _ = gate.Step(c, next, v.Failure(serverDown), now, draw)
			sameAfterJSON(t, next)
			next, _ = gate.Carve(c, next, gate.Want{Firsts: 3, Retries: 3}, now.Add(time.Minute), draw)
			sameAfterJSON(t, next)
		}
	})
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func sameAfterJSON(t fataler, s gate.State) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	var back gate.State
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if back != s {
		t.Fatalf("%s reads back as %+v, want %+v", text, back, s)
	}
}
