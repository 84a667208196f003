package crashtest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store"
)

// What names an event of the evidence.
type What string

const (
	Registered What = "registered" // the process is known to the store
	Beat       What = "beat"       // the store took a heartbeat; Text is when we asked, as Mono
	Claimed    What = "claimed"    // the store gave us this lease
	Started    What = "started"    // the handler begins; Text is its order's name
	Ended      What = "ended"      // the handler is about to return; Text is "ok" or its error
	Settled    What = "settled"    // the store acknowledged the outcome; Text is the state it left
	Refused    What = "refused"    // the store refused a write of this lease; Text says which
	Accepted   What = "accepted"   // the store took a write that came after the lease was lost
	Lost       What = "lost"       // this process was taken for dead
	Late       What = "late"       // all late writes of a lost process have been tried
	Reaped     What = "reaped"     // this process took over from another, Process
	Probing    What = "probing"    // the start that follows is the probe of a breaker
	Swapped    What = "swapped"    // the store took this gate; Text is a GateSeen as JSON
	Erred      What = "erred"      // a call of the store failed
	Draining   What = "draining"   // the first signal
	Stopping   What = "stopping"   // the second, or the end of the drain
	Stopped    What = "stopped"    // nothing is left
)

// Event is one line of the evidence.
type Event struct {
	Mono    time.Duration // of the machine's monotonic clock, the same in all processes
	Wall    time.Time     // policy time
	What    What
	Process int64 // the process's number in the store
	store.Ref
	Start int // number of the start; 0 where no handler began
	Text  string
}

// Mono reads the machine's monotonic clock.
func Mono() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(t.Nano())
}

// Evidence is the file that one process writes.
type Evidence struct {
	file  *os.File
	clock clock.Clock // of Wall
}

// OpenEvidence creates the file, or goes on at its end.
func OpenEvidence(path string) (*Evidence, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("crashtest: evidence: %w", err)
	}
	return &Evidence{file: file, clock: clock.System{}}, nil
}

// Add writes one event, with the time of now, in one call of the kernel: it
// survives the death of the process. Without evidence there is nothing to
// judge, so an error ends the process.
func (v *Evidence) Add(e Event) {
	line := fmt.Appendf(nil, "%d %d %s %d %d %d %d %q\n",
		Mono(), v.clock.Now().UnixNano(), e.What, e.Process, e.Seq, e.Epoch, e.Start, e.Text)
	if _, err := v.file.Write(line); err != nil {
		panic(fmt.Sprintf("crashtest: evidence: %v", err))
	}
}

// tail reads what was added to a file of evidence since the last look.
type tail struct {
	path string
	from int64
	rest []byte // of a line that is not complete
}

func (t *tail) read() ([]Event, error) {
	file, err := os.Open(t.path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, nil // the process has not come so far
		}
		return nil, fmt.Errorf("crashtest: evidence: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("crashtest: evidence: %w", err)
	}
	more := make([]byte, info.Size()-t.from)
	if _, err := file.ReadAt(more, t.from); err != nil {
		return nil, fmt.Errorf("crashtest: evidence: %w", err)
	}
	t.from += int64(len(more))
	text := slices.Concat(t.rest, more)
	var events []Event
	for {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			// A process that died inside the write did not act on it.
			t.rest = bytes.Clone(text)
			return events, nil
		}
		e, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("crashtest: evidence: %s: %q: %w", t.path, line, err)
		}
		events = append(events, e)
		text = rest
	}
}

func parse(line []byte) (Event, error) {
	const fields = 8
	parts := bytes.SplitN(line, []byte{' '}, fields)
	if len(parts) != fields {
		return Event{}, fmt.Errorf("%d fields, want %d", len(parts), fields)
	}
	var numbers [fields]int64
	for _, i := range []int{0, 1, 3, 4, 5, 6} {
		var err error
		if numbers[i], err = strconv.ParseInt(string(parts[i]), 10, 64); err != nil {
			return Event{}, err
		}
	}
	text, err := strconv.Unquote(string(parts[7]))
	return Event{
		Mono: time.Duration(numbers[0]), Wall: time.Unix(0, numbers[1]), What: What(parts[2]), Process: numbers[3],
		Ref: store.Ref{Seq: numbers[4], Epoch: numbers[5]}, Start: int(numbers[6]), Text: text,
	}, err
}
