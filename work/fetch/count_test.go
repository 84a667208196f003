package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/store/sqlite"
)

// asked is a store that counts what is asked of it, and can lose what the
// processes of a fetch write down of their pages.
type asked struct {
	store.Store
	lists, groups, queues, records atomic.Int64
	loses                          bool
}

func (a *asked) List(ctx context.Context, f store.Filter, p store.Page) ([]job.Job, error) {
	a.lists.Add(1)
	return a.Store.List(ctx, f, p)
}

func (a *asked) Groups(ctx context.Context, f store.Filter, limit int) ([]store.Group, error) {
	if f.Batch != "" || !f.Since.IsZero() {
		return nil, errors.New("asked by what no index and no counter knows")
	}
	a.groups.Add(1)
	return a.Store.Groups(ctx, f, limit)
}

func (a *asked) Queues(ctx context.Context) ([]store.QueueState, error) {
	a.queues.Add(1)
	return a.Store.Queues(ctx)
}

func (a *asked) Records(ctx context.Context, f store.RecordFilter) ([]store.Record, error) {
	a.records.Add(1)
	return a.Store.Records(ctx, f)
}

func (a *asked) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	for _, r := range w.Puts {
		if a.loses && r.Kind == CountKind && !strings.HasSuffix(r.ID, "/") {
			return nil, errors.New("killed before it was written")
		}
	}
	return a.Store.Write(ctx, now, w)
}

// want holds how often the store was asked since the last look.
func (a *asked) want(t *testing.T, lists, groups, queues, records int64) {
	t.Helper()
	got := [4]int64{a.lists.Swap(0), a.groups.Swap(0), a.queues.Swap(0), a.records.Swap(0)}
	if want := [4]int64{lists, groups, queues, records}; got != want {
		t.Errorf("lists, groups, queues, records: %v, want %v", got, want)
	}
}

// twice is a site whose pages have tags; those of new change at the second
// fetch, and /page/gone is none.
func twice(t *testing.T, fresh func(path string) bool) (*site, *atomic.Bool) {
	second := &atomic.Bool{}
	return newSite(t, func(w http.ResponseWriter, r *http.Request) {
		tag := `"a"`
		if second.Load() && fresh(r.URL.Path) {
			tag = `"b"`
		}
		switch {
		case r.URL.Path == "/page/gone":
			w.WriteHeader(http.StatusNotFound)
			return
		case r.Header.Get("If-None-Match") == tag:
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", tag)
		fmt.Fprint(w, tag, r.URL.Path)
	}), second
}

// TestCountReadsNoPage: the account of a fetch is made of what is counted
// already, at its end and whenever it is asked for; where a process was killed
// before it had written its count down, the pages are read once.
func TestCountReadsNoPage(t *testing.T) {
	for name, loses := range map[string]bool{"counted": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			s, second := twice(t, func(path string) bool { return strings.HasSuffix(path, "0") })
			list := append(pagesOf(s.URL, 40), s.URL+"/page/gone")
			dir := t.TempDir()
			run(t, dir, func(o *Options) { o.Conditional = true }, list...)
			second.Store(true)
			var books *asked
			f := run(t, dir, func(o *Options) {
				books = &asked{Store: o.Store, loses: loses}
				o.Store, o.Conditional = books, true
			}, list...).Fetch()
			want := Tally{Input: 41, OK: 4, Unchanged: 36, Permanent: 1}
			if *f.Tally != want {
				t.Errorf("%+v, want %+v", *f.Tally, want)
			}
			if n := books.lists.Load(); (n > 0) != loses {
				t.Errorf("%d lists were read", n)
			}
			countedAgain(t, dir, want)
		})
	}
}

// countedAgain asks for the account of a fetch that has ended, and again after
// somebody queued its failure anew.
func countedAgain(t *testing.T, dir string, want Tally) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), Ledger(dir), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	books := &asked{Store: s}
	f, found, err := latest(t.Context(), s, "test")
	if err != nil || !found {
		t.Fatal(err)
	}
	sum, list, err := seenOf(t.Context(), s, f.ID)
	if err != nil || len(list) != 1 || sum != (seen{Pages: 40, Unchanged: 36}) {
		t.Errorf("%d records say %+v: %v", len(list), sum, err)
	}
	if got, err := Count(t.Context(), books, &f); err != nil || got != want {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
	books.want(t, 0, 0, 1, 0)
	dead, err := s.List(t.Context(), store.Filter{State: job.Failed, Batch: f.ID}, store.Page{Limit: 2})
	if err != nil || len(dead) != 1 {
		t.Fatalf("%d failed: %v", len(dead), err)
	}
	if err := s.Retry(t.Context(), time.Time{}, "test", dead[0].Seq); err != nil {
		t.Fatal(err)
	}
	want.Permanent, want.Pending = 0, 1
	if got, err := Count(t.Context(), books, &f); err != nil || got != want {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
	books.want(t, 0, 0, 1, 1)
}

// TestCountUnderWay: what a process saw is told within a second or two, and
// adds up, without a page being read.
func TestCountUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		second := false
		s := inside(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/page/0" && second:
				<-hang
			case r.URL.Path == "/page/1":
				w.WriteHeader(http.StatusNotFound)
				return
			case r.Header.Get("If-None-Match") != "":
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("ETag", `"a"`)
			fmt.Fprint(w, r.URL.Path)
		})
		ledger := memory.New(memory.Config{})
		defer ledger.Close()
		d, err := OpenDir(filepath.Join(t.TempDir(), "dir"), DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		begin := func() *Runner {
			r, err := Open(t.Context(), Options{
				Store: ledger, Name: "test", Policy: rapidly(t), Sink: d, Exclusive: true, Waiver: "a test", Conditional: true, Transport: s,
			})
			if err == nil {
				err = r.Load(t.Context(), urls(pagesOf(s.URL, 6)...))
			}
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if err := begin().Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		second = true
		r := begin()
		ended := make(chan error, 1)
		go func() { ended <- r.Run(t.Context()) }()
		<-time.After(3 * time.Second)
		books := &asked{Store: ledger}
		f := r.Fetch()
		want := Tally{Input: 6, Unchanged: 4, Permanent: 1, Pending: 1}
		if got, err := Count(t.Context(), books, &f); err != nil || got != want {
			t.Errorf("%+v, want %+v: %v", got, want, err)
		}
		books.want(t, 0, 1, 1, 1)
		close(hang)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if f = r.Fetch(); *f.Tally != (Tally{Input: 6, OK: 1, Unchanged: 4, Permanent: 1}) {
			t.Errorf("ended with %+v", *f.Tally)
		}
	})
}

// BenchmarkCount is `ebb fetch status` of a fetch under way, with as many pages
// failed as are here.
func BenchmarkCount(b *testing.B) {
	for _, pages := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "fetch.db"), sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			f := fetched(b, s, pages)
			for b.Loop() {
				if t, err := Count(b.Context(), s, f); err != nil || t.OK != t.Exhausted {
					b.Fatalf("%+v: %v", t, err)
				}
			}
		})
	}
}

// fetched leaves a fetch of so many pages, half of them failed.
func fetched(b *testing.B, s store.Store, pages int) *Fetch {
	b.Helper()
	r, err := Open(b.Context(), Options{Store: s, Name: "bench", Policy: rapidly(b), Waiver: "a benchmark", Conditional: true})
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Load(b.Context(), urls(pagesOf("http://site.test", pages)...)); err != nil {
		b.Fatal(err)
	}
	f := r.Fetch()
	p, err := s.Register(b.Context(), time.Time{}, store.Process{Host: "bench", Kinds: []string{Kind}, Queues: []string{f.Queue()}})
	if err != nil {
		b.Fatal(err)
	}
	var ends []store.Settle
	for left := pages; left > 0 || len(ends) > 0; {
		got, err := s.Turn(b.Context(), store.Turn{
			Process: p.ID, Settles: ends,
			Lanes: []store.LaneClaim{{Queue: f.Queue(), Kinds: []string{Kind}, Target: "site.test", Firsts: 1000, Limit: 1000, Begin: 1000}},
		})
		if err != nil || len(got.Claimed) == 0 && left > 0 {
			b.Fatalf("%d left: %v", left, err)
		}
		left -= len(got.Claimed)
		ends = ends[:0]
		for i, j := range got.Claimed {
			end := store.Settle{Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: j.History, Result: []byte(`{"status":200}`)}
			if i%2 == 1 {
				end.To, end.Cause, end.Result, end.Fingerprint = job.Failed, retry.CauseExhausted, nil, "503"
				end.Attempt = &job.Attempt{Seq: j.Seq, Start: 1, Epoch: j.Epoch, Process: p.ID, Class: failure.Server, Error: "http status 503"}
			}
			ends = append(ends, end)
		}
	}
	return &f
}
