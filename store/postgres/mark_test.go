package postgres

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

var shopLane = laneName{job.DefaultQueue, shop}

// mails are first attempts of the shop's lane, due a second apart from a minute ago.
func mails(from, to int64) (jobs []job.Job) {
	for seq := from; seq < to; seq++ {
		due := time.Now().Add(-time.Minute + time.Duration(seq)*time.Second)
		jobs = append(jobs, job.Job{Seq: seq, New: job.New{Queue: job.DefaultQueue, Kind: "mail", Target: shop, DueAt: due}})
	}
	return jobs
}

// elapse lets time pass in a bubble.
func elapse(d time.Duration) { <-time.After(d) }

// alone says whether the shop's lane is marked.
func (m *marks) alone() bool {
	at := m.of(shopLane)
	return at.alone()
}

// marked counts the marks.
func (m *marks) marked() int {
	all, _ := m.in(job.DefaultQueue)
	return len(all)
}

// claimedTo moves the shop's mark to a job by a claim that found all.
func (m *marks) claimedTo(to int64) {
	m.move(shopLane, m.of(shopLane), mails(to-2, to+1), 3, false, time.Now())
}

func TestAMarkStaysAtTheEndOfABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := marks{every: time.Second}
		if m.move(shopLane, mark{}, mails(1, 3), 3, false, time.Now()); m.alone() {
			t.Error("a lane that nobody looked at is marked by a claim that took the rest of it")
		}
		m.claimedTo(10)
		m.move(shopLane, m.of(shopLane), mails(11, 13), 3, false, time.Now())
		if at := m.of(shopLane).at; at.seq != 12 {
			t.Errorf("after the last job the mark is at %v", at)
		}
		m.move(shopLane, m.of(shopLane), nil, 3, false, time.Now())
		if at := m.of(shopLane).at; at.seq != 12 {
			t.Errorf("after a claim that found nothing the mark is at %v", at)
		}
		// Short transactions commit in any order: their jobs are not passed.
		m.move(shopLane, m.of(shopLane), mails(60, 61), 3, false, time.Now())
		if at, want := m.of(shopLane).at.due, time.Now().Add(-behind); !at.Equal(want) {
			t.Errorf("where the last job was due now, the mark is at %v, want %v", at, want)
		}
	})
}

func TestAMarkThatWasEndedIsNotBroughtBack(t *testing.T) {
	for name, end := range map[string]func(m *marks){
		"by a look":      func(m *marks) { m.looked(nil, []laneName{shopLane}, 0, nil) },
		"by a discovery": func(m *marks) { m.discovered(mails(1, 30), nil, m.ends) },
		"with all":       func(m *marks) { m.clear() },
	} {
		t.Run(name, func(t *testing.T) {
			m := marks{every: time.Second}
			m.claimedTo(10)
			underWay := m.of(shopLane)
			if m.discovered(mails(11, 30), nil, m.ends); !m.alone() {
				t.Fatal("what a discovery took from after the mark ended it")
			}
			end(&m)
			if m.alone() {
				t.Fatal("the mark was not ended")
			}
			m.move(shopLane, underWay, mails(11, 14), 3, false, time.Now())
			if m.alone() {
				t.Error("a claim that was under way brought it back")
			}
			m.claimedTo(20)
			if m.of(shopLane).at.seq != 20 {
				t.Error("no claim marks the lane any more")
			}
		})
	}
}

// TestADiscoveryMarksWhatItLeft: who has discovered a lane goes on from there, and
// does not discover it again while it does.
func TestADiscoveryMarksWhatItLeft(t *testing.T) {
	left := []store.LaneName{{Queue: job.DefaultQueue, Target: shop}}
	mixed := mails(1, 4)
	mixed[1].Priority = 3
	for name, tc := range map[string]struct {
		jobs []job.Job
		left []store.LaneName
		end  func(m *marks) // while it is under way
		want int64          // 0 = there is no mark
	}{
		"with more in it":        {mails(1, 4), left, nil, 3},
		"nothing is left":        {mails(1, 4), nil, nil, 0},
		"of two priorities":      {mixed, left, nil, 0},
		"something was put back": {mails(1, 4), left, (*marks).clear, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := marks{every: time.Second}
			_, ends := m.in(job.DefaultQueue)
			if tc.end != nil {
				tc.end(&m)
			}
			m.discovered(tc.jobs, tc.left, ends)
			at := m.of(shopLane)
			if at.at.seq != tc.want || at.served() != (tc.want > 0) {
				t.Errorf("marked at %d, served %t; want %d", at.at.seq, at.served(), tc.want)
			}
		})
	}
}

func TestLooksBehindMarksAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := marks{every: time.Second}
		other := laneName{job.DefaultQueue, "other"}
		// look is the first one that is due, after so long; walks are the lanes that
		// are walked behind whatever their looks say.
		look := func(after time.Duration, looks, walks []laneName) map[laneName]glance {
			t.Helper()
			elapse(after - time.Millisecond)
			if _, due := m.behind(); due {
				t.Fatalf("a look is due before %s", after)
			}
			elapse(time.Millisecond)
			got, due := m.behind()
			var walked []laneName
			for name, g := range got {
				if g.anyway {
					walked = append(walked, name)
				}
			}
			slices.SortFunc(walked, func(a, b laneName) int { return strings.Compare(a.target, b.target) })
			if due != (len(looks) > 0) || len(got) != len(looks) || !slices.Equal(walked, walks) {
				t.Fatalf("after %s: looks behind %v: %t, want %v and walks behind %v", after, got, due, looks, walks)
			}
			return got
		}
		both := []laneName{shopLane, other}
		use := func() {
			m.claimedTo(10)
			m.move(other, m.of(other), mails(1, 4), 3, false, time.Now())
		}
		use()
		looks := look(time.Second, both, nil)
		if _, due := m.behind(); due {
			t.Fatal("two looks at once")
		}
		m.looked(looks, nil, 100*time.Millisecond, nil)
		use()
		m.move(shopLane, m.of(shopLane), mails(11, 14), 3, true, time.Now())
		if last := m.of(shopLane); last.alone() {
			t.Fatal("a lane of two parts is taken to have one")
		}
		looks = look(sweepShare*100*time.Millisecond, both, nil)
		m.looked(looks, nil, time.Millisecond, errors.New("cut off")) // it would have taken longer
		if last := m.of(shopLane); !last.alone() {
			t.Error("whether the lane has another part is never asked again")
		}
		// Nobody uses the other one: it is forgotten when somebody has walked behind it.
		looks = look(sweepShare*100*time.Millisecond, both, []laneName{other})
		if m.looked(looks, nil, 100*time.Millisecond, errors.New("cut off")); m.marked() != 2 {
			t.Fatal("a mark was forgotten although nobody walked behind it")
		}
		m.of(shopLane)
		looks = look(sweepShare*100*time.Millisecond, both, []laneName{other})
		if m.looked(looks, nil, time.Millisecond, nil); m.marked() != 1 {
			t.Fatalf("marks that nobody uses stay: %v", m.lanes)
		}
		// One that is used meanwhile stays.
		looks = look(time.Second, []laneName{shopLane}, []laneName{shopLane})
		m.claimedTo(20)
		if m.looked(looks, nil, time.Millisecond, nil); len(m.lanes) != 1 {
			t.Error("a mark in use was forgotten")
		}
	})
}

func TestAWalkBehindAllMarksIsTakenRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := marks{every: time.Second}
		began, walks := time.Now(), []time.Duration{}
		for m.claimedTo(10); time.Since(began) < time.Hour; m.of(shopLane) {
			elapse(time.Second)
			looks, due := m.behind()
			if !due {
				continue
			}
			took := time.Duration(0)
			if looks[shopLane].anyway {
				walks, took = append(walks, time.Since(began)), 30*time.Second
			}
			m.looked(looks, nil, took, nil)
		}
		if len(walks) < 5 || walks[0] < walkEvery || walks[0] > 2*walkEvery {
			t.Fatalf("walks at %v", walks)
		}
		for i := range len(walks) - 1 {
			if d := walks[i+1] - walks[i]; d < sweepShare*30*time.Second {
				t.Errorf("a walk of 30 s is taken again after %s", d)
			}
		}
	})
}
