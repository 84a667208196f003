package crashtest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Case is everything that is known when the workers have stopped.
type Case struct {
	Acked map[int64]Order  // enqueues that the store acknowledged
	Maybe map[string]Order // enqueues whose answer was lost, by name
	Lives []*Life
	Lease time.Duration
	Account
}

// Report counts what a case shows.
type Report struct {
	Jobs   int
	Lives  int
	Kills  int
	Starts int // handlers that began
	Cut    int // handlers that a kill ended
	// Crashes are ledger rows of leases whose process died; Silent are those
	// of them whose handler had not come to write its evidence.
	Crashes, Silent int
	// Duplicates are handlers that finished and were started again because
	// their result had not been acknowledged.
	Duplicates int
	Lost       int // processes taken for dead that found out
	Refused    int // writes that came after the lease was lost, all refused
	Overlaps   int // starts beside a handler of a process taken for dead
	Erred      int // calls of the store that failed
	// SlowestBeat is the longest that the store took for a heartbeat.
	SlowestBeat time.Duration
}

func (r Report) String() string {
	return fmt.Sprintf("%d jobs, %d starts in %d processes; %d kills cut %d handlers; %d crash rows, %d of them before the handler's first act; "+
		"%d finished handlers run again, their results unacknowledged; %d processes taken for dead found out, %d late writes refused, "+
		"%d overlaps with a handler of such a process; %d failed calls of the store; slowest heartbeat %s",
		r.Jobs, r.Starts, r.Lives, r.Kills, r.Cut, r.Crashes, r.Silent, r.Duplicates, r.Lost, r.Refused, r.Overlaps, r.Erred,
		r.SlowestBeat.Round(time.Millisecond))
}

// run is one start as the evidence shows it.
type run struct {
	Event        // Started
	end   *Event // nil = it never came to its end
	acked *Event // the store acknowledged its outcome
	until time.Duration
}

type judge struct {
	in     Case
	out    Report
	broken []string

	orders  map[int64]Order
	runs    map[int64][]*run // by job, in the order of epochs
	byRef   map[store.Ref]*run
	dead    map[int64]bool // processes that were killed or taken for dead
	lost    map[int64]bool // those that were taken for dead, perhaps alive
	holders map[store.Ref]int64
}

// Judge compares what was acknowledged, what the evidence shows and what the
// store says. It returns one line for each broken promise, sorted.
func Judge(c Case) (Report, []string) {
	j := intake(c)
	j.lives()
	j.reaps()
	j.enqueues()
	for seq, order := range j.orders {
		if kept, ok := c.Jobs[seq]; ok {
			j.job(order, &kept)
		}
	}
	j.counts()
	slices.Sort(j.broken)
	return j.out, slices.Compact(j.broken)
}

// intake reads the evidence of all processes.
func intake(c Case) *judge {
	j := &judge{
		in: c, orders: maps.Clone(c.Acked), runs: map[int64][]*run{}, byRef: map[store.Ref]*run{},
		dead: map[int64]bool{}, lost: map[int64]bool{}, holders: map[store.Ref]int64{},
	}
	if j.orders == nil {
		j.orders = map[int64]Order{}
	}
	for _, l := range c.Lives {
		j.life(l)
	}
	return j
}

func (j *judge) say(seq int64, format string, args ...any) {
	j.broken = append(j.broken, fmt.Sprintf("job %d: ", seq)+fmt.Sprintf(format, args...))
}

// life takes in the evidence of one process.
func (j *judge) life(l *Life) {
	j.out.Lives++
	if l.Killed {
		j.out.Kills++
	}
	for i := range l.Events {
		e := &l.Events[i]
		switch e.What {
		case Registered:
			if l.Killed {
				j.dead[e.Process] = true
			}
		case Lost:
			j.out.Lost++
			fallthrough
		case Reaped:
			j.dead[e.Process] = true
			j.lost[e.Process] = true
		case Claimed:
			if holder, held := j.holders[e.Ref]; held && holder != e.Process {
				j.say(e.Seq, "epoch %d was given to process %d and to process %d", e.Epoch, holder, e.Process)
			}
			j.holders[e.Ref] = e.Process
		case Refused:
			j.out.Refused++
		case Accepted:
			j.say(e.Seq, "%s of process %d under epoch %d was accepted after the lease was lost", e.Text, e.Process, e.Epoch)
		case Erred:
			j.out.Erred++
		}
	}
	j.starts(l)
}

// starts takes in what the handlers of one process did.
func (j *judge) starts(l *Life) {
	for i := range l.Events {
		e := &l.Events[i]
		r := j.byRef[e.Ref]
		switch {
		case e.What == Started && r != nil:
			j.say(e.Seq, "two starts under epoch %d, by processes %d and %d", e.Epoch, r.Process, e.Process)
		case e.What == Started:
			r = &run{Event: *e, until: l.EndedAt}
			if l.EndedAt == 0 {
				r.until = math.MaxInt64
			}
			j.byRef[e.Ref] = r
			j.runs[e.Seq] = append(j.runs[e.Seq], r)
		case r == nil || r.Process != e.Process:
		case e.What == Ended:
			r.end, r.until = e, e.Mono
		case e.What == Settled:
			r.acked = e
		}
	}
}

// lives sorts what was gathered from all processes.
func (j *judge) lives() {
	for _, runs := range j.runs {
		slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.Epoch, b.Epoch) })
		j.out.Starts += len(runs)
		for _, r := range runs {
			if r.end == nil {
				j.out.Cut++
				if !j.dead[r.Process] {
					j.say(r.Seq, "the handler of epoch %d neither ended nor did its process %d", r.Epoch, r.Process)
				}
			}
		}
	}
}

// reaps: nobody is taken for dead sooner than the lease after a heartbeat that
// the store took, unless it was killed before.
func (j *judge) reaps() {
	beats, ends := map[int64]time.Duration{}, map[int64]time.Duration{}
	for _, l := range j.in.Lives {
		for _, e := range l.Events {
			if end, killed := l.killedAt(); killed && e.What == Registered {
				ends[e.Process] = end
			}
			if e.What == Beat {
				asked, err := strconv.ParseInt(e.Text, 10, 64)
				if err != nil {
					j.broken = append(j.broken, fmt.Sprintf("process %d: beat: %v", e.Process, err))
				}
				beats[e.Process] = max(beats[e.Process], time.Duration(asked))
				if !j.lost[e.Process] { // of others the store need not be the cause
					j.out.SlowestBeat = max(j.out.SlowestBeat, e.Mono-time.Duration(asked))
				}
			}
		}
	}
	for _, l := range j.in.Lives {
		for _, e := range l.Events {
			if end, killed := ends[e.Process]; killed && end <= e.Mono {
				continue
			}
			if last := beats[e.Process]; e.What == Reaped && last > 0 && e.Mono-last < j.in.Lease {
				j.broken = append(j.broken, fmt.Sprintf("process %d was taken for dead %s after its last heartbeat, the lease is %s", e.Process, e.Mono-last, j.in.Lease))
			}
		}
	}
}

// enqueues: nothing acknowledged is lost, and nothing runs or is kept that was
// not asked for.
func (j *judge) enqueues() {
	names := map[string]int64{}
	for seq, kept := range j.in.Jobs {
		order, err := parseOrder(kept.Args)
		if err != nil {
			j.say(seq, "%v", err)
			continue
		}
		if twin, twice := names[order.Name]; twice {
			j.say(seq, "%s is job %d, too", order.Name, twin)
		}
		names[order.Name] = seq
		if acked, ok := j.in.Acked[seq]; ok && acked.Name != order.Name {
			j.say(seq, "acknowledged as %s, kept as %s", acked.Name, order.Name)
		} else if !ok {
			if maybe, asked := j.in.Maybe[order.Name]; asked {
				j.orders[seq] = maybe
			} else {
				j.say(seq, "%s was never enqueued", order.Name)
			}
		}
	}
	for seq, order := range j.in.Acked {
		if _, kept := j.in.Jobs[seq]; !kept {
			j.say(seq, "%s was acknowledged and is lost", order.Name)
		}
	}
	for seq, runs := range j.runs {
		for _, r := range runs {
			if order, ok := j.orders[seq]; !ok || order.Name != r.Text {
				j.say(seq, "ran as %q, which was not enqueued under this number", r.Text)
			}
		}
	}
	j.out.Jobs = len(j.orders)
}

// counts: what the store keeps for people equals the truth.
func (j *judge) counts() {
	truth := map[job.State]int64{}
	for _, kept := range j.in.Jobs {
		truth[kept.State]++
	}
	for _, state := range states {
		if j.in.Counts[state] != truth[state] {
			j.broken = append(j.broken, fmt.Sprintf("the queues count %d %s jobs, there are %d", j.in.Counts[state], state, truth[state]))
		}
	}
	for _, p := range j.in.Processes {
		j.broken = append(j.broken, fmt.Sprintf("process %d is still listed", p.ID))
	}
}

// Errors returns the failed calls of the store whose text is not excused.
func Errors(lives []*Life, excused ...string) []string {
	var list []string
	for _, l := range lives {
		for _, e := range l.Events {
			if e.What == Erred && !slices.ContainsFunc(excused, func(x string) bool { return strings.Contains(e.Text, x) }) {
				list = append(list, fmt.Sprintf("worker %d: %s", l.Number, e.Text))
			}
		}
	}
	return list
}
