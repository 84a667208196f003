package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bouncer is a PgBouncer in transaction mode before a server: each transaction
// of a client may get another connection.
type Bouncer struct{ dir string }

// bouncerPort is in the name of its socket.
const bouncerPort = 6432

// Bounce starts a PgBouncer before the server, with so few connections that
// clients share them. It ends with the test.
func (s *Server) Bounce(tb testing.TB, connections int) *Bouncer {
	tb.Helper()
	program, err := exec.LookPath("/usr/sbin/pgbouncer")
	if err != nil {
		tb.Fatalf("pgtest: %v; run scripts/need pgbouncer", err)
	}
	b := &Bouncer{dir: filepath.Join(s.dir, fmt.Sprintf("bouncer-%d", numbered.Add(1)))}
	config := filepath.Join(b.dir, "pgbouncer.ini")
	err = errors.Join(
		os.Mkdir(b.dir, 0o700),
		os.WriteFile(filepath.Join(b.dir, "users"), fmt.Appendf(nil, "%q \"\"\n", superuser), 0o600),
		os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s
[pgbouncer]
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
unix_socket_dir = %s
listen_port = %d
auth_type = trust
auth_file = %s/users
`, s.dir, connections, b.dir, bouncerPort, b.dir), 0o600))
	if err != nil {
		tb.Fatal(err)
	}
	if s.owner != nil {
		for _, name := range []string{b.dir, config, filepath.Join(b.dir, "users")} {
			if err := os.Chown(name, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	cmd := exec.CommandContext(context.Background(), program, config)
	cmd.Dir, cmd.Env = b.dir, []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Pdeathsig: syscall.SIGKILL}
	r := &run{cmd: cmd, ended: make(chan struct{}), log: &bytes.Buffer{}}
	cmd.Stdout, cmd.Stderr = r.log, r.log
	started := make(chan error)
	go r.live(started)
	if err := <-started; err != nil {
		tb.Fatalf("pgtest: pgbouncer: %v", err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-r.ended
	})
	b.answer(tb, r)
	return b
}

// URL returns the address of a database behind the bouncer.
func (b *Bouncer) URL(database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s&port=%d", superuser, database, url.QueryEscape(b.dir), bouncerPort)
}

// answer waits until it takes connections.
func (b *Bouncer) answer(tb testing.TB, r *run) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, b.URL("postgres"))
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		select {
		case <-r.ended:
			tb.Fatalf("pgtest: pgbouncer ended at once:\n%s", r.log)
		case <-ctx.Done():
			tb.Fatalf("pgtest: pgbouncer does not answer: %v", err)
		case <-tick.C:
		}
	}
}
