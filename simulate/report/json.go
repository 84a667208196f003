package report

import "github.com/ebbhq/ebb/simulate"

// Told is the report for programs. It is a function of scenarios and seeds
// alone, byte for byte.
type Told struct {
	Scenario string     `json:"scenario"`
	About    string     `json:"about,omitempty"`
	Verdict  string     `json:"verdict,omitempty"`
	Compared []string   `json:"compared,omitempty"` // from, to
	Cases    []ToldCase `json:"cases"`
}

// ToldCase is one case for programs.
type ToldCase struct {
	Name     string       `json:"name"`
	About    string       `json:"about,omitempty"`
	Sentence string       `json:"sentence"`
	Policies []ToldPolicy `json:"policies"`
	// DeadShare is the share of dead letters over all callers; Share how much
	// of the step between the compared cases this one makes alone.
	DeadShare float64          `json:"dead_share"`
	Share     *float64         `json:"share,omitempty"`
	Result    *simulate.Result `json:"result"`
}

// ToldPolicy names the policy of a caller.
type ToldPolicy struct {
	Caller  string `json:"caller"`
	Policy  string `json:"policy"`
	Version string `json:"version"`
}

// Told returns the report for programs.
func (r *Report) Told() Told {
	t := Told{Scenario: r.Name, About: r.About, Verdict: r.Verdict()}
	if r.compared() {
		t.Compared = []string{r.Cases[r.From].Name, r.Cases[r.To].Name}
	}
	shares := r.shares()
	for i := range r.Cases {
		c := &r.Cases[i]
		one := ToldCase{Name: c.Name, About: c.About, Sentence: c.Sentence(), DeadShare: c.total().deadShare(), Result: c.Result}
		for j := range c.Scenario.Callers {
			caller := &c.Scenario.Callers[j]
			one.Policies = append(one.Policies, ToldPolicy{caller.Name, caller.Policy.Name, caller.Policy.Version})
		}
		if shares != nil {
			one.Share = &shares[i]
		}
		t.Cases = append(t.Cases, one)
	}
	return t
}
