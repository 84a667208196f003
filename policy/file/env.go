package file

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ebbhq/ebb/policy"
)

// Variable is one environment variable of seed 002; it overrides a field of
// the policy webhook.
type Variable struct {
	Name string
	Path string // the field it overrides
	Doc  string

	least, most int
	example     string
	text        func(n int) string // the field's text for the variable's number
}

// maxVariable keeps numbers from the environment within what the fields'
// arithmetic can hold.
const maxVariable = 1_000_000

// Variables lists the environment that ApplyEnv reads.
func Variables() []Variable {
	plain := strconv.Itoa
	return []Variable{
		{"WEBHOOK_TIMEOUT_SECONDS", "timeout", "limit of one attempt in whole seconds", 1, maxVariable, "30", func(n int) string { return plain(n) + "s" }},
		{"MAX_RETRY_ATTEMPTS", "attempts", "retries after the first send; attempts is this plus 1", 0, maxVariable, "5", func(n int) string { return plain(n + 1) }},
		{"RETRY_BATCH_SIZE", "batch", "most claimed at once", 1, maxVariable, "100", plain},
		{"HTTP_POOL_SIZE", "concurrency", "starts at once, per process", 1, maxVariable, "20", plain},
	}
}

// EnvPolicy is the only policy that the environment changes.
const EnvPolicy = "webhook"

// ApplyEnv returns the entry with the environment's values, which are
// stronger than file and preset; entries of other names come back as they
// are. What is derived follows, such as max_hold. The error names every
// variable that is wrong.
func ApplyEnv(e Entry, lookup func(string) (string, bool)) (Entry, error) {
	if e.Policy.Name != EnvPolicy {
		return e, nil
	}
	var errs []error
	for _, v := range Variables() {
		value, ok := lookup(v.Name)
		if !ok {
			continue
		}
		next, err := v.apply(e, value)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment: %s: %w", v.Name, err))
			continue
		}
		e = next
	}
	if len(errs) > 0 {
		return Entry{}, errors.Join(errs...)
	}
	sealed, err := policy.Seal(e.draft)
	if err != nil {
		return Entry{}, fmt.Errorf("environment: policy %s: %w", EnvPolicy, err)
	}
	e.Policy = sealed
	if from := e.origins["attempts"]; from.Source == FromEnv && sealed.Attempts != e.draft.Attempts {
		return Entry{}, fmt.Errorf("environment: %s: %d retries conflict with restarts.max: %d (%s); unset the variable or remove restarts.max",
			from.Name, e.draft.Attempts-1, sealed.Restarts.Max, e.Origin("restarts.max"))
	}
	return e, nil
}

func (v Variable) apply(e Entry, value string) (Entry, error) {
	n, err := strconv.Atoi(value)
	if err != nil {
		return e, fmt.Errorf("%q is not a whole number (%s); write one such as %s", value, v.Doc, v.example)
	}
	if n < v.least || n > v.most {
		return e, fmt.Errorf("%d is out of range (%s); %d to %d, such as %s", n, v.Doc, v.least, v.most, v.example)
	}
	f, _ := policy.FieldAt(v.Path)
	return e.with(f, v.text(n), Origin{Source: FromEnv, Name: v.Name})
}
