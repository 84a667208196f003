package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// commandOf is what the wrapper runs: the command, or the client of the
// container that the command runs in, which is this very program.
func commandOf(dir string, l *launch) ([]string, error) {
	path := filepath.Join(dir, containerFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return l.Argv, nil
	} else if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	return append(append([]string{self}, os.Args[1:len(os.Args)-1]...), path), err
}

// containerChild is the client of a contained attempt, in the place of its
// command: it starts the container or takes a living one of the run over,
// copies what it prints, passes signals on and records how it ended. path is
// the attempt's containerFile.
func containerChild(path string) error {
	var c containment
	if ok, err := read(path, &c); err != nil || !ok {
		return fmt.Errorf("supervise: %s: no container to run: %w", path, err)
	}
	told := make(chan os.Signal, 8)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
	r := &containerRun{daemon: dial(c.Socket), plan: &c, dir: filepath.Dir(path)}
	ctx := context.Background()
	if err := r.begin(ctx); err != nil {
		return r.unstarted(err)
	}
	guard, err := r.guard()
	if err != nil {
		return errors.Join(err, r.daemon.remove(ctx, r.id))
	}
	go func() {
		for s := range told {
			if err := r.daemon.signal(ctx, r.id, signalName(s.(syscall.Signal))); err != nil {
				fmt.Fprintln(os.Stderr, "ebb:", err)
			}
		}
	}()
	end, err := r.watch(ctx)
	if err != nil {
		return err // the guard ends the container
	}
	if err := save(filepath.Join(r.dir, containedFile), end); err != nil {
		return err
	}
	if err := r.daemon.remove(ctx, r.id); err != nil {
		fmt.Fprintln(os.Stderr, "ebb:", err)
	}
	_, err = io.WriteString(guard, "done\n")
	return errors.Join(err, guard.Close())
}

// containerRun is a container under way.
type containerRun struct {
	daemon *daemon
	plan   *containment
	dir    string // of the attempt
	id     string
}

// begin finds the run's living container, or starts a new one. What an
// attempt left that nobody saw end is removed: its outcome is judged as lost.
func (r *containerRun) begin(ctx context.Context) error {
	list, err := r.daemon.find(ctx, r.plan.Key)
	if err != nil {
		return err
	}
	for _, st := range list {
		if st.State.Running {
			r.id = st.ID
			fmt.Fprintf(os.Stderr, "ebb: took over container %.12s\n", r.id)
			return nil
		}
		if err := r.daemon.remove(ctx, st.ID); err != nil {
			return err
		}
	}
	if r.id, err = r.daemon.create(ctx, r.plan); err != nil {
		return err
	}
	if err = r.daemon.start(ctx, r.id); err != nil {
		return errors.Join(err, r.daemon.remove(ctx, r.id))
	}
	return nil
}

// unstarted records that there is no container, as a shell tells of a program
// that it cannot start: what the daemon refused is wrong with the spec. A
// daemon that does not answer is a fault of the machine.
func (r *containerRun) unstarted(err error) error {
	fmt.Fprintln(os.Stderr, "ebb:", err)
	end := contained{Code: 126, Error: err.Error()}
	switch status := statusOf(err); {
	case status == 0:
		fmt.Fprintln(os.Stderr, "ebb:", fmt.Errorf("container: %s: %w", r.daemon.socket, syscall.ENOTCONN))
		end = contained{Code: 1}
	case status >= http.StatusInternalServerError: // what it says is judged as a log is
		end = contained{Code: 1}
	case status == http.StatusNotFound:
		end.Code = 127
	}
	return save(filepath.Join(r.dir, containedFile), end)
}

// watch copies the log until the container has ended. The daemon may go away
// and come back meanwhile.
func (r *containerRun) watch(ctx context.Context) (contained, error) {
	var copied [2]int64
	away := time.Time{}
	for {
		err := r.daemon.logs(ctx, r.id, [2]io.Writer{os.Stdout, os.Stderr}, &copied)
		var st containerState
		if err == nil {
			st, err = r.daemon.inspect(ctx, r.id)
		}
		if err == nil && !st.State.Running {
			return contained{ID: r.id, Code: st.State.ExitCode, OOM: st.State.OOMKilled}, nil
		}
		if statusOf(err) == http.StatusNotFound {
			return contained{}, fmt.Errorf("container %.12s was removed by somebody else", r.id)
		}
		switch {
		case err == nil:
			away = time.Time{}
		case away.IsZero():
			away = time.Now()
			fmt.Fprintln(os.Stderr, "ebb:", err)
		case time.Since(away) > daemonPatience:
			return contained{}, err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// guard starts a process that ends the container should this one be killed.
// It is in a session of its own, and holds the run's lock as the command does:
// no other attempt begins before the container is gone.
func (r *containerRun) guard() (io.WriteCloser, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	words := append(append([]string(nil), os.Args[1:len(os.Args)-1]...), filepath.Join(r.dir, guardFile))
	cmd := exec.Command(self, words...) //nolint:noctx // it outlives every context
	cmd.Dir, cmd.SysProcAttr = r.dir, detached()
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "lock")} // as the wrapper gave it to us
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait() }() // so that it leaves no zombie
	_, err = fmt.Fprintln(in, r.id)
	return in, err
}

// containerGuard waits for the client's end, and ends the container unless
// the client has said that it is done. path is the attempt's guardFile.
func containerGuard(path string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var c containment
	if ok, err := read(filepath.Join(filepath.Dir(path), containerFile), &c); err != nil || !ok {
		return fmt.Errorf("supervise: %s: no container to guard: %w", path, err)
	}
	lines := bufio.NewScanner(os.Stdin)
	id := ""
	for lines.Scan() {
		if lines.Text() == "done" {
			return nil
		}
		id = lines.Text()
	}
	if id == "" {
		return errors.New("supervise: a guard without a container")
	}
	d := dial(c.Socket)
	for until := time.Now().Add(daemonPatience); ; time.Sleep(time.Second) {
		err := errors.Join(d.signal(context.Background(), id, "KILL"), d.remove(context.Background(), id))
		if err == nil || time.Now().After(until) {
			return err
		}
	}
}

// withContainer is the exit record of a contained attempt: the container's
// end in the place of its client's.
func withContainer(dir string, e ended, killed bool) ended {
	var c contained
	if ok, err := read(filepath.Join(dir, containedFile), &c); err != nil || !ok {
		return e
	}
	e.Code, e.Signal, e.Error = c.Code, "", c.Error
	if name, ok := signalNames[syscall.Signal(c.Code-128)]; ok && c.Code > 128 {
		e.Code, e.Signal = -1, name
	}
	// Podman does not tell of it: the kernel's own count does.
	e.OOM = c.OOM || e.Signal == "KILL" && killed
	return e
}
