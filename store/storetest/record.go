package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/store"
)

// RunRecords states every rule of store/record.go, one subtest a behaviour,
// each on a store of its own.
func RunRecords(t *testing.T, open Open) {
	groups := []struct {
		name  string
		rules []rule
	}{
		{"Keep", recordRules},
		{"Version", versionRules},
		{"Write", writeRules},
		{"WriteFlow", flowWriteRules},
		{"Check", recordCheckRules},
		{"List", recordListRules},
		{"Expire", recordExpireRules},
		{"Race", recordRaceRules},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, r := range g.rules {
				t.Run(r.name, func(t *testing.T) {
					defer failOnPanic(t)
					r.run(newScript(t, open))
				})
			}
		})
	}
}

// RunRecordsTx states what holds for writes inside the user's own
// transaction.
func RunRecordsTx(t *testing.T, open func(t *testing.T) Joinable) {
	rules := recordTxRules
	if open(t).Concurrent {
		rules = slices.Concat(rules, concurrentRecordTxRules)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { runTx(t, open, r.run) })
	}
}

// endpoint is a record of that kind.
func endpoint(id string, version int64, body string) store.Record {
	r := store.Record{Kind: "endpoint", ID: id, Version: version}
	if body != "" {
		r.Body = []byte(body)
	}
	return r
}

// put writes records that must be taken.
func (s *script) put(now time.Time, records ...store.Record) {
	s.Helper()
	_, err := s.Write(s.ctx, now, store.Write{Puts: records})
	s.must(err)
}

// drop drops records that must be there.
func (s *script) drop(now time.Time, records ...store.Record) {
	s.Helper()
	_, err := s.Write(s.ctx, now, store.Write{Drops: records})
	s.must(err)
}

// read reads a record that must be there.
func (s *script) read(kind, id string) store.Record {
	s.Helper()
	r, err := s.Record(s.ctx, kind, id)
	s.must(err)
	return r
}

// absent fails the test if one of the endpoints is there.
func (s *script) absent(ids ...string) {
	s.Helper()
	for _, id := range ids {
		_, err := s.Record(s.ctx, "endpoint", id)
		s.refused(err, store.ErrNotFound)
	}
}

// conflicts fails the test unless the write is refused for the record.
func (s *script) conflicts(now time.Time, id, reason string, w store.Write) {
	s.Helper()
	_, err := s.Write(s.ctx, now, w)
	s.refused(err, store.ErrConflict)
	s.same("error", err.Error(), fmt.Sprintf("store: write: endpoint %s: %s: %s", id, reason, store.ErrConflict))
}

// clock is the store's own time.
func (s *script) clock() time.Time {
	s.Helper()
	now, err := s.Now(s.ctx)
	s.must(err)
	return now
}

// awkward are names that quoting, collation, prefixes or case could spoil,
// in the order of their bytes.
var awkward = []string{
	"\x01", "\t", "\n", " ", "  ", "!", `"`, "$1", "%", "%s", "'", "''", "';--", "*", "-1", "/", "/*from*/", "?", "?1", "A", "Z", "[a]",
	`\`, `\'`, `\x00`, "_", "a", "a ", "aa", "ab", "a\u0301", "b", "null", "z", "{}", "\u007f", "\u00e1", "\u00fc", "\u0130", "\u2028",
	"\u65e5\u672c", "\ufeff", "\ufffd", "\U0001f600", "\U0010ffff", "\U0010ffff\U0010ffff",
}

var recordRules = []rule{
	{"a record is read as it was put", func(s *script) {
		want := store.Record{Kind: "endpoint", ID: "ep_1", Ref: "app_1", Version: 1, ExpiresAt: s.clock().Add(time.Hour), Body: []byte(`{"a":1}`)}
		made := want
		made.Version = 0
		made.ExpiresAt = want.ExpiresAt.Add(999 * time.Nanosecond).In(time.FixedZone("east", 3600)) // cut, in UTC
		s.put(t0, made)
		s.same("record", s.read("endpoint", "ep_1"), want)
		s.put(t0, store.Record{Kind: "endpoint", ID: "ep_1", Version: 1}) // whole: nothing of the old one stays
		s.same("replaced", s.read("endpoint", "ep_1"), store.Record{Kind: "endpoint", ID: "ep_1", Version: 2})
	}},
	{"what is not there is not found", func(s *script) {
		s.put(t0, endpoint("ep_1", 0, "x"))
		for _, name := range [][2]string{
			{"endpoint", "ep_2"},
			{"endpoint", "EP_1"},
			{"endpoint", "ep_1 "},
			{"endpoint", "ep_"},
			{"Endpoint", "ep_1"},
			{"token", "ep_1"},
			{"", "ep_1"},
			{"endpoint", ""},
			{"endpoint", "ep_1\x00"},
			{"endpoint", "\xff"},
			{"\x00", "\x00"},
		} {
			got, err := s.Record(s.ctx, name[0], name[1])
			s.refused(err, store.ErrNotFound)
			s.same("answer", got, store.Record{})
		}
		_, err := s.Record(s.ctx, "token", "tk_1")
		s.same("error", err.Error(), "store: record: token tk_1: there is none")
		_, err = s.Record(s.ctx, "token", "a\nb")
		s.same("error", err.Error(), `store: record: token "a\nb": there is none`)
	}},
	{"an id is unique within its kind", func(s *script) {
		s.put(t0, store.Record{Kind: "a", ID: "1", Body: []byte("a")}, store.Record{Kind: "b", ID: "1", Body: []byte("b")})
		s.drop(t0, store.Record{Kind: "a", ID: "1", Version: 1})
		_, err := s.Record(s.ctx, "a", "1")
		s.refused(err, store.ErrNotFound)
		s.same("the other", s.read("b", "1").Body, []byte("b"))
	}},
	{"bodies of no bytes, of all bytes, of a MiB", func(s *script) {
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		for i, body := range [][]byte{nil, {}, {0}, every, bytes.Repeat(every, 4096)} {
			id := fmt.Sprint(i)
			s.put(t0, store.Record{Kind: "endpoint", ID: id, Body: body})
			if len(body) == 0 {
				body = nil
			}
			if got := s.read("endpoint", id).Body; !bytes.Equal(got, body) || (got == nil) != (body == nil) {
				s.Fatalf("body %d of %d bytes came back as %d bytes", i, len(body), len(got))
			}
		}
		list, err := s.Records(s.ctx, store.RecordFilter{Kind: "endpoint", Limit: 9})
		s.must(err)
		for i, size := range []int{0, 0, 1, 256, 1 << 20} {
			s.same("listed", len(list[i].Body), size)
		}
		s.same("nil", list[0].Body == nil && list[1].Body == nil, true)
	}},
	{"the caller's bytes are the caller's", func(s *script) {
		body := []byte("mine")
		s.put(t0, store.Record{Kind: "endpoint", ID: "1", Body: body})
		copy(body, "gone")
		got := s.read("endpoint", "1")
		s.same("body", string(got.Body), "mine")
		copy(got.Body, "gone")
		s.same("body read again", string(s.read("endpoint", "1").Body), "mine")
	}},
	{"awkward names", func(s *script) {
		s.same("the order of this test", slices.IsSorted(awkward), true)
		for _, name := range awkward {
			r := store.Record{Kind: name, ID: name, Ref: name, Body: []byte(name)}
			s.put(t0, r)
			r.Version = 1
			s.same("record", s.read(name, name), r)
			list, err := s.Records(s.ctx, store.RecordFilter{Kind: name, Ref: name, Limit: 9})
			s.must(err)
			s.same("list", list, []store.Record{r})
		}
		for _, name := range awkward {
			s.put(t0, store.Record{Kind: name, ID: name, Version: 1})
			s.drop(t0, store.Record{Kind: name, ID: name, Version: 2})
			_, err := s.Record(s.ctx, name, name)
			s.refused(err, store.ErrNotFound)
		}
	}},
	{"names as long as they may be", func(s *script) {
		long := func(c byte) string {
			text := make([]byte, store.MaxRecordName)
			for i := range text {
				text[i] = c ^ byte(i*i*7+i>>3)&31 // nothing that packs well
			}
			return string(text)
		}
		r := store.Record{Kind: long('a'), ID: long('b'), Ref: long('c'), Version: store.AnyVersion}
		s.put(t0, r)
		r.Version = 1
		s.same("record", s.read(r.Kind, r.ID), r)
		list, err := s.Records(s.ctx, store.RecordFilter{Kind: r.Kind, Ref: r.Ref, Limit: 1})
		s.must(err)
		s.same("list", list, []store.Record{r})
	}},
}
