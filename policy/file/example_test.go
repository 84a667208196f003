package file_test

import (
	"fmt"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func ExampleParse() {
	f, err := file.Parse("policies.yaml", []byte(`
version: 1
policies:
  webhook:
    timeout: 20s
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	e, _ := f.Entry("webhook")
	for _, path := range []string{"timeout", "attempts", "max_hold"} {
		field, _ := policy.FieldAt(path)
		fmt.Printf("%s: %s (%s)\n", path, field.Text(&e.Policy), e.Origin(path))
	}
	// Output:
	// timeout: 20s (policies.yaml:5:14)
	// attempts: 6 (preset webhook)
	// max_hold: 31m (derived: the schedule's length)
}

func ExampleParse_errors() {
	_, err := file.Parse("policies.yaml", []byte(`
version: 1
policies:
  webhook:
    atempts: 5
    backoff:
      base: 60
`))
	fmt.Println(err)
	// Output:
	// policies.yaml:5:5: policies.webhook.atempts: unknown key; did you mean attempts?
	// policies.yaml:7:13: policies.webhook.backoff.base: "60" has no unit; write 60s, 60m or 60h
}

func ExampleApplyEnv() {
	e, err := file.Preset("webhook")
	if err != nil {
		fmt.Println(err)
		return
	}
	environment := map[string]string{"MAX_RETRY_ATTEMPTS": "3"}
	e, err = file.ApplyEnv(e, func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Policy.Attempts, e.Policy.MaxHold, e.Origin("attempts"))
	// Output: 4 7m0s env MAX_RETRY_ATTEMPTS
}

func ExamplePrint() {
	fmt.Print(file.Print(policy.MustPreset("annual-crawl")))
	// Output:
	// version: 1
	// policies:
	//   annual-crawl:
	//     target: process
	//     attempts: 21
	//     on_hold_end: park
	//     backoff:
	//       base: 2m
	//       factor: 1
	//       jitter:
	//         kind: none
	//     retry_after:
	//       honour: true
	//       max: 15m
	//     concurrency: 1
	//     batch: 1
	//     budget:
	//       kind: none
	//     slot: keep
	//     safety: idempotent
	//     restarts:
	//       max: 20
	//       no_progress: 20
	//     thresholds:
	//       timeout: 50
	//       http: 50
}
