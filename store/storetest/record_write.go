package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

var versionRules = []rule{
	{"a version counts the writes of a record", func(s *script) {
		s.put(t0, endpoint("1", 0, "a"))
		for v := range int64(5) {
			s.same("version", s.read("endpoint", "1").Version, v+1)
			s.put(t0, endpoint("1", v+1, "b"))
		}
	}},
	{"none may be there for version 0", func(s *script) {
		s.put(t0, endpoint("1", 0, "a"))
		s.conflicts(t0, "1", "none was there, now 1 is there", store.Write{Puts: []store.Record{endpoint("1", 0, "b")}})
		s.same("record", s.read("endpoint", "1"), endpoint("1", 1, "a"))
	}},
	{"a put replaces the version that was read", func(s *script) {
		none := store.Write{Puts: []store.Record{endpoint("1", 1, "b")}}
		s.conflicts(t0, "1", "version 1 was read, now none is there", none)
		s.absent("1")
		s.put(t0, endpoint("1", 0, "a"))
		s.put(t0, endpoint("1", 1, "b"))
		s.conflicts(t0, "1", "version 1 was read, now 2 is there", store.Write{Puts: []store.Record{endpoint("1", 1, "c")}})
		s.conflicts(t0, "1", "version 3 was read, now 2 is there", store.Write{Puts: []store.Record{endpoint("1", 3, "c")}})
		s.same("record", s.read("endpoint", "1"), endpoint("1", 2, "b"))
	}},
	{"a drop removes the version that was read", func(s *script) {
		s.conflicts(t0, "1", "version 1 was read, now none is there", store.Write{Drops: []store.Record{endpoint("1", 1, "")}})
		s.put(t0, endpoint("1", 0, "a"))
		s.put(t0, endpoint("1", 1, "b"))
		s.conflicts(t0, "1", "version 1 was read, now 2 is there", store.Write{Drops: []store.Record{endpoint("1", 1, "")}})
		s.same("record", s.read("endpoint", "1"), endpoint("1", 2, "b"))
		s.drop(t0, endpoint("1", 2, ""))
		s.absent("1")
		s.conflicts(t0, "1", "version 2 was read, now none is there", store.Write{Drops: []store.Record{endpoint("1", 2, "")}})
	}},
	{"any version is put and dropped, there or not", func(s *script) {
		s.drop(t0, endpoint("1", store.AnyVersion, ""))
		s.put(t0, endpoint("1", store.AnyVersion, "a"))
		s.same("made", s.read("endpoint", "1"), endpoint("1", 1, "a"))
		s.put(t0, endpoint("1", store.AnyVersion, "b"))
		s.same("replaced", s.read("endpoint", "1"), endpoint("1", 2, "b"))
		s.drop(t0, endpoint("1", store.AnyVersion, ""))
		s.absent("1")
	}},
	{"what was dropped and is made anew begins at 1", func(s *script) {
		s.put(t0, endpoint("1", 0, "a"))
		s.put(t0, endpoint("1", 1, "b"))
		s.drop(t0, endpoint("1", 2, ""))
		s.put(t0, endpoint("1", 0, "c"))
		s.same("record", s.read("endpoint", "1"), endpoint("1", 1, "c"))
	}},
	{"an id that does not read well is quoted", func(s *script) {
		s.conflicts(t0, `"a\nb"`, "version 1 was read, now none is there", store.Write{Puts: []store.Record{endpoint("a\nb", 1, "")}})
		s.conflicts(t0, `"a b"`, "version 1 was read, now none is there", store.Write{Puts: []store.Record{endpoint("a b", 1, "")}})
	}},
}

var writeRules = []rule{
	{"records, jobs and acts together", func(s *script) {
		s.put(t0, endpoint("old", 0, "a"), endpoint("gone", 0, "b"))
		taken := s.add(t0, job.New{Kind: "mail", Unique: "u"})[0]
		answers, err := s.Write(s.ctx, at(1), store.Write{
			Puts:  []store.Record{endpoint("new", 0, "c"), endpoint("old", 1, "d")},
			Drops: []store.Record{endpoint("gone", 1, "")},
			Jobs:  []job.New{plain, {Kind: "mail", Unique: "u"}, {Kind: "mail", Queue: "other", Priority: 3, Args: []byte("x")}},
			Audit: []store.AuditRow{
				{At: at(99), Actor: "ann", Act: "endpoint.make", What: "new", Detail: "d"},
				{Actor: "bob", Act: "endpoint.drop", What: "gone"},
			},
		})
		s.must(err)
		s.same("new", s.read("endpoint", "new"), endpoint("new", 1, "c"))
		s.same("old", s.read("endpoint", "old"), endpoint("old", 2, "d"))
		s.absent("gone")
		s.same("answers", []any{len(answers), answers[0].Existing, answers[1], answers[2].Existing}, []any{3, false, store.Enqueued{Seq: taken, Existing: true}, false})
		s.inState(job.Queued, answers[0].Seq, answers[2].Seq)
		j := s.job(answers[2].Seq)
		s.same("job", []any{j.Queue, j.Priority, string(j.Args), j.DueAt, j.EnqueuedAt}, []any{"other", 3, "x", at(1), at(1)})
		s.same("counts", s.counts("other"), map[job.State]int64{job.Queued: 1})
		p := s.process(at(1))
		s.same("claimed", seqsOf(s.claim(at(1), p, 9)), []int64{taken, answers[0].Seq})
		rows, err := s.Audit(s.ctx, 9)
		s.must(err)
		s.same("audit", rows, []store.AuditRow{
			{At: at(1), Actor: "bob", Act: "endpoint.drop", What: "gone"},
			{At: at(1), Actor: "ann", Act: "endpoint.make", What: "new", Detail: "d"},
		})
	}},
	{"a write of one thing, or of nothing", func(s *script) {
		for _, w := range []store.Write{{}, {Puts: []store.Record{endpoint("1", 0, "")}}, {Audit: []store.AuditRow{{Actor: "ann", Act: "x"}}}} {
			answers, err := s.Write(s.ctx, t0, w)
			s.must(err)
			s.same("answers", answers == nil, true)
		}
		answers, err := s.Write(s.ctx, t0, store.Write{Jobs: []job.New{plain}})
		s.must(err)
		s.inState(job.Queued, answers[0].Seq)
	}},
	{"the zero time is the store's own", func(s *script) {
		before := s.clock()
		_, err := s.Write(s.ctx, time.Time{}, store.Write{Audit: []store.AuditRow{{Act: "x"}}})
		s.must(err)
		rows, err := s.Audit(s.ctx, 1)
		s.must(err)
		if after := s.clock(); rows[0].At.Before(before) || rows[0].At.After(after) {
			s.Fatalf("noted at %s, between %s and %s", rows[0].At, before, after)
		}
	}},
	{"one conflict refuses everything", func(s *script) {
		s.put(t0, endpoint("b", 0, "b"), endpoint("y", 0, "y"))
		w := store.Write{
			Puts:  []store.Record{endpoint("z", 0, "new"), endpoint("y", 7, "late"), endpoint("a", 0, "new"), endpoint("c", store.AnyVersion, "new")},
			Drops: []store.Record{endpoint("b", 1, "")},
			Jobs:  []job.New{plain},
			Audit: []store.AuditRow{{Actor: "ann", Act: "x"}},
		}
		s.conflicts(at(1), "y", "version 7 was read, now 1 is there", w)
		w.Puts[1].Version = 1
		w.Drops[0].Version = 2
		s.conflicts(at(1), "b", "version 2 was read, now 1 is there", w)
		s.absent("a", "c", "z")
		s.same("b", s.read("endpoint", "b"), endpoint("b", 1, "b"))
		s.same("y", s.read("endpoint", "y"), endpoint("y", 1, "y"))
		s.nothingThere()
		rows, err := s.Audit(s.ctx, 9)
		s.must(err)
		s.same("audit", len(rows), 0)
	}},
	{"of several conflicts the first by kind and id is named", func(s *script) {
		s.conflicts(t0, "a", "version 1 was read, now none is there", store.Write{
			Puts:  []store.Record{endpoint("c", 1, ""), {Kind: "token", ID: "0", Version: 1}},
			Drops: []store.Record{endpoint("b", 1, ""), endpoint("a", 1, "")},
		})
	}},
	{"a bad job refuses everything", func(s *script) {
		s.put(t0, endpoint("1", 0, "a"))
		for _, bad := range []job.New{{}, {Kind: "mail", Priority: 10}, {Kind: "\x00"}} {
			_, err := s.Write(s.ctx, t0, store.Write{
				Puts: []store.Record{endpoint("1", 1, "b"), endpoint("2", 0, "c")}, Jobs: []job.New{plain, bad},
			})
			if err == nil || !strings.HasPrefix(err.Error(), "store: enqueue: ") {
				s.Fatalf("job %+v: %v", bad, err)
			}
		}
		s.same("record", s.read("endpoint", "1"), endpoint("1", 1, "a"))
		s.absent("2")
		s.nothingThere()
	}},
	{"a receipt names the jobs", func(s *script) {
		taken := s.add(t0, job.New{Kind: "mail", Unique: "u"})[0]
		var told []store.Enqueued
		w := store.Write{
			Puts: []store.Record{endpoint("z", 0, "not this"), endpoint("a", 0, "other")},
			Jobs: []job.New{plain, {Kind: "mail", Unique: "u"}},
			Receipt: func(answers []store.Enqueued) []byte {
				told = answers
				return fmt.Appendf(nil, "%v", answers)
			},
		}
		answers, err := s.Write(s.ctx, t0, w)
		s.must(err)
		s.same("told", told, answers)
		s.same("answers", answers[1], store.Enqueued{Seq: taken, Existing: true})
		s.same("receipt", s.read("endpoint", "z"), endpoint("z", 1, fmt.Sprint(answers)))
		s.same("other", s.read("endpoint", "a"), endpoint("a", 1, "other"))
		s.conflicts(t0, "z", "none was there, now 1 is there", store.Write{Puts: w.Puts[:1], Jobs: w.Jobs, Receipt: w.Receipt})
		s.same("still", s.read("endpoint", "z"), endpoint("z", 1, fmt.Sprint(answers)))
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 2})
		_, err = s.Write(s.ctx, t0, store.Write{Puts: []store.Record{endpoint("z", 1, "x")}, Receipt: func(answers []store.Enqueued) []byte {
			s.same("no jobs", len(answers), 0)
			return nil
		}})
		s.must(err)
		s.same("emptied", s.read("endpoint", "z"), endpoint("z", 2, ""))
	}},
	{"a receipt is of a record", func(s *script) {
		_, err := s.Write(s.ctx, t0, store.Write{Jobs: []job.New{plain}, Receipt: func([]store.Enqueued) []byte { return nil }})
		if err == nil || err.Error() != "store: write: a receipt without a record: it is the body of the first put" {
			s.Fatalf("got %v", err)
		}
		s.nothingThere()
	}},
	{"wakes after the write", func(s *script) {
		wakes, err := s.Wakes(s.ctx)
		s.must(err)
		_, err = s.Write(s.ctx, t0, store.Write{Puts: []store.Record{endpoint("1", 0, "")}, Jobs: []job.New{plain}})
		s.must(err)
		s.woken(wakes)
	}},
}

// Jobs of a write under flow control.
var flowWriteRules = []rule{
	{"a job whose unique key is taken refuses everything if it says so", func(s *script) {
		s.put(t0, endpoint("1", 0, "a"), endpoint("2", 0, "b"))
		s.add(t0, job.New{Kind: "mail", Unique: "u"})
		w := store.Write{
			Puts:  []store.Record{endpoint("1", 1, "c"), endpoint("3", 0, "d")},
			Drops: []store.Record{endpoint("2", 1, "")},
			Jobs:  []job.New{plain, {Kind: "mail", Unique: "u", Conflict: job.ConflictRefuse}},
			Audit: []store.AuditRow{{Actor: "ann", Act: "x"}},
		}
		_, err := s.Write(s.ctx, t0, w)
		s.refused(err, store.ErrUnique)
		s.same("1", s.read("endpoint", "1"), endpoint("1", 1, "a"))
		s.same("2", s.read("endpoint", "2"), endpoint("2", 1, "b"))
		s.absent("3")
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 1})
		rows, err := s.Audit(s.ctx, 9)
		s.must(err)
		s.same("audit", len(rows), 0)
	}},
	{"jobs with targets and keys wait where they belong", func(s *script) {
		f := &flowScript{script: s, Flow: s.Store}
		answers, err := s.Write(s.ctx, t0, store.Write{Jobs: []job.New{to("x"), keyed(""), keyed("")}})
		s.must(err)
		p := s.process(t0)
		s.same("blocked", f.blocked(answers[0].Seq, answers[1].Seq, answers[2].Seq), []bool{false, false, true})
		f.found("lane", t0, p, answers[0].Seq)
	}},
}

var recordCheckRules = []rule{
	{"what cannot be kept is refused with the reason, and nothing is done", func(s *script) {
		good, long := endpoint("good", 0, ""), strings.Repeat("x", store.MaxRecordName+1)
		for _, c := range []struct {
			name, want string
			w          store.Write
		}{
			{"no kind", "the kind is empty; name what the record is", store.Write{Puts: []store.Record{{ID: "1"}}}},
			{"no id", `a record of kind "a" has no id`, store.Write{Puts: []store.Record{{Kind: "a"}}}},
			{"no id to drop", `a record of kind "a" has no id`, store.Write{Drops: []store.Record{{Kind: "a", Version: 1}}}},
			{"zero byte", `id "a\x00": must be UTF-8 without zero bytes; only a body is opaque`, store.Write{Puts: []store.Record{endpoint("a\x00", 0, "")}}},
			{"not UTF-8", `kind "\xff": must be UTF-8 without zero bytes; only a body is opaque`, store.Write{Puts: []store.Record{{Kind: "\xff", ID: "1"}}}},
			{"ref", `ref "\xc3": must be UTF-8 without zero bytes; only a body is opaque`, store.Write{Puts: []store.Record{{Kind: "a", ID: "1", Ref: "\xc3"}}}},
			{"long id", `id "xxxxxxxxxxxxxxxxxxxx"…: has 769 bytes; at most 768`, store.Write{Puts: []store.Record{endpoint(long, 0, "")}}},
			{"long ref", `ref "xxxxxxxxxxxxxxxxxxxx"…: has 769 bytes; at most 768`, store.Write{Puts: []store.Record{{Kind: "a", ID: "1", Ref: long}}}},
			{"version", "endpoint 1: version -2: want the one that was read, or AnyVersion", store.Write{Puts: []store.Record{endpoint("1", -2, "")}}},
			{"drop of none", "endpoint 1: dropped without a version: want the one that was read, or AnyVersion", store.Write{Drops: []store.Record{endpoint("1", 0, "")}}},
			{"put twice", "endpoint 1: is there twice; a write changes a record once", store.Write{Puts: []store.Record{endpoint("1", 0, ""), endpoint("1", 1, "")}}},
			{"put and dropped", "endpoint 1: is there twice; a write changes a record once", store.Write{
				Puts: []store.Record{endpoint("1", 0, "")}, Drops: []store.Record{endpoint("1", 1, "")},
			}},
			{"actor", `audit actor "\xff": must be UTF-8 without zero bytes`, store.Write{Audit: []store.AuditRow{{Actor: "\xff"}}}},
			{"detail", `audit detail "\x00": must be UTF-8 without zero bytes`, store.Write{Audit: []store.AuditRow{{Detail: "\x00"}}}},
		} {
			c.w.Puts = append([]store.Record{good}, c.w.Puts...)
			c.w.Jobs = []job.New{plain}
			_, err := s.Write(s.ctx, t0, c.w)
			if err == nil {
				s.Fatalf("%s: accepted", c.name)
			}
			s.same(c.name, err.Error(), "store: write: "+c.want)
		}
		s.absent("good", "1")
		s.nothingThere()
	}},
	{"a list that cannot be answered is refused", func(s *script) {
		for want, f := range map[string]store.RecordFilter{
			"store: records: the kind is empty; a list is of one kind":           {Limit: 1},
			`store: records: kind "\xff": must be UTF-8 without zero bytes`:      {Kind: "\xff", Limit: 1},
			`store: records: ref "\x00": must be UTF-8 without zero bytes`:       {Kind: "a", Ref: "\x00", Limit: 1},
			`store: records: after "\xf0\x90": must be UTF-8 without zero bytes`: {Kind: "a", After: "\xf0\x90", Limit: 1},
		} {
			_, err := s.Records(s.ctx, f)
			if err == nil {
				s.Fatalf("%+v: accepted", f)
			}
			s.same("error", err.Error(), want)
		}
	}},
}
