package supervise

import (
	"testing"

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
