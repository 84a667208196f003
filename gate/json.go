package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Format is the version of State's JSON that this package writes. It reads
// this one and refuses newer ones.
const Format = 1

type plainState State // State without its methods

type versioned struct {
	Format int `json:"v"`
	plainState
}

// MarshalJSON writes the state with its format version, leaving out what is
// zero.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(versioned{Format, plainState(s)})
}

// UnmarshalJSON reads a state of a known format, and only one that Step can
// go on from. On an error the state is unchanged.
func (s *State) UnmarshalJSON(text []byte) error {
	var v struct {
		Format int `json:"v"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("gate: state: %w", err)
	}
	switch {
	case v.Format > Format:
		return fmt.Errorf("gate: state: format version %d is newer than %d, the newest that this build reads; upgrade it", v.Format, Format)
	case v.Format < Format:
		return fmt.Errorf("gate: state: format version %d; want \"v\": %d", v.Format, Format)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var read versioned
	if err := dec.Decode(&read); err != nil {
		return fmt.Errorf("gate: state: %w", err)
	}
	state := State(read.plainState)
	if err := state.check(); err != nil {
		return fmt.Errorf("gate: state: %w", err)
	}
	*s = state
	return nil
}

// check refuses what no sequence of events leads to and Step relies on.
func (s *State) check() error {
	for _, f := range []struct {
		name  string
		value int64
		most  int64
	}{
		{"seen_at", int64(s.SeenAt), int64(maxInstant)},
		{"trips", int64(s.Trips), maxTrips},
		{"open_until", int64(s.OpenUntil), int64(maxInstant)},
		{"ramp", int64(s.Ramp), rampTop},
		{"passed", int64(s.Passed), rampTop},
		{"failed", int64(s.Failed), maxInFlight},
		{"pause_until", int64(s.PauseUntil), int64(maxInstant)},
		{"stop_until", int64(s.StopUntil), int64(maxInstant)},
		{"next_at", int64(s.NextAt), int64(maxInstant)},
		{"in_flight", int64(s.InFlight), maxInFlight},
		{"retries", int64(s.Retries), int64(s.InFlight)},
		{"spent", s.Spent, maxCount},
		{"pace: every", s.Pace.Every, int64(maxSpan)},
		{"pace: rate", s.Pace.Rate, paceMost},
		{"pace: nominal", s.Pace.Nominal, paceMost},
		{"pace: good", s.Pace.Good, paceMost},
		{"pace: since", int64(s.Pace.Since), int64(maxInstant)},
		{"pace: passed", s.Pace.Passed, maxInFlight},
		{"pace: failed", s.Pace.Failed, maxInFlight},
	} {
		if f.value < 0 || f.value > f.most {
			return fmt.Errorf("%s: %d is out of range; 0 to %d", f.name, f.value, f.most)
		}
	}
	switch {
	case s.Probing && s.Phase != HalfOpen:
		return fmt.Errorf("probing: a %s breaker has no probe out", s.Phase)
	case (s.Phase == Ramping) != (s.Ramp > 0):
		return fmt.Errorf("ramp: %d does not fit phase %s", s.Ramp, s.Phase)
	}
	for _, t := range []struct {
		name  string
		tally *Tally
		least int64
	}{{"calls", &s.Calls, 0}, {"starts", &s.Starts, -maxCount}, {"asked", &s.Asked, 0}} {
		if err := t.tally.check(t.least); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	for _, h := range []struct {
		name  string
		spans *Spans
	}{{"held", &s.Held}, {"dry", &s.Dry}, {"paused", &s.Paused}} {
		if err := h.spans.check(); err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
	}
	return nil
}

// wireTally is a Tally's JSON: the cells from the newest back, without the
// empty ones at the end.
type wireTally struct {
	Bits  uint8      `json:"bits"` // a cell is 2^bits µs wide
	Head  int64      `json:"head"`
	Cells [][2]int64 `json:"cells,omitempty"`
}

// MarshalJSON writes the tally, its cells from the newest back.
func (t Tally) MarshalJSON() ([]byte, error) {
	w := wireTally{Bits: t.bits, Head: t.head}
	last := -1
	cells := make([][2]int64, ringCells)
	for i := range cells {
		if n := t.head - int64(i); n >= 0 {
			c := t.cells[n%ringCells]
			cells[i] = [2]int64{c.x, c.y}
		}
		if cells[i] != [2]int64{} {
			last = i
		}
	}
	w.Cells = cells[:last+1]
	return json.Marshal(w)
}

// UnmarshalJSON reads a tally.
func (t *Tally) UnmarshalJSON(text []byte) error {
	var w wireTally
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return err
	}
	if len(w.Cells) > ringCells {
		return fmt.Errorf("%d cells; at most %d", len(w.Cells), ringCells)
	}
	if int64(len(w.Cells)) > w.Head+1 || w.Head < 0 {
		return fmt.Errorf("%d cells up to number %d", len(w.Cells), w.Head)
	}
	read := Tally{bits: w.Bits, head: w.Head}
	for i, c := range w.Cells {
		read.cells[(w.Head-int64(i))%ringCells] = cell{c[0], c[1]}
	}
	*t = read
	return nil
}

// check refuses a tally whose arithmetic could overflow.
func (t *Tally) check(least int64) error {
	if t.bits > maxBits {
		return fmt.Errorf("bits: %d is out of range; 0 to %d", t.bits, maxBits)
	}
	if most := int64(maxInstant) >> t.bits; t.head > most {
		return fmt.Errorf("head: %d is out of range; 0 to %d", t.head, most)
	}
	for _, c := range t.cells {
		if c.x < least || c.x > maxCount || c.y < 0 || c.y > maxCount {
			return fmt.Errorf("cells: [%d,%d] is out of range; %d to %d", c.x, c.y, least, int64(maxCount))
		}
	}
	return nil
}
