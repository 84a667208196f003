package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config is what a server is started with.
type Config struct {
	// NoSync keeps everything in memory where there is a memory file system,
	// and turns fsync off: for tests in which durability is not the subject.
	NoSync bool
	// Settings are further lines of postgresql.conf, such as "shared_buffers=1GB".
	Settings []string
}

// superuser owns everything in a test server. Only its temporary directory's
// owner reaches the socket, so there is no password.
const superuser = "ebb"

// startWithin bounds how long a server may take to answer; it usually takes
// 0.2 s.
const startWithin = 60 * time.Second

// Server is one throw-away PostgreSQL.
type Server struct {
	dir    string
	bin    string
	config Config
	owner  *syscall.Credential // nil = ours
	run    *run                // nil while stopped
}

// run is one life of the server's main process.
type run struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has gone
	log   *bytes.Buffer // read it after ended only
}

// URL returns the address of a database on the server.
func (s *Server) URL(database string) string {
	return "postgres://" + superuser + "@/" + database + "?host=" + url.QueryEscape(s.dir)
}

// Running reports whether the server was started and not stopped.
func (s *Server) Running() bool { return s.run != nil }

// PID returns the server's main process; 0 while stopped.
func (s *Server) PID() int {
	if s.run == nil {
		return 0
	}
	return s.run.cmd.Process.Pid
}

// launch makes a cluster and starts it.
func launch(c Config) (*Server, error) {
	s := &Server{config: c}
	var err error
	if s.bin, err = Binaries("/usr/lib/postgresql"); err != nil {
		return nil, err
	}
	if s.dir, err = directory(c.NoSync); err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	if err = s.initialise(); err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// directory makes the place of a cluster. Its name tells whose it is, so that
// those of test binaries that died are removed by the next one.
func directory(memory bool) (string, error) {
	bases := []string{os.TempDir()}
	if memory {
		bases = []string{"/dev/shm", os.TempDir()}
	}
	name := fmt.Sprintf("ebb-pg-%d-", os.Getpid())
	var err error
	for _, base := range bases {
		RemoveStale(base)
		var dir string
		if dir, err = os.MkdirTemp(base, name); err == nil {
			return dir, hold(dir)
		}
	}
	return "", err
}

// held are the directories of this process, locked for as long as it lives.
var held sync.Map

// hold locks the directory. A process number alone does not tell who lives:
// another container has numbers of its own, and perhaps the same directory.
func hold(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	held.Store(dir, f)
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// isHeld reports whether a living process has locked the directory.
func isHeld(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // with it goes the lock
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// RemoveStale removes the clusters that test binaries which are no more have
// left in base.
func RemoveStale(base string) {
	found, err := filepath.Glob(filepath.Join(base, "ebb-pg-*-*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), "ebb-pg-%d-", &pid); err != nil || pid <= 0 {
			continue
		}
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) && !isHeld(dir) {
			_ = os.RemoveAll(dir) // another may be faster
		}
	}
}

// Binaries finds initdb and postgres: where EBB_PG_BIN says, on the path, or
// below root, where Debian puts each version: the newest of them.
func Binaries(root string) (string, error) {
	if dir := os.Getenv("EBB_PG_BIN"); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			return "", fmt.Errorf("pgtest: EBB_PG_BIN=%s holds no initdb: %w", dir, err)
		}
		return dir, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob(filepath.Join(root, "*", "bin", "initdb"))
	if err != nil || len(found) == 0 {
		return "", errors.New("pgtest: PostgreSQL is not installed; run scripts/need postgresql-15, or point EBB_PG_BIN at its binaries")
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })
	return filepath.Dir(newest), nil
}

// major reads the version out of /usr/lib/postgresql/15/bin/initdb.
func major(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return n
}

// initialise makes the cluster. PostgreSQL refuses to run as root, so root
// gives it to nobody.
func (s *Server) initialise() error {
	if os.Geteuid() == 0 {
		var err error
		if s.owner, err = nobody(); err != nil {
			return err
		}
		if err := os.Chown(s.dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return fmt.Errorf("pgtest: %w", err)
		}
	}
	out, err := s.command(context.Background(), "initdb", "-D", s.data(), "-U", superuser, "-A", "trust", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	return nil
}

func nobody() (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("pgtest: PostgreSQL does not run as root, and there is no nobody: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("pgtest: user nobody: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("pgtest: user nobody: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "HOME=" + s.dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return cmd
}

// Start starts a stopped server and waits until it answers.
func (s *Server) Start() error {
	if s.run != nil {
		return errors.New("pgtest: the server is running")
	}
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200"}
	if s.config.NoSync {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "wal_level=minimal", "-c", "max_wal_senders=0")
	}
	for _, line := range s.config.Settings {
		args = append(args, "-c", line)
	}
	r := &run{cmd: s.command(context.Background(), "postgres", args...), ended: make(chan struct{}), log: &bytes.Buffer{}}
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	// The kernel stops the server when the test binary dies, however it dies.
	r.cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	started := make(chan error)
	go r.live(started)
	if err := <-started; err != nil {
		return fmt.Errorf("pgtest: postgres: %w", err)
	}
	s.run = r
	return s.answer()
}

// live starts the process and waits for its end on one thread: the kernel
// takes the end of that thread for the parent's death.
func (r *run) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := r.cmd.Start()
	started <- err
	if err == nil {
		_ = r.cmd.Wait() // an unwanted end shows where it is missed
	}
	close(r.ended)
}

// answer waits until the server takes connections.
func (s *Server) answer() error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.run.ended:
			return fmt.Errorf("pgtest: postgres ended at once:\n%s", s.run.log)
		case <-ctx.Done():
			return fmt.Errorf("pgtest: postgres does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// Stop shuts the server down at once, as a crash does: no goodbye to its
// clients, recovery at the next Start.
func (s *Server) Stop() error { return s.stop(syscall.SIGQUIT) }

// Shutdown ends sessions and writes everything out first.
func (s *Server) Shutdown() error { return s.stop(syscall.SIGINT) }

func (s *Server) stop(how syscall.Signal) error {
	if s.run == nil {
		return nil
	}
	r := s.run
	s.run = nil
	if err := r.cmd.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pgtest: stop: %w", err)
	}
	<-r.ended
	return nil
}

// Close stops the server and removes everything.
func (s *Server) Close() error {
	err := s.Stop()
	if rm := os.RemoveAll(s.dir); rm != nil {
		err = errors.Join(err, fmt.Errorf("pgtest: %w", rm))
	}
	return err
}
