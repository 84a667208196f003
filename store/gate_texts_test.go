package store

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/ebbhq/ebb/gate"
)

// TestGateTexts: what is read is what the text says, whatever was read before
// and whatever its reader did with it.
func TestGateTexts(t *testing.T) {
	var texts GateTexts
	parsed := 0
	parse := func(text string) ([]Grant, error) {
		parsed++
		n, err := strconv.Atoi(text)
		return []Grant{{Process: 7, Firsts: n}}, err
	}
	read := func(target string, inFlight, firsts int) Gate {
		t.Helper()
		text, err := json.Marshal(gate.State{InFlight: inFlight})
		if err != nil {
			t.Fatal(err)
		}
		g := Gate{Target: target}
		if err := texts.Read(&g, string(text), strconv.Itoa(firsts), parse); err != nil {
			t.Fatal(err)
		}
		if g.State != (gate.State{InFlight: inFlight}) || !slices.Equal(g.Grants, []Grant{{Process: 7, Firsts: firsts}}) {
			t.Errorf("%s: read %d in flight and grants %v, want %d and %d", target, g.State.InFlight, g.Grants, inFlight, firsts)
		}
		return g
	}
	for _, c := range []struct {
		target           string
		inFlight, firsts int
		parsed           int
	}{
		{"a", 1, 1, 1},
		{"a", 1, 1, 1}, // as before
		{"b", 1, 1, 2},
		{"a", 2, 1, 3},
		{"a", 2, 3, 4},
		{"a", 1, 1, 5}, // an old one again
		{"b", 1, 1, 5},
	} {
		g := read(c.target, c.inFlight, c.firsts)
		if g.Grants[0].Firsts = 99; parsed != c.parsed {
			t.Errorf("%s: %d texts were parsed, want %d", c.target, parsed, c.parsed)
		}
	}
	for i := range maxGateTexts {
		read(strconv.Itoa(i), 1, 1)
	}
	if n := len(texts.last); n > maxGateTexts {
		t.Errorf("%d are remembered", n)
	}
}

func TestGateTextsRefused(t *testing.T) {
	var texts GateTexts
	broken := errors.New("broken")
	fine := func(string) ([]Grant, error) { return nil, nil }
	for _, c := range []struct {
		state string
		parse func(string) ([]Grant, error)
	}{
		{`{`, fine},
		{`{"v":1}`, func(string) ([]Grant, error) { return nil, broken }},
	} {
		for range 2 { // nothing of it is remembered
			g := Gate{Target: "a"}
			if err := texts.Read(&g, c.state, "", c.parse); err == nil {
				t.Errorf("%s was read", c.state)
			}
		}
	}
}
