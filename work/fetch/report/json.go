package report

import (
	"encoding/json"
	"io"
	"time"
)

// failureJSON is one failure, in the report and in the manifest.
type failureJSON struct {
	URL     string      `json:"url"`
	Outcome Outcome     `json:"outcome"`
	Class   string      `json:"class,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Status  int         `json:"status,omitempty"`
	Starts  int         `json:"starts"`
	Wave    int         `json:"wave"`
	At      time.Time   `json:"at,omitzero"`
	Context contextJSON `json:"context,omitempty"`
}

// contextJSON keeps the columns' order.
type contextJSON []Column

func (c contextJSON) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, column := range c {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(column.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(column.Value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

func (f *Failure) json() failureJSON {
	return failureJSON{f.URL, f.Outcome, f.Class, f.Reason, f.Status, f.Starts, f.Wave, f.At, f.Context}
}

type reportJSON struct {
	Name          string            `json:"name"`
	ID            string            `json:"id"`
	State         string            `json:"state"`
	Complete      bool              `json:"complete"`
	Headline      string            `json:"headline"`
	Policy        string            `json:"policy"`
	PolicyVersion string            `json:"policy_version"`
	StartedAt     time.Time         `json:"started_at,omitzero"`
	EndedAt       time.Time         `json:"ended_at,omitzero"`
	Input         int64             `json:"input"`
	Repeated      int64             `json:"repeated"`
	Counts        map[Outcome]int64 `json:"counts"`
	Share         float64           `json:"share"`
	Followed      bool              `json:"followed"`
	Bytes         int64             `json:"bytes"`
	Requests      int64             `json:"requests,omitempty"`
	Reasons       []Reason          `json:"reasons"`
	Waves         []Wave            `json:"waves"`
	Stopped       string            `json:"stopped,omitempty"`
	Comparison    *Comparison       `json:"comparison,omitempty"`
	Waivers       []string          `json:"waivers,omitempty"`
	Notes         []string          `json:"notes,omitempty"`
	Failures      []failureJSON     `json:"failures"` // the first
	FailuresTotal int64             `json:"failures_total"`
	Manifest      string            `json:"manifest,omitempty"`
}

// JSON writes the report as one object on lines of its own. It holds the first
// failures; the manifest has all.
func (r *Report) JSON(w io.Writer) error {
	first, total, err := r.shown(maxPage)
	if err != nil {
		return err
	}
	out := reportJSON{
		Name: r.Name, ID: r.ID, State: r.State(), Complete: r.Complete(), Headline: r.Headline(), Policy: r.Policy, PolicyVersion: r.Version,
		StartedAt: r.StartedAt, EndedAt: r.EndedAt, Input: r.Input, Repeated: r.Repeated, Counts: make(map[Outcome]int64), Share: r.Share(), Followed: r.Followed,
		Bytes: r.Bytes, Requests: r.Requests, Reasons: r.Reasons, Waves: r.Waves, Stopped: r.Stopped, Comparison: r.Comparison, Waivers: r.Waivers, Notes: r.Notes,
		Failures: make([]failureJSON, 0, len(first)), FailuresTotal: total, Manifest: r.Manifest,
	}
	for _, o := range Outcomes {
		out.Counts[o] = r.Counts[o]
	}
	for i := range first {
		out.Failures = append(out.Failures, first[i].json())
	}
	if out.Reasons == nil {
		out.Reasons = []Reason{}
	}
	if out.Waves == nil {
		out.Waves = []Wave{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
