// Package demo shows Ebb at work on this machine: real servers on loopback,
// the real policies, policy time running faster. Every figure that it prints
// was counted while it ran.
package demo

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Options says how the demonstration runs.
type Options struct {
	Out   io.Writer
	Speed float64 // policy time against the machine's; 60 if 0
	Seed  uint64
}

// Run shows one part after the other and returns the first error.
func Run(ctx context.Context, o Options) error {
	if o.Speed == 0 {
		o.Speed = 60
	}
	if o.Speed < 1 || o.Speed > 1000 {
		return fmt.Errorf("demo: speed %g is out of range; 1 to 1000", o.Speed)
	}
	start := time.Now()
	for _, part := range []func(context.Context, Options) error{guard, statehouse, documents} {
		if err := part(ctx, o); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		fmt.Fprintln(o.Out)
	}
	fmt.Fprintf(o.Out, "done in %s; policy time ran %g times faster\n", time.Since(start).Round(100*time.Millisecond), o.Speed)
	return nil
}

func heading(o Options, title, about string) {
	fmt.Fprintf(o.Out, "== %s\n%s\n\n", title, about)
}
