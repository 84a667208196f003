package policy

import (
	"fmt"
	"strings"
	"time"
)

// EnforceError is why a policy may not run: its unwaived error findings.
type EnforceError struct {
	Policy   string
	Findings []Finding
}

func (e *EnforceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy: %s: refused by lint:", e.Policy)
	for _, f := range e.Findings {
		fmt.Fprintf(&b, " %s: %s (%s): %s; would pass: %s;", f.ID, f.Field, f.Measured, f.Why, f.Fix)
	}
	fmt.Fprintf(&b, " see %s for the retry contract", ContractPage)
	return b.String()
}

// Enforce is what an engine calls at start: it refuses a policy with an error
// finding that no unexpired waiver covers. The error is an *EnforceError.
func Enforce(p Policy, today time.Time) error {
	var failing []Finding
	for _, f := range Lint(p, today) {
		if f.Fails() {
			failing = append(failing, f)
		}
	}
	if len(failing) == 0 {
		return nil
	}
	return &EnforceError{Policy: p.Name, Findings: failing}
}
