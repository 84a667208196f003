package document_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/document/providertest"
)

// A provider that asks for a pause longer than max_hold and is well afterwards
// loses no document: a pause that was asked for does not count as held.
func TestAPauseLongerThanMaxHoldLosesNothing(t *testing.T) {
	const pause = 700 * time.Second
	if hold := policy.MustPreset("processing").MaxHold; hold >= pause {
		t.Fatalf("max_hold is %s: nothing is tested", hold)
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := newRig(t, setup{piped: true, script: func(providertest.Call) providertest.Act {
			if time.Since(begin) < pause-time.Minute {
				return providertest.Act{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"700"}}}
			}
			return providertest.Act{Text: `{"total": 7}`}
		}})
		var inputs []string
		for i := range 100 {
			inputs = append(inputs, fmt.Sprintf("%03d.txt", i))
			r.put(inputs[i], "Invoice")
		}
		for _, d := range r.ended(r.submit(submission(inputs...))) {
			if d.State != job.Succeeded {
				t.Errorf("%s is %s after %d attempts: %s", d.Input, d.State, d.Attempts, d.Error)
			}
		}
	})
}
