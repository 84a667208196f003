package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// wireSpans is the JSON of Spans.
type wireSpans struct {
	Since Instant      `json:"since,omitzero"`
	Past  [][2]Instant `json:"past,omitempty"` // newest first
}

// MarshalJSON writes the spans, the newest first.
func (h Spans) MarshalJSON() ([]byte, error) {
	w := wireSpans{Since: h.since}
	for _, a := range h.past {
		if a == (stretch{}) {
			break
		}
		w.Past = append(w.Past, [2]Instant{a.from, a.to})
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads spans.
func (h *Spans) UnmarshalJSON(text []byte) error {
	var w wireSpans
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return err
	}
	if len(w.Past) > maxPast {
		return fmt.Errorf("past: %d spans; at most %d", len(w.Past), maxPast)
	}
	read := Spans{since: w.Since}
	for i, a := range w.Past {
		read.past[i] = stretch{a[0], a[1]}
	}
	*h = read
	return nil
}

// check refuses spans that are out of order.
func (h *Spans) check() error {
	if h.since < 0 || h.since > maxInstant {
		return fmt.Errorf("since: %d is out of range; 0 to %d", h.since, maxInstant)
	}
	next := maxInstant
	for i, a := range h.past {
		if a == (stretch{}) && (i+1 == maxPast || h.past[i+1] == (stretch{})) {
			continue
		}
		if a.from <= 0 || a.to <= a.from || a.to > next {
			return fmt.Errorf("past: [%d,%d] is out of order; the newest first, each from before to", a.from, a.to)
		}
		next = a.from
	}
	return nil
}
