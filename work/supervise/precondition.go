package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// ready waits until the preconditions hold. What is wanting is a fault of our
// own machine: it is waited for here, in the slot, so that no start is spent
// on it. How long is the policy's to say.
func (l *life) ready(ctx context.Context) error {
	if _, err := os.Stat(l.spec.Cwd); errors.Is(err, fs.ErrNotExist) && l.status.Attempt == 0 {
		return failure.New(failure.Config, ReasonConfig, fmt.Errorf("cwd: %s: there is no such directory; make it, or name another", l.spec.Cwd))
	}
	h := l.task.Job().History
	for {
		now := l.config.Clock.Now().UTC()
		hold, first := l.status.Hold.Judge(l.readings(ctx), now)
		begins := len(l.status.Hold) == 0 && len(hold) > 0
		l.status.Hold, l.status.HoldText = hold, ""
		if first == nil {
			return nil
		}
		l.status.HoldText = first.Text
		f := failure.Of(first.Class)
		f.Reason, f.Err = "not_ready", errors.New(first.Text)
		h.Idle, h.Starts = 0, h.Starts+1
		d := retry.Decide(&l.policy, h, f, now, retry.Derive(uint64(l.task.Job().Seq), uint64(l.task.Start()), h.Starts))
		if d.Action != policy.Retry { // a deadline, a window, or a rule of the policy's own
			return failure.New(f.Class, f.Reason, f.Err)
		}
		h = d.Next
		if begins {
			l.tell(Event{What: HeldBack, Text: first.Text})
		}
		if err := l.report(ctx); err != nil {
			l.config.Log.Warn("supervise: status", "run", l.name, "error", err)
		}
		if err := l.wait(ctx, d.Delay); err != nil {
			return err
		}
	}
}

// wait waits in policy time, until the service stops or the context ends.
func (l *life) wait(ctx context.Context, d time.Duration) error {
	fired, release := l.config.Clock.Timer(d)
	defer release()
	select {
	case <-fired:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.stopping:
		return failure.New(failure.Interrupted, "stopped", errors.New("the supervisor was told to stop while the run waited"))
	}
}

// A disk with less than fullBelow is full, whatever else is asked of it; it
// must have room for a little more before it counts as mended.
const (
	fullBelow  = 64 << 10
	fullMended = 4 * fullBelow
)

func (l *life) readings(ctx context.Context) []Reading {
	var all []Reading
	r := &l.spec.Ready
	all = append(all, l.disks()...)
	if r.Memory > 0 {
		have, err := freeMemory()
		one := Reading{Name: "memory", Have: have, Need: int64(r.Memory), Again: int64(r.Memory) + int64(r.Memory)/10, Class: failure.LocalIO}
		one.Text = fmt.Sprintf("memory: %d bytes available, want %d", have, r.Memory)
		if err != nil {
			one.Text = err.Error()
		}
		all = append(all, one)
	}
	if info, err := os.Stat(l.spec.Cwd); err != nil || !info.IsDir() { // of a disk that is not mounted, perhaps: it is not made
		all = append(all, Reading{Name: "cwd", Class: failure.LocalIO, Text: "cwd: " + l.spec.Cwd + ": there is no such directory"})
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

// disks measures the free space that is asked for, and that there is any at
// all where the run works.
func (l *life) disks() []Reading {
	var all []Reading
	disks := append([]DiskFree(nil), l.spec.Ready.Disk...)
	for _, path := range []string{l.spec.Cwd, l.spec.Dir} {
		if _, err := os.Stat(path); err == nil {
			disks = append(disks, DiskFree{Path: path, Free: fullBelow, Again: fullMended})
		}
	}
	for _, d := range disks {
		path := d.Path
		if path == "" {
			path = l.spec.Cwd
		}
		again := int64(d.Again)
		if again == 0 {
			again = int64(d.Free) + int64(d.Free)/10
		}
		have, err := freeBytes(path)
		one := Reading{Name: fmt.Sprintf("disk:%s:%d", path, d.Free), Have: have, Need: int64(d.Free), Again: again, Class: failure.DiskFull}
		one.Text = fmt.Sprintf("disk: %s: %d bytes free, want %d (%d after it was full)", path, have, d.Free, again)
		if err != nil {
			one.Class, one.Text = failure.LocalIO, err.Error()
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
