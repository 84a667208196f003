package sqlite_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// TestALaneInUseIsNotDiscovered: a process that claims a lane by name, and gets all
// that it asks for, does not discover it as well. Another one may; and so may the
// first, once it has let the lane be, or has come to its end: then it claims no more
// by name, and what comes is found at once.
func TestALaneInUseIsNotDiscovered(t *testing.T) {
	for name, tc := range map[string]struct {
		jobs  int           // that wait when it is claimed by name
		other bool          // who discovers is not who claims
		rests time.Duration // since the claim by name
		want  int
	}{
		"by who claims it":              {jobs: 7, rests: 200 * time.Millisecond},
		"by another":                    {jobs: 7, other: true, rests: 200 * time.Millisecond, want: 2},
		"by who has not claimed lately": {jobs: 7, rests: store.LaneRest, want: 2},
		"by who has come to its end":    {jobs: 3, rests: 200 * time.Millisecond, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				var processes [2]int64
				for i := range processes {
					p, err := s.Register(t.Context(), time.Time{}, store.Process{Kinds: []string{"mail"}, Queues: []string{job.DefaultQueue}})
					if err != nil {
						t.Fatal(err)
					}
					processes[i] = p.ID
				}
				enqueue := func(n int) {
					t.Helper()
					if _, err := s.Enqueue(t.Context(), time.Time{}, mails(n)); err != nil {
						t.Fatal(err)
					}
				}
				enqueue(2 + tc.jobs)
				claim := func(process int64, c store.LaneClaim) int {
					t.Helper()
					c.Queue, c.Kinds, c.Firsts, c.Retries, c.Limit = job.DefaultQueue, []string{"mail"}, 2, 2, 2
					answer, err := s.Turn(t.Context(), store.Turn{Process: process, Lanes: []store.LaneClaim{c}})
					if err != nil {
						t.Fatal(err)
					}
					return len(answer.Claimed)
				}
				discovery := store.LaneClaim{Lanes: 9}
				if got := claim(processes[0], discovery); got != 2 {
					t.Fatalf("the first discovery found %d", got)
				}
				<-time.After(store.LaneRest - 100*time.Millisecond)
				if got := claim(processes[0], store.LaneClaim{Target: "shop"}); got != 2 {
					t.Fatalf("the claim by name got %d", got)
				}
				if tc.jobs == 3 {
					claim(processes[0], store.LaneClaim{Target: "shop"})
					enqueue(2)
				}
				<-time.After(tc.rests) // the lane's look has come
				who := processes[0]
				if tc.other {
					who = processes[1]
				}
				if got := claim(who, discovery); got != tc.want {
					t.Errorf("discovered %d, want %d", got, tc.want)
				}
			})
		})
	}
}

// mails are so many jobs for the shop.
func mails(n int) []job.New {
	jobs := make([]job.New, n)
	for i := range jobs {
		jobs[i] = job.New{Kind: "mail", Target: "shop", Args: []byte("{}")}
	}
	return jobs
}
