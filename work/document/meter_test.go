package document_test

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/worker"
)

// TestEndsWithoutAStartAreCounted: documents that were parked or failed while
// they waited are counted as those that a start ended.
func TestEndsWithoutAStartAreCounted(t *testing.T) {
	s := newRig(t, setup{workers: -1}).service
	ended := func(kind string, to job.State, cause job.Cause, n int) {
		s.Observe(worker.Event{What: worker.Ended, To: to, Cause: cause, Count: n, Job: job.Job{New: job.New{Kind: kind, Target: "openai"}}})
	}
	ended(document.Kind, job.Parked, retry.CauseTargetDown, 5)
	ended(document.Kind, job.Failed, retry.CauseExpired, 2)
	ended("mail", job.Failed, retry.CauseExpired, 7)
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "ebb_document_ended_total" {
				for _, l := range m.GetLabel() {
					if l.GetName() == "state" {
						got[l.GetValue()] += m.GetCounter().GetValue()
					}
				}
			}
		}
	}
	if want := map[string]float64{"parked": 5, "failed": 2}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
