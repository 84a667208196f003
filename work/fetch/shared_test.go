package fetch

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
)

// Two machines share one fetch: every page once, waves planned once, one
// account.
func TestMachinesShareAFetch(t *testing.T) {
	var failing atomic.Int64
	failing.Store(3) // its tries of the first pass
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page/7" && failing.Add(-1) >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, r.URL.Path)
	})
	dsn := pgtest.Database(t)
	if _, err := postgres.Migrate(t.Context(), dsn, postgres.Up); err != nil {
		t.Fatal(err)
	}
	const pages = 200
	at := twentyfold()
	fetches := make([]Fetch, 2)
	var machines sync.WaitGroup
	for i := range fetches {
		machines.Go(func() {
			db, err := postgres.Open(t.Context(), dsn, postgres.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			d, err := OpenDir(t.TempDir(), DirOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			r, err := Open(t.Context(), Options{Store: db, Name: "shared", Policy: rapidly(t), Sink: d, Waiver: "a test on loopback", Clock: at})
			if err == nil {
				err = r.Load(t.Context(), urls(pagesOf(s.URL, pages)...))
			}
			if err == nil {
				err = r.Run(t.Context())
			}
			if err != nil {
				t.Error(err)
				return
			}
			fetches[i] = r.Fetch()
		})
	}
	machines.Wait()
	for i := range fetches {
		f := &fetches[i]
		if f.ID != "shared.000001" || f.Tally == nil || f.Tally.OK != pages || len(f.Waves) != 1 || f.Waves[0].Planned != 1 || f.Waves[0].Recovered != 1 {
			t.Errorf("machine %d: %s, %+v, waves %+v", i, f.ID, f.Tally, f.Waves)
		}
	}
	for i := range pages {
		want := 1
		if i == 7 {
			want = 4 // 3 tries, and one in the wave
		}
		if n := s.count(fmt.Sprintf("/page/%d", i)); n != want {
			t.Errorf("page %d was asked for %d times, want %d", i, n, want)
		}
	}
}
