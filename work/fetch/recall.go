package fetch

import (
	"context"
	"fmt"
	"slices"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// recall takes pages back that turned out to be one error page on many URLs
// only when the last of them came: their files go into quarantine, and each
// URL gets a job anew in place of the one that had succeeded, to be tried as
// every page that is an error page: in this pass, in waves, by order. It
// returns how many. A crash in between, or another machine, does it again and
// changes nothing.
func (r *Runner) recall(ctx context.Context) (fresh int, err error) {
	if r.o.Soft == nil {
		return 0, nil
	}
	if err := r.reload(ctx); err != nil {
		return 0, err
	}
	over := slices.Concat(r.o.Soft.Over(), r.Fetch().SameBody)
	slices.Sort(over)
	over = slices.Compact(over)
	if slices.Equal(over, r.recalled) {
		return 0, nil
	}
	err = r.change(ctx, func(f *Fetch) bool {
		f.SameBody = over
		return true
	})
	if err != nil {
		return 0, err
	}
	r.o.Soft.Known(over)
	var taken int64
	f := r.Fetch()
	err = eachRow(ctx, r.o.Store, &f, job.Succeeded, func(p Page) error {
		if !p.replaced {
			return nil
		}
		taken++
		again, err := r.replace(ctx, &p)
		fresh += again
		return err
	})
	if err != nil {
		return fresh, err
	}
	r.recalled = over
	return fresh, r.change(ctx, func(f *Fetch) bool {
		f.Recalled = max(f.Recalled, taken)
		return true
	})
}

// replace puts one page into quarantine and queues its URL again; 0 if that
// was done before.
func (r *Runner) replace(ctx context.Context, p *Page) (int, error) {
	moved, err := r.o.Sink.Recall(p.Kept.Path, p.Kept.SHA256)
	if err != nil {
		return 0, err
	}
	if moved {
		drop := store.Record{Kind: PageKind, ID: r.o.Name + "/" + nameOf(p.Args.URL), Version: store.AnyVersion}
		if _, err := r.o.Store.Write(ctx, r.o.now(), store.Write{Drops: []store.Record{drop}}); err != nil {
			return 0, fmt.Errorf("fetch: %w", err)
		}
	}
	args := p.Args
	args.Again++
	j, err := r.pageJob(args)
	if err != nil {
		return 0, err
	}
	return r.enqueue(ctx, []job.New{j})
}
