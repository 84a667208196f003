package crashtest_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
)

// sleepy is a fleet whose members are stopped for longer than their lease.
var sleepy = crashtest.Config{Lease: time.Second, Beat: 200 * time.Millisecond, Concurrency: 4, Drain: time.Minute, Grace: 5 * time.Second}

// A worker is stopped with running handlers until another has taken over, and
// then wakes up: whatever it writes under its old leases is refused, in its
// old name and in its new one, and it takes part again.
func TestStoppedPastTheLease(t *testing.T) {
	onBoth(t, sleepy, func(s *stage) {
		cycles := size().stops
		workers := s.workers(2)
		began := time.Now()
		held, locked, idle := 0, 0, 0
		for done := 0; done < cycles; {
			victim, other := workers[0], workers[1]
			if s.rng.IntN(2) == 1 {
				victim, other = other, victim
			}
			switch n, hit := s.cycle(victim, other); hit {
			case aHandler:
				done++
				held += n
			case theLock:
				locked++
			case nothing:
				idle++
			}
			if idle+locked > 3*cycles {
				s.Fatalf("%d stops hit no running handler, %d hit the write lock", idle, locked)
			}
		}
		report := s.finish()
		if report.Lost < cycles {
			s.Errorf("%d processes found out that they were taken for dead, want %d", report.Lost, cycles)
		}
		// Each lease: five kinds of writes in two names; then one heartbeat.
		if want := 10*held + cycles; report.Refused < want {
			s.Errorf("%d late writes were refused, want %d or more", report.Refused, want)
		}
		if report.Crashes < held {
			s.Errorf("%d crash rows of %d leases that were lost", report.Crashes, held)
		}
		s.noErrors(slow) // a call may have been under way when its process was stopped
		s.Logf("%d cycles with %d leases lost; beside them %d stops hit the write lock and %d nothing; took %s", cycles, held, locked, idle, time.Since(began).Round(time.Millisecond))
	})
}

// hit is what a stop met in its victim.
type hit int

const (
	nothing  hit = iota
	aHandler     // one that was running
	// theLock is a transaction of SQLite: the victim holds the file's write
	// lock, and nobody can reap anybody until it goes on.
	theLock
)

// cycle stops the victim until the other has reaped it. It returns how many
// leases were lost.
func (s *stage) cycle(victim, other *crashtest.Life) (int, hit) {
	s.Helper()
	seqs := s.enqueue(s.orders(2*sleepy.Concurrency, crashtest.Order{Kind: crashtest.Nap, Millis: 300}))
	s.until("the victim runs something, or nothing is left for it", func() bool {
		return len(victim.Running()) > 0 || other.Ran(seqs)
	})
	s.moment(time.Duration(s.rng.IntN(100)) * time.Millisecond)
	s.must(s.fleet.Signal(victim, syscall.SIGSTOP))
	s.must(s.fleet.Read())
	process, running := victim.Process(), len(victim.Running())
	if running == 0 || process == 0 {
		s.must(s.fleet.Signal(victim, syscall.SIGCONT))
		return 0, nothing
	}
	reaped, locked, stopped := other.Count(crashtest.Reaped), false, crashtest.Mono()
	s.until("the victim is reaped", func() bool {
		locked = crashtest.Mono()-stopped > 5*sleepy.Lease
		return other.Count(crashtest.Reaped) > reaped || locked
	})
	late := victim.Count(crashtest.Late)
	s.must(s.fleet.Signal(victim, syscall.SIGCONT))
	if locked {
		return 0, theLock
	}
	s.until("the victim has tried its late writes and takes part again", func() bool {
		return victim.Count(crashtest.Late) > late && victim.Process() != 0
	})
	return running, aHandler
}
