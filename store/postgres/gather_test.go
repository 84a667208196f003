package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// addOneByOne enqueues n jobs for each of the targets, each by itself, so that
// each brings a look.
func (l *looker) addOneByOne(n int, targets ...string) (seqs []int64) {
	l.t.Helper()
	for range n {
		for _, target := range targets {
			seqs = append(seqs, l.add(job.New{Kind: "mail", Target: target})...)
		}
	}
	return seqs
}

// look is a row of ebb_look.
type look struct {
	row    string // which one it is
	target string
	kind   string
	at     time.Time
}

func (l *looker) looks() []look {
	l.t.Helper()
	rows, err := l.pool.Query(l.t.Context(), "SELECT ctid::text, target, kind, look_at FROM ebb_look ORDER BY target, kind, retrying, priority")
	if err != nil {
		l.t.Fatal(err)
	}
	looks, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (k look, err error) {
		return k, r.Scan(&k.row, &k.target, &k.kind, &k.at)
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return looks
}

// discoverMails is a turn that discovers so much mail.
func discoverMails(process int64, limit int) store.Turn {
	return store.Turn{Process: process, Lanes: []store.LaneClaim{{
		Queue: job.DefaultQueue, Kinds: []string{"mail"}, Lanes: limit, Firsts: limit, Retries: limit, Limit: limit,
	}}}
}

func (l *looker) discoverMail(limit int) []int64 {
	l.t.Helper()
	answer, err := l.Turn(l.t.Context(), discoverMails(l.process, limit))
	if err != nil {
		l.t.Fatal(err)
	}
	return numbersOf(answer.Claimed)
}

// TestLooksAreGathered: whatever a part has of them becomes one that is new and
// as early as the first of them; a look that is alone, or in somebody's hands,
// stays as it is.
func TestLooksAreGathered(t *testing.T) {
	for _, atOnce := range []int{2, 5, 100} {
		t.Run(fmt.Sprint(atOnce), func(t *testing.T) {
			l := newLooker(t, time.Hour)
			l.addOneByOne(6, "a", "c")
			l.add(job.New{Kind: "mail", Target: "b"}, job.New{Kind: "call", Target: "c"})
			before := l.looks()
			tx, err := l.connect().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			locked := before[2].row
			if _, err := tx.Exec(t.Context(), "SELECT FROM ebb_look WHERE ctid = $1::text::tid FOR UPDATE", locked); err != nil {
				t.Fatal(err)
			}
			rounds := 0
			for at := (lanePart{}); ; rounds++ {
				read, err := l.gather(t.Context(), &at, atOnce)
				if err != nil {
					t.Fatal(err)
				}
				if read < atOnce {
					break
				}
				if rounds > 100 {
					t.Fatal("it does not come to an end")
				}
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := l.looks()
			var left []string
			for _, k := range after {
				left = append(left, k.target+" "+k.kind)
			}
			if want := []string{"a mail", "a mail", "b mail", "c call", "c mail"}; !slices.Equal(left, want) {
				t.Fatalf("left are looks of %v, want %v", left, want)
			}
			was := func(k look) bool { return slices.ContainsFunc(before, func(b look) bool { return b.row == k.row }) }
			for i, old := range []bool{false, false, true, true, false} {
				if k := after[i]; was(k) != (old || k.row == locked) {
					t.Errorf("the look of %s %s is an old one: %t", k.target, k.kind, was(k))
				}
			}
			first := before[len(before)-6].at // of c's mail, in the order in which they came
			if last := after[4]; !last.at.Equal(first) {
				t.Errorf("c's look is at %s, the first of them was at %s", last.at, first)
			}
		})
	}
}

// TestACrowdOfLooksHidesNoJob: where there are more looks than a discovery
// takes, every lane is found by the first one, the looks are gathered beside it,
// every job is found, and in the end each lane has one look at most: for what may
// stand before its mark.
func TestACrowdOfLooksHidesNoJob(t *testing.T) {
	l := newLooker(t, time.Hour)
	l.gathers.most = 1 // its least share is what each lane has of it
	want := l.addOneByOne(20, "a", "b", "c")
	wakes, err := l.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := l.discoverMail(6)
	if slices.Sort(got); !slices.Equal(got, want[:6]) {
		t.Fatalf("the first discovery found %v, want two of each lane, %v", got, want[:6])
	}
	if !l.gathers.under.Load() && len(l.looks()) > 9 {
		t.Error("nobody gathers the looks")
	}
	for len(got) < len(want) {
		if l.gathers.under.Load() {
			<-wakes // as a worker waits
		}
		got = append(got, l.discoverMail(100)...)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("discovered %v, want %v", got, want)
	}
	if looks := l.looks(); len(looks) > 3 {
		t.Errorf("in the end there are looks %v", looks)
	}
	l.wantCounts(0, int64(len(want)))
}

// TestLooksOfTheFutureDoNotHideALane: a lane whose first looks are all of later
// work is served all the same.
func TestLooksOfTheFutureDoNotHideALane(t *testing.T) {
	l := newLooker(t, time.Hour)
	l.gathers.most = 5
	for range 8 { // priority 0 stands first
		l.add(job.New{Kind: "mail", DueAt: time.Now().Add(time.Hour)})
	}
	want := l.add(job.New{Kind: "mail", Priority: 1})
	wakes, err := l.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := l.discoverMail(100)
	for len(got) == 0 {
		<-wakes
		got = l.discoverMail(100)
	}
	if !slices.Equal(got, want) {
		t.Errorf("discovered %v, want %v", got, want)
	}
}
