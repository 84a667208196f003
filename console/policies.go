package console

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/plot"
)

type policyRow struct {
	policy.Policy
	About    string
	Preset   bool
	Findings []policy.Finding
	Failed   bool
	Text     string // the timeline for those who listen
}

func (s *server) listPolicies(w http.ResponseWriter, r *http.Request) error {
	var rows []policyRow
	for _, p := range s.policies {
		findings := policy.Lint(p, s.Now())
		rows = append(rows, policyRow{
			Policy: p, About: policy.About(p.Name), Preset: policy.IsPreset(p.Name),
			Findings: findings, Failed: policy.Failed(findings), Text: schedule(p),
		})
	}
	return s.show(w, r, http.StatusOK, "policies.html", page{Title: "Policies", Nav: "policies", Body: rows})
}

// schedule tells a policy's delays in words.
func schedule(p policy.Policy) string {
	return strings.TrimSpace(plot.Text(p, 78))
}

// plotPolicy is the drawing of one, as an image: its own style is none of the
// page's.
func (s *server) plotPolicy(w http.ResponseWriter, r *http.Request) error {
	name, ok := strings.CutSuffix(r.PathValue("file"), ".svg")
	p, known := find(s.policies, name)
	if !ok || !known {
		return &refusal{http.StatusNotFound, fmt.Sprintf("No policy %q is known here.", name)}
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "image/svg+xml")
	_, err := w.Write([]byte(plot.SVG(p, plot.Options{})))
	if err != nil {
		s.Log.Debug("console: answer", "error", err)
	}
	return nil
}
