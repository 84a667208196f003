package worker

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// TestIsGone: a process is gone if a kernel that can know says so, and in no
// other case.
func TestIsGone(t *testing.T) {
	own := identity{"here", 7, 900}
	other := identity{"here", 42, 500}
	for name, c := range map[string]struct {
		own, other identity
		seen       sighting
		want       bool
	}{
		"nobody has the pid":                {own, other, sighting{presence: absent}, true},
		"it runs":                           {own, other, sighting{presence: present, start: 500}, false},
		"it is a zombie":                    {own, other, sighting{presence: present, start: 500, ended: true}, true},
		"another has the pid, begun later":  {own, other, sighting{presence: present, start: 501}, true},
		"another has the pid, a zombie too": {own, other, sighting{presence: present, start: 501, ended: true}, true},
		"the kernel does not say":           {own, other, sighting{}, false},
		"the kernel says a little":          {own, other, sighting{start: 501, ended: true}, false},
		"we have its pid":                   {own, identity{"here", 7, 500}, sighting{presence: present, start: 900}, true},
		"it is ourselves":                   {own, own, sighting{presence: present, start: 900}, false},
		"another place, nobody has the pid": {own, identity{"there", 42, 500}, sighting{presence: absent}, false},
		"another place, another has it":     {own, identity{"there", 42, 500}, sighting{presence: present, start: 501}, false},
		"no place":                          {own, identity{"", 42, 500}, sighting{presence: absent}, false},
		"we do not know ours":               {identity{pid: 7, start: 900}, other, sighting{presence: absent}, false},
		"nobody knows a place":              {identity{pid: 7}, identity{pid: 42}, sighting{presence: absent}, false},
	} {
		look := func(pid int) sighting {
			if pid != c.other.pid {
				t.Errorf("%s: asked for pid %d, want %d", name, pid, c.other.pid)
			}
			return c.seen
		}
		if got := c.other.isGone(c.own, look); got != c.want {
			t.Errorf("%s: gone = %t, want %t", name, got, c.want)
		}
	}
}

// TestIdentityText: what the store keeps says the same when it is read.
func TestIdentityText(t *testing.T) {
	for _, i := range []identity{{"0f3a", 42, 0}, {"0f3a", 1, 1<<64 - 1}} {
		if got := identityOf(&store.Process{PID: i.pid, Identity: i.text()}); got != i {
			t.Errorf("%q is read as %+v, want %+v", i.text(), got, i)
		}
	}
	if text := (identity{pid: 42, start: 7}).text(); text != "" {
		t.Errorf("without a place it is %q, want nothing", text)
	}
	for _, p := range []store.Process{
		{PID: 42},
		{PID: 42, Identity: "0f3a"},
		{PID: 42, Identity: "0f3a/"},
		{PID: 42, Identity: "0f3a/-7"},
		{PID: 42, Identity: "0f3a/7/8"},
		{PID: 42, Identity: "0f3a/soon"},
		{Identity: "0f3a/7"},
		{PID: -1, Identity: "0f3a/7"},
	} {
		if got := identityOf(&p); got != (identity{}) {
			t.Errorf("pid %d and %q are read as %+v, want nothing", p.PID, p.Identity, got)
		}
	}
}

// runsAs makes the rig's worker the process own; has is who has its pid now.
func (r *rig) runsAs(own identity, has sighting) {
	r.self = own
	r.sight = func(int) sighting { return has }
}

// TestReapOfTheSameHost: a process that starts takes back at once what a
// process that its host knows to be gone held. Of all others it waits for the
// lease.
func TestReapOfTheSameHost(t *testing.T) {
	const lease = 20 * time.Second
	dead, own := identity{"here", os.Getpid(), 500}, identity{"here", os.Getpid(), 900}
	alive := sighting{presence: present, start: own.start}
	for name, c := range map[string]struct {
		dead  identity
		crash Config
		has   sighting
		want  time.Duration
	}{
		"gone":                    {dead, Config{}, alive, 0},
		"gone and not waited for": {dead, Config{}, sighting{presence: present, start: dead.start, ended: true}, 0},
		"it hangs":                {dead, Config{}, sighting{presence: present, start: dead.start}, lease},
		"not known":               {dead, Config{}, sighting{}, lease},
		"on another host":         {identity{"there", os.Getpid(), 500}, Config{}, alive, lease},
		"of an older version":     {identity{}, Config{}, alive, lease},
		"detached":                {dead, Config{Detached: true}, alive, lease},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				seqs := enqueue(t, s, job.New{Kind: "k"}, job.New{Kind: "k", Policy: "processing"})
				crashAs(t, s, c.crash, c.dead)
				start := time.Now()
				r := buildRig(t, s, Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }}})
				r.runsAs(own, c.has)
				r.run()
				defer r.stop()
				pass(lease + time.Second)
				if got := r.seen(Started); len(got) != 1 || got[0].At.Sub(start) != c.want {
					t.Fatalf("starts %v, want one after %s", got, c.want)
				}
				if n := r.seen(Reaped); len(n) != 1 || n[0].Count != 2 {
					t.Errorf("reaped %+v, want one process with 2 leases", n)
				}
				for i, want := range []retry.Counted{retry.CountedFree, retry.CountedAttempt} {
					if a := ledger(t, s, seqs[i])[0]; a.Class != failure.Crash || a.Counted != want {
						t.Errorf("job %d: ledger %+v, want a crash that counts as %s", seqs[i], a, want)
					}
				}
			})
		})
	}
}

// TestReapOfANeighbourThatDies: a process that runs finds out with its next
// look. What had not begun goes back without a crash.
func TestReapOfANeighbourThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seqs := enqueue(t, s, job.New{Kind: "k"}, job.New{Kind: "k"})
		dead, own := identity{"here", os.Getpid(), 500}, identity{"here", os.Getpid(), 900}
		c := Config{Lease: 10 * time.Minute, Beat: 5 * time.Second}
		for range 2 { // from the third start on they run one at a time
			crashAs(t, s, c, dead)
			r := buildRig(t, s, c)
			r.runsAs(own, sighting{presence: absent})
			r.run()
			pass(time.Second)
			r.stop()
		}
		var died atomic.Bool
		watcher := buildRig(t, s, c)
		watcher.runsAs(own, sighting{})
		watcher.sight = func(int) sighting {
			if died.Load() {
				return sighting{presence: absent}
			}
			return sighting{presence: present, start: dead.start}
		}
		watcher.run()
		defer watcher.stop()
		crashAs(t, s, c, dead)
		pass(5 * time.Second)
		if early := watcher.seen(Reaped); len(early) != 0 {
			t.Fatalf("%d were reaped while the kernel says that they run", len(early))
		}
		died.Store(true)
		pass(5 * time.Second)
		if got := watcher.seen(Reaped); len(got) != 1 || got[0].Count != 2 {
			t.Fatalf("reaped %+v, want one process with 2 leases within a heartbeat", got)
		}
		crashes := map[int]int{}
		for _, seq := range seqs {
			crashes[state(t, s, seq, job.Queued, "").History.Crashes]++
		}
		if crashes[2] != 1 || crashes[3] != 1 {
			t.Errorf("crashes %v, want one job with 3 and the one that had not begun with 2", crashes)
		}
	})
}
