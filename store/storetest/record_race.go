package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// race makes everybody write at once and returns how many did; the others
// must have met a conflict.
func (s *script) race(w func(n int) store.Write) (won int) {
	s.Helper()
	var done atomic.Int64
	s.together(func(n int) error {
		_, err := s.Write(s.ctx, t0, w(n))
		if err == nil {
			done.Add(1)
		} else if errors.Is(err, store.ErrConflict) {
			err = nil
		}
		return err
	})
	return int(done.Load())
}

var recordRaceRules = []rule{
	{"of those who make a record one does", func(s *script) {
		for i := range 20 {
			id := fmt.Sprint(i)
			s.same("won", s.race(func(n int) store.Write {
				return store.Write{Puts: []store.Record{endpoint(id, 0, fmt.Sprint(n))}, Jobs: []job.New{plain}}
			}), 1)
			s.same("version", s.read("endpoint", id).Version, int64(1))
		}
		s.same("jobs", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 20})
	}},
	{"of those who change a version one does", func(s *script) {
		s.put(t0, endpoint("1", 0, ""))
		for v := range int64(20) {
			s.same("won", s.race(func(n int) store.Write {
				return store.Write{Puts: []store.Record{endpoint("1", v+1, fmt.Sprint(n))}, Audit: []store.AuditRow{{Actor: fmt.Sprint(n), Act: "x"}}}
			}), 1)
			r := s.read("endpoint", "1")
			rows, err := s.Audit(s.ctx, 99)
			s.must(err)
			s.same("version and acts", []any{r.Version, len(rows), rows[0].Actor}, []any{v + 2, int(v + 1), string(r.Body)})
		}
	}},
	{"of those who drop or change a version one does", func(s *script) {
		for i := range 20 {
			id := fmt.Sprint(i)
			s.put(t0, endpoint(id, 0, ""))
			s.same("won", s.race(func(n int) store.Write {
				if n%2 == 0 {
					return store.Write{Drops: []store.Record{endpoint(id, 1, "")}}
				}
				return store.Write{Puts: []store.Record{endpoint(id, 1, "changed")}}
			}), 1)
		}
	}},
	{"any version is every writer's", func(s *script) {
		for range 10 {
			s.same("won", s.race(func(int) store.Write {
				return store.Write{Puts: []store.Record{endpoint("1", store.AnyVersion, "")}}
			}), crowd)
		}
		s.same("version", s.read("endpoint", "1").Version, int64(10*crowd))
	}},
	{"no change is lost by those who read, change and try again", func(s *script) {
		s.put(t0, endpoint("sum", 0, "0"))
		const each = 10
		s.together(func(int) error {
			for done := 0; done < each; {
				r, err := s.Record(s.ctx, "endpoint", "sum")
				if err != nil {
					return err
				}
				n, err := strconv.Atoi(string(r.Body))
				if err != nil {
					return err
				}
				_, err = s.Write(s.ctx, t0, store.Write{Puts: []store.Record{endpoint("sum", r.Version, strconv.Itoa(n+1))}})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrConflict):
					return err
				}
			}
			return nil
		})
		s.same("sum", s.read("endpoint", "sum"), endpoint("sum", 1+crowd*each, fmt.Sprint(crowd*each)))
	}},
	{"writes of the same records in any order do not block each other", func(s *script) {
		s.together(func(n int) error {
			for i := range 25 {
				w := store.Write{Puts: []store.Record{
					endpoint(fmt.Sprint((i+n)%5), store.AnyVersion, ""), endpoint(fmt.Sprint((i+2*n+1)%5+5), store.AnyVersion, ""),
				}}
				if n%2 == 0 {
					w.Puts[0], w.Puts[1] = w.Puts[1], w.Puts[0]
				}
				if _, err := s.Write(s.ctx, t0, w); err != nil {
					return err
				}
			}
			return nil
		})
		total := int64(0)
		list, err := s.Records(s.ctx, store.RecordFilter{Kind: "endpoint", Limit: 99})
		s.must(err)
		for _, r := range list {
			total += r.Version
		}
		s.same("writes", total, int64(crowd*25*2))
	}},
}
