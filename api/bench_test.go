package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store/sqlite"
)

// BenchmarkEnqueue is what one server on SQLite takes over HTTP on loopback,
// one job or a hundred a request.
func BenchmarkEnqueue(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d a request", n), func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), b.TempDir()+"/ebb.db", sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			keeper, err := access.New(s, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			_, token, err := keeper.CreateToken(b.Context(), access.NewToken{Name: "bench", Scopes: []access.Scope{access.Produce}})
			if err != nil {
				b.Fatal(err)
			}
			h, err := api.New(api.Config{Ops: engine.New(s, nil, engine.Config{}), Keeper: keeper, Records: s})
			if err != nil {
				b.Fatal(err)
			}
			url := serve(b, h)
			body := `{"jobs":[` + strings.Repeat(`{"kind":"k"},`, n-1) + `{"kind":"k"}]}`
			b.SetParallelism(8)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					r, err := http.NewRequestWithContext(b.Context(), "POST", url+"/v1/jobs/batch", strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("Content-Type", "application/json")
					response, err := http.DefaultClient.Do(r)
					if err != nil || response.StatusCode != http.StatusCreated {
						b.Errorf("%v %v", response, err)
						return
					}
					_ = response.Body.Close()
				}
			})
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
