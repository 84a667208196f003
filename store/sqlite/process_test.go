package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

// roleVariable makes the test binary play a process of its own on a file.
const roleVariable = "EBB_SQLITE_ROLE"

func TestMain(m *testing.M) {
	roles := map[string]func(ctx context.Context, s *sqlite.Store, out io.Writer) error{
		"hammer": hammer, "enqueue": enqueueForever,
	}
	name, path, _ := strings.Cut(os.Getenv(roleVariable), ":")
	role := roles[name]
	if role == nil {
		os.Exit(m.Run())
	}
	if err := play(path, role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(path string, role func(ctx context.Context, s *sqlite.Store, out io.Writer) error) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	if err := role(ctx, s, os.Stdout); err != nil {
		return err
	}
	return s.Close()
}

// spawn starts a process in the role; its output comes line by line.
func spawn(t *testing.T, role, path string) (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role+":"+path)
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out), &faults
}

// Each hammering process adds hammerJobs jobs in batches while it runs
// whatever it can claim, until everybody's are done.
const (
	hammerProcesses = 4
	hammerJobs      = 600
	hammerBatch     = 20
)

func hammer(ctx context.Context, s *sqlite.Store, out io.Writer) error {
	p, err := s.Register(ctx, time.Time{}, store.Process{PID: os.Getpid(), Kinds: []string{"k"}})
	if err != nil {
		return err
	}
	var settles []store.Settle
	for added := 0; ; {
		if added < hammerJobs {
			batch := make([]job.New, hammerBatch)
			for i := range batch {
				batch[i] = job.New{Kind: "k", Args: fmt.Appendf(nil, "%d-%d", os.Getpid(), added+i)}
			}
			if _, err := s.Enqueue(ctx, time.Time{}, batch); err != nil {
				return err
			}
			added += hammerBatch
		}
		turn := store.Turn{Process: p.ID, Settles: settles, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"k"}, Limit: 7}}}
		answer, err := s.Turn(ctx, turn)
		if err != nil {
			return err
		}
		if slices.Contains(answer.Settled, false) {
			return fmt.Errorf("a settle was refused: %v", answer.Settled)
		}
		settles = settles[:0]
		for i := range answer.Claimed {
			j := &answer.Claimed[i]
			fmt.Fprintf(out, "%d %s\n", j.Seq, j.Args)
			settles = append(settles, endOf(j))
		}
		queues, err := s.Queues(ctx)
		if err != nil {
			return err
		}
		if n := queues[0].Counts[job.Succeeded]; n == hammerProcesses*hammerJobs {
			return nil
		}
	}
}

// endOf lets every fifth job fail at its first start.
func endOf(j *job.Job) store.Settle {
	now := time.Now()
	h := j.History.Started(j.LeasedAt)
	st := store.Settle{
		Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: h,
		Attempt: &job.Attempt{Start: h.Starts, StartedAt: j.LeasedAt, EndedAt: now, OK: true},
	}
	if j.Seq%5 == 0 && h.Starts == 1 {
		st.To, st.Attempt.OK, st.Attempt.Counted = job.Queued, false, retry.CountedAttempt
		st.History.Attempts++
	}
	return st
}

func TestFourProcessesOnOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db") // all four create it
	starts := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range hammerProcesses {
		cmd, lines, faults := spawn(t, "hammer", path)
		wg.Go(func() {
			for lines.Scan() {
				mu.Lock()
				starts[lines.Text()]++
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, faults)
			}
		})
	}
	wg.Wait()
	if len(starts) != hammerProcesses*hammerJobs {
		t.Errorf("%d different jobs ran, want %d", len(starts), hammerProcesses*hammerJobs)
	}
	for line, n := range starts {
		seq, _, _ := strings.Cut(line, " ")
		number, err := strconv.Atoi(seq)
		if err != nil {
			t.Fatal(err)
		}
		if want := 1 + b2i(number%5 == 0); n != want {
			t.Errorf("job %s was started %d times, want %d", line, n, want)
		}
	}
	sound(t, path)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// enqueueForever acknowledges each job only after the store did.
func enqueueForever(ctx context.Context, s *sqlite.Store, out io.Writer) error {
	p, err := s.Register(ctx, time.Time{}, store.Process{PID: os.Getpid(), Kinds: []string{"k"}})
	if err != nil {
		return err
	}
	var settles []store.Settle
	for {
		added, err := s.Enqueue(ctx, time.Time{}, []job.New{{Kind: "k"}, {Kind: "k"}, {Kind: "k"}})
		if err != nil {
			return err
		}
		for _, a := range added {
			fmt.Fprintf(out, "queued %d\n", a.Seq)
		}
		answer, err := s.Turn(ctx, store.Turn{Process: p.ID, Settles: settles, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"k"}, Limit: 2}}})
		if err != nil {
			return err
		}
		for i, ok := range answer.Settled {
			fmt.Fprintf(out, "settled %d %t\n", settles[i].Seq, ok)
		}
		settles = settles[:0]
		for i := range answer.Claimed {
			settles = append(settles, endOf(&answer.Claimed[i]))
		}
	}
}

// acknowledged is what a killed process had promised.
type acknowledged struct {
	queued  []int64
	settled []int64
}

// promises reads lines until the process is gone, killing it after so many.
func promises(t *testing.T, cmd *exec.Cmd, lines *bufio.Scanner, killAfter int) acknowledged {
	t.Helper()
	var a acknowledged
	for n := 0; lines.Scan(); n++ {
		var what string
		var seq int64
		ok := true
		if _, err := fmt.Sscan(lines.Text(), &what, &seq); err != nil {
			break // the last line may be torn
		}
		if what == "settled" {
			_, err := fmt.Sscan(lines.Text(), &what, &seq, &ok)
			if err != nil {
				break
			}
		}
		switch {
		case !ok:
			t.Errorf("a settle of %d was refused", seq)
		case what == "settled":
			a.settled = append(a.settled, seq)
		default:
			a.queued = append(a.queued, seq)
		}
		if n == killAfter {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return a
}

func TestNothingAcknowledgedIsLostByKills(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	var all acknowledged
	var mu sync.Mutex
	for round := range 6 {
		var wg sync.WaitGroup
		for i := range 2 {
			cmd, lines, faults := spawn(t, "enqueue", path)
			wg.Go(func() {
				a := promises(t, cmd, lines, 40+37*round+11*i)
				if err := cmd.Wait(); err == nil || faults.Len() > 0 {
					t.Errorf("not killed: %v: %s", err, faults)
				}
				mu.Lock()
				defer mu.Unlock()
				all.queued, all.settled = append(all.queued, a.queued...), append(all.settled, a.settled...)
			})
		}
		wg.Wait()
		sound(t, path)
	}
	s := openAt(t, path, sqlite.Options{})
	for _, seq := range all.queued {
		if _, err := s.Job(t.Context(), seq); err != nil {
			t.Errorf("job %d was acknowledged: %v", seq, err)
		}
	}
	for _, seq := range all.settled {
		attempts, err := s.Attempts(t.Context(), seq)
		if err != nil || len(attempts) == 0 {
			t.Errorf("a settle of job %d was acknowledged: %v, ledger %v", seq, err, attempts)
		}
	}
	if len(all.queued) < 300 || len(all.settled) < 100 {
		t.Errorf("only %d enqueues and %d settles were acknowledged", len(all.queued), len(all.settled))
	}
}
