package store

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/ebbhq/ebb/gate"
)

// GateTexts reads the states and grants of gates that a store keeps as text. A
// busy target's gate is read with every claim and changes twice a second, so
// what was made of the last text of each target is remembered: reading it
// again costs a comparison. It is safe for concurrent use.
type GateTexts struct {
	mu   sync.Mutex
	last map[string]gateText
}

type gateText struct {
	state, grants string
	read          gate.State
	held          []Grant
}

// maxGateTexts bounds what is remembered; a full one is emptied.
const maxGateTexts = 4096

// Read fills in the gate's state and grants. parse reads the grants.
func (t *GateTexts) Read(g *Gate, state, grants string, parse func(string) ([]Grant, error)) error {
	t.mu.Lock()
	known, ok := t.last[g.Target]
	t.mu.Unlock()
	if !ok || known.state != state || known.grants != grants {
		known = gateText{state: state, grants: grants}
		if err := json.Unmarshal([]byte(state), &known.read); err != nil {
			return err
		}
		var err error
		if known.held, err = parse(grants); err != nil {
			return err
		}
		t.keep(g.Target, known)
	}
	g.State, g.Grants = known.read, slices.Clone(known.held) // whose caller may change it
	return nil
}

func (t *GateTexts) keep(target string, text gateText) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil || len(t.last) >= maxGateTexts {
		t.last = make(map[string]gateText)
	}
	t.last[target] = text
}
