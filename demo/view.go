package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/webhook"
)

// view is what the terminal shows while it runs: a line for each part, redrawn
// in place once a second, or printed now and then where it is no terminal.
type view struct {
	o     Options
	parts []part
	world *world

	mu    sync.Mutex
	ended map[int]string
	drawn int
}

func newView(o Options, parts []part, w *world) *view {
	return &view{o: o, parts: parts, world: w, ended: map[int]string{}}
}

func (v *view) done(i int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended[i] = "done"
	if err != nil {
		v.ended[i] = "broken: " + err.Error()
	}
}

func (v *view) run(ctx context.Context) {
	every := 10 * time.Second
	if v.o.Live {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			v.draw(context.WithoutCancel(ctx))
			fmt.Fprintln(v.o.Out)
			return
		case <-tick.C:
			v.draw(ctx)
		}
	}
}

// draw writes a line for each part.
func (v *view) draw(ctx context.Context) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	if v.o.Live && v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	lines := []string{fmt.Sprintf("  policy time %s", v.world.clock.Now().Sub(v.world.clock.Start).Round(time.Second))}
	for i, p := range v.parts {
		line := fmt.Sprintf("  %-10s %s", p.name, v.world.progress(ctx, p.name))
		if end := v.ended[i]; end != "" {
			line += " · " + end
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		if v.o.Live {
			b.WriteString("\x1b[2K")
		}
		b.WriteString(line + "\n")
	}
	v.drawn = len(lines)
	fmt.Fprint(v.o.Out, b.String())
}

// progress tells how far a part is.
func (w *world) progress(ctx context.Context, part string) string {
	switch part {
	case "pages":
		k := w.counts.seen(fetch.Kind)
		return fmt.Sprintf("%d of %d pages; %s", k.succeeded, w.size.pages, k.retries())
	case "documents":
		k := w.counts.seen(document.Kind)
		return fmt.Sprintf("%d of %d documents; %s", k.succeeded+k.failed, w.size.documents, k.retries())
	case "webhooks":
		k := w.counts.seen(webhook.Kind)
		return fmt.Sprintf("%d of %d deliveries; %s; %d dead letters", k.succeeded, endpointCount*w.size.events, k.retries(), k.failed)
	default:
		if w.runs == nil {
			return "no crawler"
		}
		run, err := w.runs.Show(ctx, supervised)
		if err != nil {
			return "not begun"
		}
		return fmt.Sprintf("%d of %d pages; %s; %s", run.Units, crawlPages, restarts(run.RestartsUsed), run.State)
	}
}

// supervised is the crawl's run.
const supervised = "crawl"
