package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// ready measures the preconditions. What is wanting is a fault of our own
// machine: the policy waits for it and it costs nothing.
func (l *life) ready(ctx context.Context) error {
	hold, first := l.status.Hold.Judge(l.readings(ctx), l.config.Clock.Now().UTC())
	changed := len(hold) != len(l.status.Hold) || first != nil && first.Text != l.status.HoldText
	l.status.Hold, l.status.HoldText = hold, ""
	if first == nil {
		return nil
	}
	l.status.HoldText = first.Text
	if changed {
		l.tell(Event{What: HeldBack, Text: first.Text})
	}
	if err := l.report(ctx); err != nil {
		return err
	}
	return failure.New(first.Class, "not_ready", errors.New(first.Text))
}

func (l *life) readings(ctx context.Context) []Reading {
	var all []Reading
	r := &l.spec.Ready
	for _, d := range r.Disk {
		path := d.Path
		if path == "" {
			path = l.spec.Cwd
		}
		again := int64(d.Again)
		if again == 0 {
			again = int64(d.Free) + int64(d.Free)/10
		}
		have, err := freeBytes(path)
		one := Reading{Name: "disk:" + path, Have: have, Need: int64(d.Free), Again: again, Class: failure.DiskFull}
		one.Text = fmt.Sprintf("disk: %s: %d bytes free, want %d (%d after it was full)", path, have, d.Free, again)
		if err != nil {
			one.Class, one.Text = failure.LocalIO, err.Error()
		}
		all = append(all, one)
	}
	if r.Memory > 0 {
		have, err := freeMemory()
		one := Reading{Name: "memory", Have: have, Need: int64(r.Memory), Again: int64(r.Memory) + int64(r.Memory)/10, Class: failure.LocalIO}
		one.Text = fmt.Sprintf("memory: %d bytes available, want %d", have, r.Memory)
		if err != nil {
			one.Text = err.Error()
		}
		all = append(all, one)
	}
	for _, path := range r.Mounts {
		all = append(all, Reading{Name: "mount:" + path, OK: mounted(path), Class: failure.LocalIO, Text: "mount: " + path + ": nothing is mounted there"})
	}
	for _, path := range r.Writable {
		err := writable(path)
		one := Reading{Name: "writable:" + path, OK: err == nil, Class: failure.LocalIO}
		if err != nil {
			one.Text = "writable: " + err.Error()
			if f := failure.Classify(err); f.Class == failure.DiskFull {
				one.Class = f.Class
			}
		}
		all = append(all, one)
	}
	if len(r.Preflight) > 0 {
		err := l.preflight(ctx)
		one := Reading{Name: "preflight", OK: err == nil, Class: failure.LocalIO}
		if err != nil {
			one.Text = "preflight: " + err.Error()
		}
		all = append(all, one)
	}
	return all
}

// writable writes a file into a directory, and removes it.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".ebb-writable-*")
	if err != nil {
		return err
	}
	return errors.Join(writeAll(f, make([]byte, 4096)), f.Close(), os.Remove(f.Name()))
}

func (l *life) preflight(ctx context.Context) error {
	limit := time.Duration(l.spec.Ready.Timeout)
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	argv := l.spec.Ready.Preflight
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = l.spec.Dir, time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if line := lastLine(string(out)); line != "" {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, line)
	}
	return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
}
