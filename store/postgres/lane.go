package postgres

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// laneClaiming is one claim of lanes.
type laneClaiming struct {
	store.LaneClaim
	taken *laneTaken // by its statement, which may be that of others too
	place int64      // among the claims of its statement
	from  mark       // where a claim by name began
	mixed bool       // its lane was found to have another part too
	ends  int64      // marks ended before a discovery began
}

// laneTaken is what was taken from lanes by claims that go together.
type laneTaken struct {
	jobs   []job.Job
	lanes  []string
	places []int64 // of the jobs' claims, or of their lanes in the order of discovery
	left   []store.LaneName
}

// hold queues the holds as one statement.
func (w *turning) hold(holds []store.LaneHold) {
	if len(holds) == 0 {
		return
	}
	var queues, targets []string
	var retries []bool
	var until instants
	for _, h := range holds {
		queues, targets, retries = append(queues, h.Queue), append(targets, h.Target), append(retries, h.Retries)
		until = append(until, micros(store.Instant(h.Until)))
	}
	w.batch.Queue(statement("hold"), w.process, queues, targets, retries, until)
}

// claimLanes queues the claims of lanes in their order: those by name that
// follow each other as one statement, if they are of the same kinds and name no
// lane twice.
func (w *turning) claimLanes(claims []store.LaneClaim) {
	for i := range claims {
		w.lanes = append(w.lanes, &laneClaiming{LaneClaim: claims[i]})
	}
	for from := 0; from < len(w.lanes); {
		if w.lanes[from].Target == "" {
			w.discover(w.lanes[from])
			from++
			continue
		}
		to, named := from, map[laneName]bool{}
		for to < len(w.lanes) && w.lanes[to].joins(w.lanes[from], named) {
			named[w.lanes[to].name()] = true
			to++
		}
		w.claimNamed(w.lanes[from:to])
		from = to
	}
}

// joins reports whether the claim can be in one statement with those of the
// lanes named before, of which first is the first.
func (c *laneClaiming) joins(first *laneClaiming, named map[laneName]bool) bool {
	return c.Target != "" && slices.Equal(c.Kinds, first.Kinds) && !named[c.name()]
}

func (c *laneClaiming) name() laneName { return laneName{c.Queue, c.Target} }

// bounded is a limit as the database counts.
func bounded(n int) int32 { return int32(min(max(n, 0), math.MaxInt32/8)) }

// claimNamed serves lanes by name: those that are known to have one part by the
// short way, queue by queue, the others by one statement.
func (w *turning) claimNamed(group []*laneClaiming) {
	if len(group[0].Kinds) == 0 {
		return
	}
	n := naming{claims: make(map[laneName]*laneClaiming, len(group))}
	var whole []*laneClaiming
	asked := 0
	further := map[string][]*laneClaiming{} // by queue
	for i, c := range group {
		c.taken, c.place, n.claims[c.name()] = &n.laneTaken, int64(i), c
		if w.now.IsZero() {
			c.from = w.store.marks.of(c.name())
		}
		if c.from.alone() && c.most() > 0 {
			further[c.Queue] = append(further[c.Queue], c)
			n.expected += min(c.most(), 2*c.from.took) // it gave all that it was asked for
		} else {
			whole = append(whole, c)
			asked += min(c.Limit, c.Firsts+c.Retries)
		}
	}
	n.expected += min(asked, 2*int(w.store.lastLanes.Load())+8)
	for _, queue := range slices.Sorted(maps.Keys(further)) {
		w.query("claim_further", furtherArgs(w.process, further[queue]), func(r *row) error {
			c, err := w.named(r, &n)
			if err == nil {
				c.mixed = r.flag()
			}
			return err
		})
	}
	if len(whole) > 0 {
		w.query("claim_named", namedArgs(w.process, w.now, whole), func(r *row) error {
			_, err := w.named(r, &n)
			return err
		})
	}
}

// naming is claims by name that are answered together.
type naming struct {
	laneTaken
	claims   map[laneName]*laneClaiming
	expected int // about how many jobs
}

// most is how many first attempts the claim asks for.
func (c *laneClaiming) most() int { return min(c.Limit, c.Firsts) }

// furtherArgs are the parameters of claim_further.
func furtherArgs(process int64, group []*laneClaiming) []any {
	var p places
	var most, begins []int32
	for _, c := range group {
		p.add(c.name(), c.from)
		most, begins = append(most, bounded(c.most())), append(begins, bounded(c.Begin))
	}
	return []any{process, group[0].Queue, group[0].Kinds, p.targets, p.kinds, p.priorities, p.dues, p.seqs, most, begins}
}

// namedArgs are the parameters of claim_named.
func namedArgs(process int64, now time.Time, group []*laneClaiming) []any {
	var p places
	var firsts, retries, limits, begins []int32
	for _, c := range group {
		p.add(c.name(), c.from)
		firsts, retries = append(firsts, bounded(c.Firsts)), append(retries, bounded(c.Retries))
		limits, begins = append(limits, bounded(c.Limit)), append(begins, bounded(c.Begin))
	}
	return []any{process, nullable(now), group[0].Kinds, p.queues, p.targets, firsts, retries, limits, begins, p.kinds, p.priorities, p.dues, p.seqs}
}

// named reads a job that was claimed by its lane's name.
func (w *turning) named(r *row, n *naming) (*laneClaiming, error) {
	j, err := w.leased(r, &n.laneTaken, n.expected)
	if err != nil {
		return nil, err
	}
	name := laneOf(j)
	c, known := n.claims[name]
	if !known {
		return nil, errors.New("the database answered for a lane that was not asked about")
	}
	j.Begun = r.flag()
	n.lanes, n.places = append(n.lanes, name.target), append(n.places, c.place)
	return c, nil
}

// discover takes of the lanes that have waited longest.
func (w *turning) discover(c *laneClaiming) {
	if len(c.Kinds) == 0 || c.Lanes <= 0 || c.Limit <= 0 {
		return
	}
	args := []any{
		w.process, nullable(w.now), c.Kinds, c.Queue, bounded(c.Lanes), bounded(c.Firsts), bounded(c.Retries), bounded(c.Limit),
		w.store.gathers.most,
	}
	args = append(args, w.marked(c)...)
	taken, left := &laneTaken{}, make(map[string]bool)
	c.taken = taken
	w.query("discover", args, func(r *row) error {
		if w.crowded = r.flag() || w.crowded; r.absent() {
			return nil
		}
		taken.places, taken.lanes = append(taken.places, r.number()), append(taken.lanes, r.word())
		r.next() // its part
		r.next() // the row that it was
		// Few lanes are found at a time.
		if _, err := w.leased(r, taken, min(c.Limit, 8)); err != nil {
			return err
		}
		if lane := taken.lanes[len(taken.lanes)-1]; r.flag() && !left[lane] {
			left[lane] = true
			taken.left = append(taken.left, store.LaneName{Queue: c.Queue, Target: lane})
		}
		return nil
	})
}

// marked are the parameters that say which lanes of a queue this process claims
// by name, and from where on.
func (w *turning) marked(c *laneClaiming) []any {
	var p places
	var served []bool
	if w.now.IsZero() {
		var marked map[laneName]mark
		marked, c.ends = w.store.marks.in(c.Queue)
		for name, m := range marked {
			p.add(name, m)
			served = append(served, m.served())
		}
	}
	return []any{p.targets, p.kinds, p.priorities, p.dues, p.seqs, served}
}

// places are marks as parameters, column by column.
type places struct {
	queues, targets, kinds []string
	priorities             []int16
	dues                   instants
	seqs                   []int64
}

func (p *places) add(name laneName, m mark) {
	p.queues, p.targets, p.kinds = append(p.queues, name.queue), append(p.targets, name.target), append(p.kinds, m.kind)
	p.priorities, p.dues, p.seqs = append(p.priorities, int16(m.priority)), append(p.dues, micros(m.at.due)), append(p.seqs, m.at.seq)
}

// leased reads a job that was claimed from a lane.
func (w *turning) leased(r *row, taken *laneTaken, expected int) (*job.Job, error) {
	if taken.jobs == nil {
		taken.jobs = make([]job.Job, 0, expected)
	}
	leasedAt := w.now
	if leasedAt.IsZero() {
		leasedAt = w.clock
	}
	taken.jobs = append(taken.jobs, job.Job{State: job.Running, Process: w.process, LeasedAt: leasedAt})
	j := &taken.jobs[len(taken.jobs)-1]
	if err := r.moved(j); err != nil {
		return j, err
	}
	w.store.leasedKey(j)
	return j, nil
}

// arrange moves the jobs to their order: order[i] is where the i-th stands.
func arrange(jobs []job.Job, order []int) {
	for i := range order {
		if order[i] == i {
			continue
		}
		first, at := jobs[i], i
		for order[at] != i {
			next := order[at]
			jobs[at], order[at] = jobs[next], at
			at = next
		}
		jobs[at], order[at] = first, at
	}
}

// sort puts the jobs in order, place by place, and adds their lanes to those
// found. They come by where their rows lie: of each place that mostly is the
// order of claims.
func (t *laneTaken) sort(found map[string]bool) {
	var ends []int // by place
	for _, place := range t.places {
		if need := int(place) + 1 - len(ends); need > 0 {
			ends = append(ends, make([]int, need)...)
		}
		ends[place]++
	}
	next := make([]int, len(ends))
	for place := 1; place < len(ends); place++ {
		next[place] = ends[place-1]
		ends[place] += ends[place-1]
	}
	order := make([]int, len(t.jobs))
	for i, place := range t.places {
		order[next[place]] = i
		next[place]++
	}
	compare := func(a, b int) int { return compareJobs(&t.jobs[a], &t.jobs[b]) }
	from := 0
	for place, to := range ends {
		if from == to {
			continue
		}
		found[t.lanes[order[from]]] = true
		if !slices.IsSortedFunc(order[from:to], compare) {
			slices.SortFunc(order[from:to], compare)
		}
		for ; from < to; from++ {
			t.places[from] = int64(place)
		}
	}
	arrange(t.jobs, order)
}

// tookLanes puts what was claimed from lanes in order, and remembers where the
// claims by name ended.
func (w *turning) tookLanes() {
	w.asked = map[string]bool{}
	for _, c := range w.lanes {
		if c.tells() {
			c.taken.sort(w.asked)
		}
	}
	w.mark()
	if w.crowded {
		w.store.gatherBeside()
	}
}

// tells reports whether the claim has what its statement took: it took
// something, and is the first of those that it stands for.
func (c *laneClaiming) tells() bool { return c.taken != nil && c.place == 0 }

// answerLanes adds what was claimed from lanes to the answer, with the gates.
func (w *turning) answerLanes() {
	for _, c := range w.lanes {
		if !c.tells() {
			continue
		}
		if c.Target != "" {
			w.store.lastLanes.Store(int64(len(c.taken.jobs)))
		}
		w.answer.Left = append(w.answer.Left, c.taken.left...)
		if len(w.answer.Claimed) == 0 { // the usual case: jobs are big, and not copied
			w.answer.Claimed = c.taken.jobs
		} else {
			w.answer.Claimed = append(w.answer.Claimed, c.taken.jobs...)
		}
	}
	w.answerGates(w.asked)
}

// mark remembers where the claims by name ended.
func (w *turning) mark() {
	if w.requeued == atOnce || w.promoted { // what is due later stands behind no mark
		w.store.marks.clear()
		return
	}
	if !w.now.IsZero() {
		return
	}
	for _, c := range w.lanes {
		if c.taken == nil {
			continue
		}
		if c.Target == "" {
			w.store.marks.discovered(c.taken.jobs, c.taken.left, c.ends)
			continue
		}
		from, _ := slices.BinarySearch(c.taken.places, c.place)
		to, _ := slices.BinarySearch(c.taken.places, c.place+1)
		w.store.marks.move(c.name(), c.from, c.taken.jobs[from:to], c.most(), c.mixed, w.clock)
	}
	if len(w.lanes) > 0 {
		w.store.lookBehindMarks()
	}
}
