package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/fetch/input"
	"github.com/ebbhq/ebb/work/fetch/scope"
	"github.com/ebbhq/ebb/work/fetch/soft"
)

// fetchAll is `ebb fetch` itself.
func (a *app) fetchAll(c *cobra.Command, f *fetchFlags, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.dry {
		return a.fetchDry(c, f, args)
	}
	if len(args) == 0 && len(f.inputs) == 0 { // it goes on as it began
		kept, last, err := a.keptFlags(c, f.dir, f.Name)
		if err == nil {
			err = canGoOn(f.dir, last)
		}
		if err != nil {
			return err
		}
		f = kept
	}
	items, err := a.fetchInput(c.Context(), f, args)
	if err != nil {
		return err
	}
	return a.fetching(c.Context(), f, func(ctx context.Context, o fetch.Options, show *fetchShow) (*fetch.Runner, error) {
		r, err := fetch.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		show.runner(r)
		if items == nil {
			return r, nil
		}
		return r, loadInput(ctx, r, items, f.dir)
	})
}

// canGoOn refuses to go on with a fetch that has ended, or has no input yet.
func canGoOn(dir string, last *fetch.Fetch) error {
	switch last.Phase {
	case fetch.Ended:
		return usage(fmt.Errorf("fetch: %s: no URLs are given, and the last fetch, %s, has ended: there is nothing to go on with", dir, last.ID),
			"ebb fetch -i urls.txt -o "+dir+" for the next one, or ebb fetch retry "+dir)
	case fetch.Loading:
		return usage(fmt.Errorf("fetch: %s: the input of %s was not taken in whole", dir, last.ID), "give it again: ebb fetch -i urls.txt -o "+dir)
	}
	return nil
}

// fetchInput are the URLs; nil = none are given. The first is read at once, so
// that nothing is made for an input that is not there. A crawl's are all read
// at once: they say what is in scope.
func (a *app) fetchInput(ctx context.Context, f *fetchFlags, args []string) (iter.Seq2[input.Item, error], error) {
	sources := f.sources(args)
	if len(sources) == 0 {
		return nil, nil
	}
	never := func(string) (bool, error) { return false, nil } // the ledger knows
	items := withBad(input.Read(sources, input.Options{Open: a.opener(ctx, f.Agent), Seen: never}).All())
	if !f.Recursive {
		return begun(items)
	}
	var seeds []input.Item
	var hosts []string
	for item, err := range items {
		if err != nil {
			return nil, badInput(err)
		}
		seeds = append(seeds, item)
		if normal, err := scope.Normalize(item.URL); err == nil {
			hosts = append(hosts, normal)
		}
	}
	if len(hosts) == 0 {
		return nil, badInput(errors.New("there is no URL in the input"))
	}
	if len(f.Include) == 0 {
		for _, rule := range scope.HostsOf(hosts...) {
			f.Include = append(f.Include, string(rule.Kind)+":"+rule.Text)
		}
	}
	return func(yield func(input.Item, error) bool) {
		for _, item := range seeds {
			if !yield(item, nil) {
				return
			}
		}
	}, nil
}

// begun reads the first item.
func begun(items iter.Seq2[input.Item, error]) (iter.Seq2[input.Item, error], error) {
	next, stop := iter.Pull2(items)
	item, err, ok := next()
	if err != nil || !ok {
		stop()
		if err == nil {
			err = errors.New("there is no URL in the input")
		}
		return nil, badInput(err)
	}
	return func(yield func(input.Item, error) bool) {
		defer stop()
		for ; ok; item, err, ok = next() {
			if !yield(item, err) {
				return
			}
		}
	}, nil
}

func badInput(err error) error {
	return usage(fmt.Errorf("fetch: %w", err), "mend the input and run the same command again: what was taken in is kept")
}

// loadInput takes the URLs in. What is no URL is an item too, and is reported
// as one that failed; a source that cannot be read is wrong usage.
func loadInput(ctx context.Context, r *fetch.Runner, items iter.Seq2[input.Item, error], dir string) error {
	err := r.Load(ctx, items)
	var bad *input.Error
	if errors.As(err, &bad) {
		return badInput(err)
	}
	if now := r.Fetch(); err == nil && now.Input == 0 {
		return usage(errors.New("fetch: there is no URL in the input"), "ebb fetch -i urls.txt -o "+dir)
	}
	return err
}

// withBad turns lines that are no URLs into items that will fail as such.
func withBad(all iter.Seq2[input.Item, error]) iter.Seq2[input.Item, error] {
	return func(yield func(input.Item, error) bool) {
		for item, err := range all {
			var bad *input.Error
			if errors.As(err, &bad) && !bad.Fatal {
				item, err = input.Item{URL: bad.Text, Source: bad.Source, Line: bad.Line}, nil
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// opener opens what an input names.
func (a *app) opener(ctx context.Context, agent string) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		switch {
		case name == "-":
			return io.NopCloser(a.stdin), nil
		case !strings.HasPrefix(name, "http://") && !strings.HasPrefix(name, "https://"):
			return os.Open(name)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("User-Agent", agent)
		client := &http.Client{Timeout: time.Minute}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, errors.Join(fmt.Errorf("http status %d", resp.StatusCode), resp.Body.Close())
		}
		return resp.Body, nil
	}
}

// fetching opens directory and ledger, lets begin make the runner, runs it and
// reports.
func (a *app) fetching(ctx context.Context, f *fetchFlags, begin func(context.Context, fetch.Options, *fetchShow) (*fetch.Runner, error)) (err error) {
	p, err := f.policy(a)
	if err == nil {
		err = f.checkPolicy(&p)
	}
	if err != nil {
		return err
	}
	dir, err := f.open()
	if err != nil {
		return a.dirError(f.dir, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	s, exclusive, err := a.ledger(ctx, f.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed(s, err)) }()
	name, err := f.name()
	if err != nil {
		return err
	}
	show := a.newFetchShow()
	o := fetch.Options{
		Store: s, Name: name, Policy: p, Sink: dir, Exclusive: exclusive, Shared: !exclusive, Agent: f.Agent, Header: f.header(), MaxBody: f.MaxSize,
		Conditional: !f.Fresh, Robots: !f.NoRobots, Waiver: f.Waiver, Observe: show.event, Settings: f.settings(),
		Log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if err := f.rules(&o); err != nil {
		return err
	}
	if f.Speed > 0 {
		o.Clock = clock.Scaled{Start: time.Now(), Factor: f.Speed}
	}
	r, err := begin(ctx, o, show)
	if err != nil {
		return fetchFailed(ctx, f.dir, err)
	}
	stop := show.start()
	err = r.Run(ctx)
	stop()
	if ctx.Err() != nil {
		a.remarkErr("what is finished is kept; ebb fetch -o %s goes on", f.dir)
	}
	if err != nil {
		return fetchFailed(ctx, f.dir, err)
	}
	done := r.Fetch()
	if err := dir.Manifest(&done); err != nil {
		return err
	}
	return a.fetchEnded(ctx, s, f.dir, &done)
}

// rules are of what is followed and what is no page.
func (f *fetchFlags) rules(o *fetch.Options) error {
	o.Probe, o.KeepEmpty = f.Probe, f.KeepEmpty
	if f.Recursive {
		var rules []scope.Rule
		for i, list := range [][]string{f.Include, f.Exclude} {
			for _, text := range list {
				rule, err := scope.ParseRule(text, i == 1)
				if err != nil {
					return usage(fmt.Errorf("fetch: %w", err), "--include example.org, --exclude /search, or glob:…, regexp:…")
				}
				rules = append(rules, rule)
			}
		}
		within, err := scope.New(rules...)
		if err != nil {
			return usage(fmt.Errorf("fetch: %w", err), "--include example.org, --exclude /search, or glob:…, regexp:…")
		}
		o.Follow = within
	}
	if len(f.Soft) == 0 && f.SameBody == 0 && !f.Probe {
		return nil
	}
	var rules []soft.Rule
	for _, text := range f.Soft {
		rule, err := soft.ParseRule(text)
		if err != nil {
			return usage(fmt.Errorf("fetch: --soft: %w", err), `--soft "title:(?i)not found"`)
		}
		rules = append(rules, rule)
	}
	judge, err := soft.New(rules, soft.Options{SameBody: f.SameBody, KeepEmpty: f.KeepEmpty})
	if err != nil {
		return usage(fmt.Errorf("fetch: %w", err), `--soft "title:(?i)not found", --same-body 20`)
	}
	o.Soft = judge
	return nil
}

// open takes the directory.
func (f *fetchFlags) open() (*fetch.Dir, error) {
	o := fetch.DirOptions{Sync: f.Sync, NoFiles: f.NoFiles}
	if f.WARC {
		o.Archive = func() (fetch.Archive, error) { return fetch.OpenWARC(f.dir, f.Agent) }
	}
	return fetch.OpenDir(f.dir, o)
}

// ledger opens the store of a fetch: the directory's own, unless --db names
// another. The directory's own is nobody else's while it is locked.
func (a *app) ledger(ctx context.Context, dir string) (store.Store, bool, error) {
	db := sqliteDatabase(fetch.Ledger(dir))
	if a.db != "" {
		var err error
		if db, err = a.parseDB(a.db, "--db"); err != nil {
			return nil, false, err
		}
	}
	s, err := db.open(ctx)
	if err != nil {
		return nil, false, interrupted(ctx, db.unreachable(err))
	}
	return s, a.db == "", nil
}

func (a *app) dirError(dir string, err error) error {
	if errors.Is(err, fetch.ErrBusy) {
		return &failed{code: exitNo, err: err, try: "ebb fetch status " + dir}
	}
	return &failed{code: exitNo, err: err, try: "a directory that this user can write to"}
}

// fetchFailed gives an error of a run its exit code.
func fetchFailed(ctx context.Context, dir string, err error) error {
	var f *failed
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &f):
		return err
	case errors.Is(err, fetch.ErrLocal):
		return &failed{code: exitNo, err: err, try: "free what is in the way, then ebb fetch -o " + filepath.Clean(dir)}
	case errors.Is(err, fetch.ErrNone):
		return &failed{code: exitNo, err: err, try: "ebb fetch -i urls.txt -o " + filepath.Clean(dir)}
	}
	return &failed{code: exitNo, err: err, try: "the same command again: it goes on where it ended"}
}

// fetchEnded writes the manifest of what is missing, prints the account and
// turns it into the exit code.
func (a *app) fetchEnded(ctx context.Context, s store.Store, dir string, f *fetch.Fetch) error {
	if f.Tally == nil {
		return fmt.Errorf("fetch: %s has not ended", f.ID)
	}
	r, err := fetch.Report(ctx, s, f)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, fetch.FailuresName), r.CSV); err != nil {
		return err
	}
	if !a.json {
		if err := r.Text(a.stdout); err != nil {
			return err
		}
	}
	return verdictOf(f, dir)
}

// verdictOf is the exit code of an account.
func verdictOf(f *fetch.Fetch, dir string) error {
	switch t := f.Tally; {
	case f.Complete():
		return nil
	case t.Parked > 0:
		return &failed{code: exitParked, err: fmt.Errorf("fetch: %d of %d pages are parked", t.Parked, t.Input), try: "ebb fetch report " + dir + ", then ebb fetch retry --class parked " + dir}
	case t.Exhausted+t.Soft+t.Pending+t.Cancelled == 0:
		return &failed{code: exitIncomplete, err: fmt.Errorf("fetch: incomplete: %d of %d pages are not to be had: they would fail the same way again", t.Permanent+t.Robots, t.Input), try: "ebb fetch report " + dir + " says why; ebb fetch retry --class permanent " + dir + " tries them all the same"}
	default:
		missing := t.Input - t.OK - t.Unchanged
		return &failed{code: exitIncomplete, err: fmt.Errorf("fetch: incomplete: %d of %d pages could not be had", missing, t.Input), try: "ebb fetch report " + dir + ", then ebb fetch retry " + dir}
	}
}
