package document_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/gcerrors"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/internal/oneshot/oneshottest"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
)

// TestOneAttemptIsOneRequest: whatever a provider does, it is asked once for
// each row of the ledger.
func TestOneAttemptIsOneRequest(t *testing.T) {
	for _, fault := range oneshottest.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			provider := providertest.New(func(providertest.Call) providertest.Act { return providertest.Act{Text: `{"total": 7}`} })
			defer provider.Close()
			s := oneshottest.Start(t, fault, provider)
			c := setup{base: s.URL + "/v1"}
			if s.TLS != nil {
				transport := &http.Transport{TLSClientConfig: s.TLS, ForceAttemptHTTP2: true}
				defer transport.CloseIdleConnections()
				c.http = &http.Client{Transport: transport}
			}
			r := newRig(t, c)
			rows, failed := 0, 0
			for _, name := range []string{"a.txt", "b.txt"} {
				r.put(name, "Total 7")
				b := r.submit(submission(name))
				<-r.wake // it is settled: done, or waiting for its next attempt
				ledger, err := r.ops.Attempts(t.Context(), r.documents(b)[0].Job)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range ledger {
					rows++
					if row.OK {
						continue
					}
					failed++
					if row.Class != "reset" && row.Status != http.StatusMisdirectedRequest {
						t.Errorf("%s %s: %s", row.Class, row.Reason, row.Error)
					}
				}
			}
			if n := s.Requests(); rows != 2 || n != rows || failed != s.Faults() || failed == 0 {
				t.Errorf("%d requests, %d rows of the ledger; %d failed, the provider broke %d off", n, rows, failed, s.Faults())
			}
		})
	}
}

// TestObjectIsAskedForOnce: nor does the client of an object store send a
// request again. Reads are what net/http would repeat.
func TestObjectIsAskedForOnce(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "ebbtest")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "ebbsecret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, fault := range []oneshottest.Fault{oneshottest.CloseReused, oneshottest.ResetReused} {
		s := oneshottest.Start(t, fault, gofakes3.New(s3mem.New()).Server())
		b, err := document.OpenBucket(t.Context(), "s3://docs?region=us-east-1&use_path_style=true&endpoint="+url.QueryEscape(s.URL))
		if err != nil {
			t.Fatal(err)
		}
		const reads = 4
		for range reads {
			_, err := b.ReadAll(t.Context(), "a.txt")
			if f := failure.Classify(err); gcerrors.Code(err) != gcerrors.NotFound && f.Class != failure.Reset {
				t.Errorf("%s: %v is of class %s, want reset", fault, err, f.Class)
			}
		}
		if n := s.Requests(); n != reads || s.Faults() == 0 {
			t.Errorf("%s: %d requests of %d reads, %d broken off", fault, n, reads, s.Faults())
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
