package storetest

import (
	"fmt"
	"slices"

	"github.com/ebbhq/ebb/store"
)

// ids lists the ids that the filter selects.
func (s *script) ids(f store.RecordFilter) []string {
	s.Helper()
	list, err := s.Records(s.ctx, f)
	s.must(err)
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids
}

// pages lists all ids page by page.
func (s *script) pages(f store.RecordFilter) (all []string) {
	s.Helper()
	for {
		page := s.ids(f)
		if len(page) > f.Limit {
			s.Fatalf("a page of %d has %d records", f.Limit, len(page))
		}
		if all = append(all, page...); len(page) < f.Limit {
			return all
		}
		if f.After == page[len(page)-1] {
			s.Fatalf("the page after %q ends with it", f.After)
		}
		f.After = page[len(page)-1]
	}
}

// downwards returns the texts in the other direction.
func downwards(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Reverse(texts)
	return texts
}

var recordListRules = []rule{
	{"a list goes up by id, or down", func(s *script) {
		s.put(t0, endpoint("b", 0, "1"), endpoint("c", 0, "2"), endpoint("a", 0, "3"), store.Record{Kind: "token", ID: "0"}, store.Record{Kind: "endpoint!", ID: "0"})
		list, err := s.Records(s.ctx, store.RecordFilter{Kind: "endpoint", Limit: 9})
		s.must(err)
		s.same("up", list, []store.Record{endpoint("a", 1, "3"), endpoint("b", 1, "1"), endpoint("c", 1, "2")})
		list, err = s.Records(s.ctx, store.RecordFilter{Kind: "endpoint", Down: true, Limit: 9})
		s.must(err)
		s.same("down", list, []store.Record{endpoint("c", 1, "2"), endpoint("b", 1, "1"), endpoint("a", 1, "3")})
		s.same("of nobody", s.ids(store.RecordFilter{Kind: "e", Limit: 9}), []string{})
	}},
	{"after an id, there or not", func(s *script) {
		s.put(t0, endpoint("b", 0, ""), endpoint("d", 0, ""), endpoint("f", 0, ""))
		for _, c := range []struct {
			after string
			down  bool
			want  []string
		}{
			{"a", false, []string{"b", "d", "f"}},
			{"b", false, []string{"d", "f"}},
			{"c", false, []string{"d", "f"}},
			{"f", false, []string{}},
			{"g", false, []string{}},
			{"g", true, []string{"f", "d", "b"}},
			{"f", true, []string{"d", "b"}},
			{"e", true, []string{"d", "b"}},
			{"b", true, []string{}},
			{"a", true, []string{}},
		} {
			s.same(fmt.Sprintf("after %s, down %t", c.after, c.down), s.ids(store.RecordFilter{Kind: "endpoint", After: c.after, Down: c.down, Limit: 9}), c.want)
		}
	}},
	{"a limit", func(s *script) {
		s.put(t0, endpoint("a", 0, ""), endpoint("b", 0, ""), endpoint("c", 0, ""))
		for limit, want := range map[int][]string{-1: {}, 0: {}, 1: {"a"}, 2: {"a", "b"}, 3: {"a", "b", "c"}, 1 << 40: {"a", "b", "c"}} {
			s.same(fmt.Sprint("limit ", limit), s.ids(store.RecordFilter{Kind: "endpoint", Limit: limit}), want)
		}
		s.same("down", s.ids(store.RecordFilter{Kind: "endpoint", Down: true, Limit: 2}), []string{"c", "b"})
	}},
	{"by what it belongs to, as it was last written", func(s *script) {
		s.put(t0,
			store.Record{Kind: "delivery", ID: "1", Ref: "a"}, store.Record{Kind: "delivery", ID: "2", Ref: "b"},
			store.Record{Kind: "delivery", ID: "3"}, store.Record{Kind: "delivery", ID: "4", Ref: "a"}, store.Record{Kind: "other", ID: "5", Ref: "a"})
		of := func(ref string) []string { return s.ids(store.RecordFilter{Kind: "delivery", Ref: ref, Limit: 9}) }
		s.same("a", of("a"), []string{"1", "4"})
		s.same("A", of("A"), []string{})
		s.same("any", of(""), []string{"1", "2", "3", "4"})
		s.put(t0, store.Record{Kind: "delivery", ID: "4", Ref: "b", Version: 1}, store.Record{Kind: "delivery", ID: "1", Version: 1},
			store.Record{Kind: "delivery", ID: "3", Ref: "a", Version: 1})
		s.same("a then", of("a"), []string{"3"})
		s.same("b then", of("b"), []string{"2", "4"})
		s.drop(t0, store.Record{Kind: "delivery", ID: "2", Version: store.AnyVersion})
		s.same("b in the end", of("b"), []string{"4"})
	}},
	{"ids in the order of their bytes", func(s *script) {
		var records []store.Record
		for _, id := range awkward {
			records = append(records, store.Record{Kind: "endpoint", ID: id, Ref: "r"})
		}
		slices.Reverse(records)
		s.put(t0, records...)
		for _, ref := range []string{"", "r"} {
			f := store.RecordFilter{Kind: "endpoint", Ref: ref, Limit: 1}
			s.same("up, one by one", s.pages(f), awkward)
			f.Down = true
			s.same("down, one by one", s.pages(f), downwards(awkward))
		}
	}},
	{"a thousand, page by page", func(s *script) {
		var records []store.Record
		want := map[string][]string{}
		for i := range 1000 {
			id, ref := fmt.Sprintf("ep_%03d", i*7%1000), fmt.Sprint("app_", i%3)
			records = append(records, store.Record{Kind: "endpoint", ID: id, Ref: ref, Body: []byte(id)})
			want[""], want[ref] = append(want[""], id), append(want[ref], id)
		}
		s.put(t0, records...)
		for ref, ids := range want {
			slices.Sort(ids)
			for _, limit := range []int{1, 7, 100, 333, 1000, 1001} {
				if limit == 1 && ref == "" {
					continue // 1,000 questions tell no more than 333
				}
				f := store.RecordFilter{Kind: "endpoint", Ref: ref, Limit: limit}
				s.same(fmt.Sprintf("%s up by %d", ref, limit), s.pages(f), ids)
				f.Down = true
				s.same(fmt.Sprintf("%s down by %d", ref, limit), s.pages(f), downwards(ids))
			}
		}
		list, err := s.Records(s.ctx, store.RecordFilter{Kind: "endpoint", Limit: 1000})
		s.must(err)
		for i := range list {
			if r := &list[i]; string(r.Body) != r.ID || r.Version != 1 {
				s.Fatalf("record %s came with body %q, version %d", r.ID, r.Body, r.Version)
			}
		}
	}},
	{"a page goes on where the last one ended, whatever was dropped", func(s *script) {
		for _, id := range []string{"a", "b", "c", "d"} {
			s.put(t0, endpoint(id, 0, ""))
		}
		s.same("first", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 2}), []string{"a", "b"})
		s.drop(t0, endpoint("b", 1, ""))
		s.put(t0, endpoint("aa", 0, ""))
		s.same("second", s.ids(store.RecordFilter{Kind: "endpoint", After: "b", Limit: 2}), []string{"c", "d"})
	}},
}
