package gate

import "fmt"

// Phase is where a target's breaker stands.
type Phase uint8

const (
	Closed   Phase = iota // healthy: calls pass
	Open                  // no call before OpenUntil; then the next Ask is the probe
	HalfOpen              // one probe decides
	Ramping               // the probe passed: few calls at once, doubling
)

var phaseNames = [...]string{Closed: "closed", Open: "open", HalfOpen: "half_open", Ramping: "ramping"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "unknown"
}

// MarshalText writes the phase by name.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the phase by name.
func (p *Phase) UnmarshalText(text []byte) error {
	for i, name := range phaseNames {
		if name == string(text) {
			*p = Phase(i)
			return nil
		}
	}
	return fmt.Errorf("gate: unknown phase %q; one of: closed, open, half_open, ramping", text)
}

// State is everything a gate remembers of one target. The zero State is a
// healthy target that was never called. It is a plain value: copy it, compare
// it with ==, keep it as JSON (which carries a format version). Its fields
// are for reading; Step, Fold and Carve change them.
type State struct {
	// SeenAt is the latest now of any step.
	SeenAt Instant `json:"seen_at,omitzero"`

	Phase Phase `json:"phase,omitzero"`
	// Trips counts the openings since a probe last passed: each doubles the
	// open time.
	Trips     int     `json:"trips,omitzero"`
	OpenUntil Instant `json:"open_until,omitzero"`
	// Probing says that the one probe of HalfOpen is out.
	Probing bool `json:"probing,omitzero"`
	// Ramp is the most calls in flight while Ramping, Passed the successes
	// since Ramp was last raised.
	Ramp   int `json:"ramp,omitzero"`
	Passed int `json:"passed,omitzero"`
	// Failed counts the target's failures in a row while Closed.
	Failed int `json:"failed,omitzero"`
	// Calls are the calls that passed and that failed over the breaker's window.
	Calls Tally `json:"calls,omitzero"`

	// PauseUntil ends the pause that the target asked for by Retry-After.
	PauseUntil Instant `json:"pause_until,omitzero"`
	// Stopped is an operator's pause, until StopUntil or, at 0, until resumed.
	Stopped   bool    `json:"stopped,omitzero"`
	StopUntil Instant `json:"stop_until,omitzero"`

	// NextAt is the earliest start that the rate allows.
	NextAt Instant `json:"next_at,omitzero"`
	// Pace is how fast the target may be called, by what it asks and bears.
	Pace Pace `json:"pace,omitzero"`
	// InFlight counts the permits out, Retries those of them for retries.
	InFlight int `json:"in_flight,omitzero"`
	Retries  int `json:"retries,omitzero"`

	// Starts is the window budget's debt: what its retries took less what
	// its first attempts paid, and the most of it over any later part.
	Starts Tally `json:"starts,omitzero"`
	// Spent is what is missing from the token bucket, in millionths.
	Spent int64 `json:"spent,omitzero"`
	// Asked are the calls asked for and those accepted, for the throttle.
	Asked Tally `json:"asked,omitzero"`
	// Refused counts the throttle's refusals: each makes the next draw anew.
	Refused uint32 `json:"refused,omitzero"`

	// Held are the times in which the breaker held all work, Dry those in
	// which an empty budget held retries, Paused those in which the target
	// had asked for a pause. Pauses are in neither of the others.
	Held   Spans `json:"held,omitzero"`
	Dry    Spans `json:"dry,omitzero"`
	Paused Spans `json:"paused,omitzero"`
}

// maxInFlight bounds the permits out at once, whatever the limits, and every
// other plain count.
const maxInFlight = 1 << 30

func (s *State) take(retry bool) {
	s.InFlight = min(s.InFlight+1, maxInFlight)
	if retry {
		s.Retries = min(s.Retries+1, s.InFlight)
	}
}

func (s *State) release(retry bool) {
	s.InFlight = max(0, s.InFlight-1)
	if retry {
		s.Retries = max(0, s.Retries-1)
	}
	s.Retries = min(s.Retries, s.InFlight)
}

// pause never shortens a pause.
func (s *State) pause(at Instant, d span) {
	if d > 0 {
		s.PauseUntil = max(s.PauseUntil, at.add(d))
	}
}
