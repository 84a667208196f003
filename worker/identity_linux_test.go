package worker

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// TestSightOfAChild: what this kernel says of a process from its start until
// nobody has its pid.
func TestSightOfAChild(t *testing.T) {
	own := ownIdentity()
	if own.place == "" || own.pid != os.Getpid() || own.start == 0 {
		t.Fatalf("own identity %+v, want a place, pid %d and a start", own, os.Getpid())
	}
	if own.isGone(own, sight) {
		t.Fatal("this process takes itself for gone")
	}
	before := identity{own.place, own.pid, own.start - 1}
	if !before.isGone(own, sight) {
		t.Error("the process that had our pid before is not gone")
	}

	cmd := exec.CommandContext(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := sight(cmd.Process.Pid)
	child := identity{own.place, cmd.Process.Pid, seen.start}
	if seen.presence != present || seen.start < own.start || child.isGone(own, sight) {
		t.Errorf("a child that runs is seen as %+v", seen)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Its end of the pipe closes before it has ended altogether.
	if _, err := bufio.NewReader(out).ReadByte(); err == nil {
		t.Fatal("the child wrote something")
	}
	for !sight(child.pid).ended {
		if sight(child.pid).presence != present {
			t.Fatal("its parent has not waited for it, but nobody has its pid")
		}
	}
	if !child.isGone(own, sight) {
		t.Error("a zombie is not gone")
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("a killed process ended well")
	}
	_ = in.Close() // of a process that is gone
	if seen := sight(child.pid); seen.presence == present && seen.start == child.start || !child.isGone(own, sight) {
		t.Errorf("a process that has ended is seen as %+v", seen)
	}
}

// TestProcOfAnotherNamespace: pids of such a /proc are others'.
func TestProcOfAnotherNamespace(t *testing.T) {
	if err := ownProc(os.Getpid()); err != nil {
		t.Errorf("our own /proc: %v", err)
	}
	if err := ownProc(os.Getpid() + 1); err == nil {
		t.Error("a /proc that has another pid for us was believed")
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 1 4242 4242 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 "
	for text, want := range map[string]struct {
		stat
		ended bool
	}{
		"42 (ebb) S" + rest + "9 0 123456 1 2":      {stat{'S', 9, 123456}, false},
		"42 (a) Z 1 (b)) R" + rest + "1 0 7 1 2":    {stat{'R', 1, 7}, false},
		"42 (ebb) Z" + rest + "1 0 123456 0 0":      {stat{'Z', 1, 123456}, true},
		"42 (ebb) X" + rest + "0 0 123456 0 0":      {stat{'X', 0, 123456}, true},
		"42 (ebb) Z" + rest + "3 0 123456 0 0":      {stat{'Z', 3, 123456}, false}, // another thread goes on
		"42 (ebb) D" + rest + "1 0 123456 18446744": {stat{'D', 1, 123456}, false},
	} {
		got, err := parseStat([]byte(text))
		if err != nil || got != want.stat || got.ended() != want.ended {
			t.Errorf("%q: %+v, ended %t, %v; want %+v", text, got, got.ended(), err, want)
		}
	}
	for _, text := range []string{"", "42 ebb S", "42 (ebb) S" + rest, "42 (ebb) S" + rest + "x 0 1", "42 (ebb) S" + rest + "1 0 -5"} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
