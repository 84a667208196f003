// Package command is what the programs of the benchmarks have in common: how
// they begin, tell how far they are, and end.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/bench/report"
)

// Main runs a benchmark until it is done or interrupted, and ends the program
// with 1 if it failed.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Progress tells whoever waits how far it is.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// Listed tells whether a name is in a list with commas.
func Listed(list, name string) bool { return slices.Contains(strings.Split(list, ","), name) }

// Profile writes a processor profile to a file until stop is called; without a
// path it does nothing.
func Profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// Scratch calls do with a directory that is removed afterwards.
func Scratch(name string, do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "ebb-"+name+"-") // TMPDIR names a disk, as a database is on one
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL's own user must pass
		return err
	}
	return do(dir)
}

// Publish prints a result and, where a file is named, puts it into the file's
// section bench:NAME.
func Publish(record, name, text string, targets *report.Targets) error {
	fmt.Fprint(os.Stdout, "\n", text, "\n", targets)
	if record == "" {
		return nil
	}
	return report.Section(record, name, text+"\n```\n"+targets.String()+"```\n")
}
