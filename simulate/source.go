package simulate

import (
	"fmt"
	"strconv"
)

// source is one stream of arrivals.
type source struct {
	spec   *Arrivals
	client int32
	random stream
	rate   timeline
	gap    sampler
	think  sampler
	first  sampler
	event  handle
	part   float64 // fraction of a nanosecond beyond the last arrival
	last   int64   // instant of the last arrival
	left   int64   // jobs it may still bring; -1 = no limit
	next   int     // of Times
}

// user is one of a closed set.
type user struct {
	source int32
	proc   int32 // within the client
	event  handle
	random stream
}

func (k *kernel) buildSources() {
	for c := range k.scenario.Callers {
		caller := &k.scenario.Callers[c]
		for a := range caller.Arrivals {
			spec := &caller.Arrivals[a]
			name := spec.Name
			if name == "" {
				name = strconv.Itoa(a)
			}
			s := source{
				spec: spec, client: int32(c), last: int64(spec.From), left: -1,
				random: newStream(k.seed, fmt.Sprintf("arrivals/%s/%s", caller.Name, name), 0),
				rate:   newTimeline(&spec.Rate, 0), gap: newSampler(&spec.Gap),
				think: newSampler(&spec.Think), first: newSampler(&spec.First),
			}
			if spec.Jobs > 0 && spec.Kind != Batch {
				s.left = spec.Jobs
			}
			k.sources = append(k.sources, s)
			k.open(int32(len(k.sources) - 1))
		}
	}
}

// open schedules a source's first arrival.
func (k *kernel) open(i int32) {
	s := &k.sources[i]
	switch s.spec.Kind {
	case Batch:
		k.active++
		s.event = k.agenda.add(s.last, rankBegin, doArrive, i)
	case Closed:
		clients := k.clients[s.client].procCount
		for n := range s.spec.Users {
			u := user{source: i, proc: int32(n) % clients, random: s.random.fork(n)}
			first := s.first.draw(&u.random)
			k.users = append(k.users, u)
			k.active++
			k.nextOf(int32(len(k.users)-1), first)
		}
	default:
		k.active++
		k.schedule(i)
	}
}

// schedule sets the next arrival of a source, or lets it end.
func (k *kernel) schedule(i int32) {
	s := &k.sources[i]
	at, ok := s.upcoming()
	if !ok || s.left == 0 || s.spec.Until > 0 && at >= int64(s.spec.Until) {
		k.active--
		return
	}
	s.last = at
	s.event = k.agenda.add(at, rankBegin, doArrive, i)
}

// upcoming draws the instant of the next arrival.
func (s *source) upcoming() (at int64, ok bool) {
	switch s.spec.Kind {
	case Poisson:
		at, s.part, ok = s.rate.reach(s.last, s.part, s.random.exp()*second)
		return at, ok
	case Regular:
		at, s.part, ok = s.rate.reach(s.last, s.part, second)
		return at, ok
	case Renewal:
		return s.last + s.gap.draw(&s.random), true
	case Batch:
		return s.last + int64(s.spec.Every), s.spec.Every > 0
	case Trace:
		if s.next == len(s.spec.Times) {
			return 0, false
		}
		s.next++
		return int64(s.spec.From + s.spec.Times[s.next-1]), true
	}
	return 0, false
}

// bring brings what a source has at this instant.
func (k *kernel) bring(i int32) {
	s := &k.sources[i]
	s.event = 0
	if s.spec.Kind == Batch {
		k.bringAll(i, s.spec.Jobs)
	} else {
		size := max(1, s.spec.Size) * (1 + k.alike(s))
		if s.left >= 0 {
			size = min(size, s.left)
			s.left -= size
		}
		k.bringAll(i, size)
	}
	if !k.stopped {
		k.schedule(i)
	}
}

// alike takes, for mode waves, the further jobs of a trace at the same
// instant: they are one batch.
func (k *kernel) alike(s *source) (n int64) {
	if s.spec.Kind != Trace || k.clients[s.client].mode != Waves {
		return 0
	}
	for s.next < len(s.spec.Times) && int64(s.spec.From+s.spec.Times[s.next]) == k.now {
		s.next++
		n++
	}
	return n
}

// bringAll brings n jobs at once, as far as the run's length goes.
func (k *kernel) bringAll(i int32, n int64) {
	s := &k.sources[i]
	c := &k.clients[s.client]
	if c.mode == Waves {
		k.newBatch(s.client, n, s.spec.Priority)
		return
	}
	for range n {
		if k.stopped {
			return
		}
		k.arrive(s.client, c.nextProc(), none, none, s.spec.Priority)
	}
}

// counted counts a job that arrived from outside, and ends the arrivals when
// the run has as many as it wants.
func (k *kernel) counted() {
	k.arrived++
	if most := k.scenario.Length.Jobs; most > 0 && k.arrived >= most && !k.stopped {
		k.stop()
	}
}

// nextOf schedules the next job of a closed user after a delay.
func (k *kernel) nextOf(u int32, delay int64) {
	w := &k.users[u]
	s := &k.sources[w.source]
	at := k.after(delay)
	if k.now < int64(s.spec.From) {
		at = int64(s.spec.From) + delay
	}
	if s.left == 0 || k.stopped || s.spec.Until > 0 && at >= int64(s.spec.Until) {
		k.active--
		return
	}
	w.event = k.agenda.add(at, rankBegin, doUser, u)
}

// think is the end of a closed user's thinking: the next job.
func (k *kernel) think(u int32) {
	w := &k.users[u]
	w.event = 0
	s := &k.sources[w.source]
	if s.left == 0 {
		k.active--
		return
	}
	if s.left > 0 {
		s.left--
	}
	k.arrive(s.client, w.proc, u, none, s.spec.Priority)
}

// answeredUser lets a closed user think after its job ended.
func (k *kernel) answeredUser(u int32) {
	w := &k.users[u]
	k.nextOf(u, k.sources[w.source].think.draw(&w.random))
}
