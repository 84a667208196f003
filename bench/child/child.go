// Package child is how the benchmark talks to a system under test: a process
// of its own, whose processor time can be read, that answers one JSON line
// with one JSON line. The Node programs under node/ speak the same.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Request is one order. Which fields count depends on Op.
//
//	setup    DSN            connect and create the schema in an empty database
//	insert   N, Batch, Due  enqueue N no-op jobs, due in Due seconds
//	drain    N              run until N are durably done
//	failonce N              the same, but each fails once and is retried without delay
//	slow     N, Workers, Millis   drain N with handlers that take so long
//	serve                   start workers that note when each job started
//	enqueue  N, Millis      enqueue one job each so many milliseconds
//	collect  N              wait for N noted starts, stop, answer their latencies
//	load     Seconds        keep enqueueing and draining, answer the rates
//	close                   end
type Request struct {
	Op      string  `json:"op"`
	DSN     string  `json:"dsn,omitempty"`
	N       int     `json:"n,omitempty"`
	Batch   int     `json:"batch,omitempty"`
	Due     float64 `json:"due,omitempty"`
	Workers int     `json:"workers,omitempty"`
	Millis  float64 `json:"millis,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// Answer is what came of a request.
type Answer struct {
	Seconds float64   `json:"seconds"`          // what the order took, by the child's own clock
	Values  []float64 `json:"values,omitempty"` // collect: latencies in ms; load: jobs done in each second
	Error   string    `json:"error,omitempty"`
}

// Process is a running child.
type Process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
}

// Start runs a program as a child. What it prints to standard error is ours.
func Start(ctx context.Context, name string, argv ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	return &Process{name: name, cmd: cmd, in: in, out: lines}, nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Call sends a request and waits for its answer.
func (p *Process) Call(r Request) (Answer, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return Answer{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return Answer{}, fmt.Errorf("%s: %s: %w", p.name, r.Op, err)
	}
	if !p.out.Scan() {
		return Answer{}, fmt.Errorf("%s: %s: it ended without an answer", p.name, r.Op)
	}
	var a Answer
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		return Answer{}, fmt.Errorf("%s: %s: answer %q: %w", p.name, r.Op, p.out.Text(), err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s: %s: %s", p.name, r.Op, a.Error)
	}
	return a, nil
}

// Close asks the child to end and waits for it.
func (p *Process) Close() error {
	_, err := p.Call(Request{Op: "close"})
	_ = p.in.Close()
	return errors.Join(err, p.cmd.Wait())
}

// Kill ends a child that no longer matters.
func (p *Process) Kill() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Serve answers requests until one of them is close or the input ends.
func Serve(in io.Reader, out io.Writer, handle func(Request) (Answer, error)) error {
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("request %q: %w", lines.Text(), err)
		}
		a, err := handle(r)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
		if r.Op == "close" {
			return nil
		}
	}
	return lines.Err()
}
