package dispatch_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/dispatch"
)

// A process of 20 slots, 4 calls at once to each of 50 endpoints: how long
// events to healthy ones take while others hang.
type captureCase struct {
	bad      int
	takes    time.Duration // a call to a bad endpoint
	badFrom  time.Duration // they are healthy before
	share    float64
	measured time.Duration
}

// flight is a call that will end.
type flight struct {
	endAt time.Duration
	item  dispatch.Item
}

type flights []flight

func (f flights) Len() int           { return len(f) }
func (f flights) Less(i, j int) bool { return f[i].endAt < f[j].endAt }
func (f flights) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)        { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// healthy is how long a call to a healthy endpoint takes.
const healthy = 40 * time.Millisecond

// play returns how long the healthy ones' events took, sorted.
func (c captureCase) play(seed uint64) []time.Duration {
	const endpoints, perTarget = 50, 4
	random := rand.New(rand.NewPCG(seed, 1))
	f := dispatch.New(20, born)
	f.SetPolicy("p", dispatch.Limits{Concurrency: 20, SlowShare: c.share})
	type event struct {
		at time.Duration
		to int
	}
	var events []event
	end := 3 * time.Minute
	for to := range endpoints {
		rate := 0.2 // events a second to a bad endpoint
		if to >= c.bad {
			rate = 10 / float64(endpoints-c.bad)
		}
		for at := random.ExpFloat64() / rate; at < end.Seconds(); at += random.ExpFloat64() / rate {
			events = append(events, event{time.Duration(at * float64(time.Second)), to})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.at - b.at) })
	var under flights
	var waits []time.Duration
	running := map[string]int{}
	admit := func(i dispatch.Item) dispatch.Answer { return dispatch.Answer{Admit: running[i.Target] < perTarget} }
	bad := func(i dispatch.Item) bool { return i.Priority == 1 }
	for n := 0; n < len(events) || len(under) > 0; {
		var now time.Duration
		if len(under) > 0 && (n == len(events) || under[0].endAt <= events[n].at) {
			over := heap.Pop(&under).(flight)
			now = over.endAt
			running[over.item.Target]--
			f.Ended(over.item.Place(), born.Add(now))
			f.Wake(over.item.Target)
		} else {
			e := events[n]
			now = e.at
			i := dispatch.Item{ID: int64(n + 1), Target: fmt.Sprint(e.to), Policy: "p", DueAt: born.Add(e.at)}
			if e.to < c.bad {
				i.Priority = 1
			}
			f.Add(i)
			n++
		}
		for {
			i, ok := f.Next(born.Add(now), admit)
			if !ok {
				break
			}
			running[i.Target]++
			takes := healthy
			if bad(i) && now >= c.badFrom {
				takes = c.takes
			}
			heap.Push(&under, flight{now + takes, i})
			if since := i.DueAt.Sub(born); !bad(i) && since >= c.badFrom && since < c.badFrom+c.measured {
				waits = append(waits, now+takes-since)
			}
		}
	}
	slices.Sort(waits)
	return waits
}

func p95(sorted []time.Duration) time.Duration { return sorted[len(sorted)*95/100] }

// Healthy endpoints are served beside any number that hang, from the first
// moment on, whether those fail at last or answer.
func TestSlotsCannotBeCaptured(t *testing.T) {
	for _, bad := range []int{1, 5, 15, 45} {
		for _, from := range []time.Duration{0, 30 * time.Second} {
			for _, takes := range []time.Duration{30 * time.Second, 29 * time.Second, 1500 * time.Millisecond} {
				t.Run(fmt.Sprintf("%d of 50 take %s from %s on", bad, takes, from), func(t *testing.T) {
					c := captureCase{bad: bad, takes: takes, badFrom: from, share: 0.5, measured: 90 * time.Second}
					alone := captureCase{badFrom: from, share: 0.5, measured: 90 * time.Second}
					var beside, quiet []time.Duration
					for seed := range uint64(5) {
						beside = append(beside, c.play(seed)...)
						quiet = append(quiet, alone.play(seed)...)
					}
					slices.Sort(beside)
					slices.Sort(quiet)
					if got, most := p95(beside), 2*p95(quiet)+100*time.Millisecond; got > most {
						t.Errorf("p95 is %s, at most %s", got, most)
					}
				})
			}
		}
	}
}

// Without a share the same endpoints stand still: the test above can fail.
func TestSlotsAreCapturedWithoutAShare(t *testing.T) {
	c := captureCase{bad: 5, takes: 30 * time.Second, measured: 90 * time.Second}
	if got := p95(c.play(1)); got < 5*time.Second {
		t.Errorf("p95 is %s; the case does not capture the slots", got)
	}
}

func TestSlowTargetsHoldTheirShareOnly(t *testing.T) {
	f := newFloor(t, 10)
	f.SetPolicy("p", dispatch.Limits{Concurrency: 10, SlowShare: 0.5})
	f.first("slow", 1, 2, 3)
	f.starts(always, 1, 2, 3)
	f.at(time.Second).first("slow", 4, 5, 6, 7)
	f.starts(always, 4, 5) // five of ten
	f.first("other", 11, 12)
	f.starts(always, 11) // it has to answer first
	f.at(1200*time.Millisecond).starts(always, 12)
	if held, most := f.Slow("p", f.now); held != 5 || most != 5 {
		t.Errorf("%d of %d, want 5 of 5", held, most)
	}
	f.at(1250*time.Millisecond).Ended(dispatch.Place{ID: 11, Policy: "p"}, f.now)
	f.Ended(dispatch.Place{ID: 12, Policy: "p"}, f.now)
	f.starts(always)
	f.Ended(dispatch.Place{ID: 4, Policy: "p"}, f.now) // it answered at once, but others still hang
	f.starts(always, 6)
	for _, id := range []int64{1, 2, 3, 5, 6} {
		f.Ended(dispatch.Place{ID: id, Policy: "p"}, f.now)
	}
	f.starts(always, 7)
}

func TestAProbeIsFreshAndFarFromWhatFailed(t *testing.T) {
	for name, c := range map[string]struct {
		fresh, want int64
	}{"few": {5, 5}, "many": {500, dispatch.ProbeReach}} {
		t.Run(name, func(t *testing.T) {
			f := newFloor(t, 1)
			f.SetProbing(func(target string) bool { return target == "a" })
			f.Add(dispatch.Item{ID: 1000, Target: "a", Policy: "p", Retry: true, Repeat: true, DueAt: born.Add(-time.Hour)})
			f.Add(dispatch.Item{ID: 1001, Target: "a", Policy: "p", Repeat: true, DueAt: born.Add(-time.Hour)})
			for id := range c.fresh {
				f.first("a", id+1)
			}
			f.starts(always, c.want)
		})
	}
}

func TestAProbeThatFailedBeforeIsBetterThanNone(t *testing.T) {
	f := newFloor(t, 1)
	f.SetProbing(func(string) bool { return true })
	f.again("a", 1, 2)
	f.starts(always, 1)
}
