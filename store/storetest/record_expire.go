package storetest

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/store"
)

// until is an endpoint that expires.
func until(id string, version int64, expires time.Time) store.Record {
	r := endpoint(id, version, "x")
	r.ExpiresAt = expires
	return r
}

// there reports whether a write at now meets the endpoint under any version:
// expired or not by the store's own clock, it was not dropped.
func (s *script) there(now time.Time, id string) bool {
	s.Helper()
	_, err := s.Write(s.ctx, now, store.Write{Puts: []store.Record{endpoint("probe", store.AnyVersion, ""), endpoint(id, 1<<40, "")}})
	s.refused(err, store.ErrConflict)
	return err.Error() != fmt.Sprintf("store: write: endpoint %s: version %d was read, now none is there: %s", id, int64(1<<40), store.ErrConflict)
}

var recordExpireRules = []rule{
	{"what has expired is not found, although nobody dropped it", func(s *script) {
		now := s.clock()
		s.put(now, until("old", 0, now.Add(-time.Second)), until("just", 0, now), until("young", 0, now.Add(time.Hour)), endpoint("ever", 0, "x"))
		s.absent("old", "just")
		s.same("young", s.read("endpoint", "young"), until("young", 1, now.Add(time.Hour)))
		s.same("ever", s.read("endpoint", "ever"), endpoint("ever", 1, "x"))
		s.same("up", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 9}), []string{"ever", "young"})
		s.same("down", s.ids(store.RecordFilter{Kind: "endpoint", Down: true, Limit: 1}), []string{"young"})
		s.same("kept", s.there(now.Add(-time.Hour), "old"), true)
	}},
	{"a list by ref leaves out what has expired and fills its page", func(s *script) {
		now := s.clock()
		for i := range 10 {
			r := until(fmt.Sprint(i), 0, now.Add(time.Duration(i%2*2-1)*time.Hour))
			r.Ref = "r"
			s.put(now, r)
		}
		s.same("up", s.ids(store.RecordFilter{Kind: "endpoint", Ref: "r", Limit: 3}), []string{"1", "3", "5"})
		s.same("down", s.ids(store.RecordFilter{Kind: "endpoint", Ref: "r", Down: true, After: "7", Limit: 9}), []string{"5", "3", "1"})
	}},
	{"to a write it ends at its very microsecond", func(s *script) {
		s.put(t0, until("1", 0, at(10)))
		last := at(10).Add(-time.Microsecond)
		s.conflicts(last, "1", "none was there, now 1 is there", store.Write{Puts: []store.Record{endpoint("1", 0, "")}})
		s.conflicts(at(10).Add(-time.Nanosecond), "1", "none was there, now 1 is there", store.Write{Puts: []store.Record{endpoint("1", 0, "")}})
		s.conflicts(at(10), "1", "version 1 was read, now none is there", store.Write{Puts: []store.Record{endpoint("1", 1, "")}})
		s.conflicts(at(10), "1", "version 1 was read, now none is there", store.Write{Drops: []store.Record{endpoint("1", 1, "")}})
		s.put(last, until("1", 1, at(10)))
		s.same("kept", s.there(last, "1"), true)
	}},
	{"what has expired is made anew, at version 1", func(s *script) {
		far := s.clock().Add(time.Hour)
		for _, version := range []int64{0, store.AnyVersion} {
			id := fmt.Sprint("v", version)
			s.put(t0, until(id, 0, at(10)))
			s.put(t0, until(id, 1, at(10)))
			s.put(at(10), until(id, version, far))
			s.same("record", s.read("endpoint", id), until(id, 1, far))
		}
		s.drop(far, endpoint("v0", store.AnyVersion, "")) // there is none by then
	}},
	{"a put moves the expiry, or ends it", func(s *script) {
		now := s.clock()
		s.put(now, until("1", 0, now.Add(time.Hour)), until("2", 0, now.Add(time.Hour)), endpoint("3", 0, "x"))
		s.put(now, until("1", 1, now.Add(3*time.Hour)), endpoint("2", 1, "x"), until("3", 1, now.Add(time.Hour)))
		s.maintain(store.Maintenance{Now: now.Add(2 * time.Hour), Limit: 100})
		s.same("left", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 9}), []string{"1", "2"})
		s.same("record", s.read("endpoint", "2"), endpoint("2", 2, "x"))
	}},
	{"maintenance drops what has expired by its now, and nothing else", func(s *script) {
		now := s.clock()
		s.put(t0, until("a", 0, now.Add(time.Hour)), until("b", 0, now.Add(time.Hour+time.Microsecond)), endpoint("c", 0, "x"), until("d", 0, at(-1)))
		s.maintain(store.Maintenance{Now: at(-2), Limit: 100})
		s.same("d", s.there(at(-2), "d"), true)
		s.maintain(store.Maintenance{Now: t0, Limit: 100})
		s.same("d then", s.there(at(-2), "d"), false)
		s.same("left", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 9}), []string{"a", "b", "c"})
		s.maintain(store.Maintenance{Now: now.Add(time.Hour), Limit: 100})
		s.same("left then", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 9}), []string{"b", "c"})
	}},
	{"a step of maintenance is bounded", func(s *script) {
		var records []store.Record
		for i := range 10 {
			records = append(records, until(fmt.Sprint(i), 0, s.clock().Add(time.Duration(10-i)*time.Minute)))
		}
		s.put(t0, records...)
		m := store.Maintenance{Now: s.clock().Add(time.Hour), Limit: 4}
		for _, want := range []struct {
			more bool
			left []string
		}{{true, []string{"0", "1", "2", "3", "4", "5"}}, {true, []string{"0", "1"}}, {false, []string{}}, {false, []string{}}} {
			done, err := s.Maintain(s.ctx, m)
			s.must(err)
			s.same("more", done.More, want.more)
			s.same("left", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 99}), want.left)
		}
	}},
}
