package supervise

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
)

func TestRunThatFailsTwiceSucceeds(t *testing.T) {
	k := newKit(t)
	r := k.do(k.shell(`echo page; echo {attempt} >> seen; test $(wc -l < seen) -ge 3`))
	if r.State != job.Succeeded || r.RestartsUsed != 2 || r.Attempt != 3 || len(r.Restarts) != 2 {
		t.Fatalf("%+v", r)
	}
	if got := k.file("seen"); got != "0001\n0002\n0003\n" {
		t.Errorf("attempts %q", got)
	}
	if n := k.count(Launched); n != 3 {
		t.Errorf("%d launches", n)
	}
}

func TestUnknownOptionParksWithoutARestart(t *testing.T) {
	k := newKit(t)
	r := k.do(k.shell(`echo "crawler: error: unrecognized arguments: --pageLimit" >&2; exit 2`))
	if r.State != job.Parked || r.RestartsUsed != 0 || r.Reason != ReasonConfig || k.count(Launched) != 1 {
		t.Fatalf("%+v", r)
	}
}

// The next start may come before the wrapper of the last attempt has let go of
// the lock: that attempt has ended and was judged, and is not judged again.
func TestWrapperThatLetsGoLateIsNotJudgedTwice(t *testing.T) {
	k := newKit(t)
	l := &life{Service: k.service, name: "crawl", spec: Spec{Dir: k.dir}}
	at, err := prepare(k.dir, launch{Attempt: 1, Argv: []string{"true"}, Cwd: k.dir})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := tryLock(at.lock)
	if err != nil || lock == nil {
		t.Fatal(err)
	}
	if err := writeAt(lock, attemptName(1)); err != nil {
		t.Fatal(err)
	}
	if live, err := l.living(t.Context()); err != nil || live == nil || live.launch.Attempt != 1 {
		t.Fatalf("one that runs: %+v %v", live, err)
	}
	if err := save(filepath.Join(at.dir, exitFile), ended{Code: 1}); err != nil {
		t.Fatal(err)
	}
	if live, err := l.living(t.Context()); live != nil || failure.Classify(err).Reason != "locked" {
		t.Fatalf("one that never lets go: %+v %v", live, err)
	}
	found := make(chan *attempt)
	go func() {
		live, err := l.living(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Error(err)
		}
		found <- live
	}()
	closeFile(lock)
	if live := <-found; live != nil {
		t.Errorf("one that let go: %+v", live)
	}
}
