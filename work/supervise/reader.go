package supervise

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reader is the one that feeds decisions and metrics.
type reader struct {
	life   *life
	tails  []tail
	polled time.Time // machine time of the last look at files
	probed map[int]time.Time
	sizes  map[string]int64
}

// pollFiles is how often growing files are measured, machine time.
const pollFiles = time.Second

func (l *life) reader() *reader {
	r := &reader{life: l, tails: l.at.logs(), probed: map[int]time.Time{}, sizes: map[string]int64{}}
	p, _ := presetOf(l.spec.Crawler)
	if path := valueOf(l.at.launch.Argv, p.logs); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.spec.Cwd, path)
		}
		r.tails = append(r.tails, tail{name: "log", path: path})
	}
	_, sources := l.spec.sources()
	for _, o := range sources {
		if o.From != "" && o.From != "stdout" && o.From != "stderr" {
			path, _ := l.at.launch.Vars.expand(o.From)
			if !filepath.IsAbs(path) {
				path = filepath.Join(l.spec.Cwd, path)
			}
			r.tails = append(r.tails, tail{name: o.From, path: path})
		}
	}
	return r
}

// read folds in whatever is new. At the end everything is looked at once more.
func (r *reader) read(ctx context.Context, last bool) {
	if !last {
		r.lines(maxRead)
	} else {
		r.lines(0)
		for i := range r.tails {
			r.tails[i].flush(r.line)
		}
	}
	if last || time.Since(r.polled) >= pollFiles {
		r.polled = time.Now()
		r.measure(ctx, r.life.config.Clock.Now())
	}
}

// line folds one line of a stream in.
func (r *reader) line(stream, text string) {
	r.mark(r.life.meter.Line(stream, text), r.life.config.Clock.Now())
}

// lines reads what was printed since, at most so much of each stream; 0 = all.
func (r *reader) lines(most int64) {
	for i := range r.tails {
		n, err := r.tails[i].read(most, r.line)
		if err != nil {
			r.life.config.Log.Warn("supervise: log", "run", r.life.name, "error", err)
		}
		if n > 0 {
			r.life.watch.Signal(r.life.config.Clock.Now())
		}
	}
}

// mark hands the changes of counters to the watch, in their order.
func (r *reader) mark(marks []Mark, now time.Time) {
	l := r.life
	for _, m := range marks {
		if m.Count == l.meter.counter {
			l.unsaved = l.watch.Count(m.Value, now) || l.unsaved
		} else {
			l.watch.Error(m.Count)
		}
	}
}

// measure looks at files and asks probes.
func (r *reader) measure(ctx context.Context, now time.Time) {
	l := r.life
	_, sources := l.spec.sources()
	for i, o := range sources {
		var v int64
		switch o.Kind {
		case "growth", "warc":
			glob, _ := l.at.launch.Vars.expand(o.Path)
			changed := false
			for _, path := range matches(l.spec.Cwd, glob) {
				n := r.size(path, o.Kind, &changed)
				v += n
			}
			if changed {
				l.watch.Signal(now)
			}
		case "probe":
			every := max(time.Duration(o.Every), time.Second)
			if at, ok := r.probed[i]; ok && now.Sub(at) < every {
				continue
			}
			r.probed[i] = now
			n, err := probe(ctx, l, o.Command)
			if err != nil {
				l.config.Log.Warn("supervise: probe", "run", l.name, "error", err)
				continue
			}
			v = n
		default:
			continue
		}
		r.mark(l.meter.Set(o.Count, v), now)
	}
	r.written(now)
}

// written counts what the command has written where its own flags say, for a
// program whose log says nothing of it.
func (r *reader) written(now time.Time) {
	l := r.life
	p, _ := presetOf(l.spec.Crawler)
	if len(p.files) == 0 || l.meter.counter != p.counter || len(l.spec.Progress.Sources) > 0 {
		return
	}
	paths := append(matches(l.at.launch.Vars.Out, "*"), r.tails[0].path) // standard output
	eachValue(slices.Clone(l.at.launch.Argv), p.files, func(value string) string {
		if !filepath.IsAbs(value) {
			value = filepath.Join(l.spec.Cwd, value)
		}
		paths = append(paths, value)
		return value
	})
	bytes, changed := int64(0), false
	for _, path := range paths {
		bytes += r.size(path, "growth", &changed)
	}
	if changed {
		l.watch.Signal(now)
	}
	r.mark(l.meter.Set(p.counter, bytes), now)
}

// size measures one file: bytes, or whole records, counted anew only where
// the file has grown.
func (r *reader) size(path, kind string, changed *bool) int64 {
	bytes := sizeOf(path)
	if kind == "growth" {
		*changed = *changed || bytes != r.sizes[path]
		r.sizes[path] = bytes
		return bytes
	}
	if bytes != r.sizes["bytes:"+path] {
		*changed = true
		r.sizes["bytes:"+path] = bytes
		n, _ := r.life.config.CountWARC(path) // torn while it is written
		r.sizes[path] = n
	}
	return r.sizes[path]
}

// probe runs a command that prints a number.
func probe(ctx context.Context, l *life, command []string) (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	words := make([]string, len(command))
	for i, w := range command {
		words[i], _ = l.at.launch.Vars.expand(w)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.WaitDelay = l.spec.Cwd, time.Second
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}
