package crashtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// play is evidence that a test makes up; times are in milliseconds.
type play struct {
	Case
	gates []store.Gate
	epoch int64
}

var curtain = time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)

func (p *play) add(process int64, at int, e Event) {
	for len(p.Lives) < int(process) {
		p.Lives = append(p.Lives, &Life{Number: len(p.Lives) + 1, EndedAt: time.Hour})
	}
	e.Mono, e.Wall = ms(at), curtain.Add(ms(at))
	if e.Process == 0 {
		e.Process = process
	}
	l := p.Lives[process-1]
	l.Events = append(l.Events, e)
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// call is one start of the order that ends with the answer.
func (p *play) call(process, seq int64, start, from, to int, o Order, answer string) store.Ref {
	p.epoch++
	ref := store.Ref{Seq: seq, Epoch: p.epoch}
	o.Kind = Call
	p.Acked[seq] = o
	p.add(process, from, Event{What: Started, Ref: ref, Start: start})
	if to > 0 {
		p.add(process, to, Event{What: Ended, Ref: ref, Start: start, Text: answer})
	}
	return ref
}

// row is one of the ledger.
func (p *play) row(seq int64, start, from, to int, o Order) {
	if p.Ledger == nil {
		p.Ledger = map[int64][]job.Attempt{}
	}
	p.Acked[seq] = o
	p.Ledger[seq] = append(p.Ledger[seq], job.Attempt{
		Seq: seq, Start: start, Epoch: 1, OK: true, StartedAt: curtain.Add(ms(from)), EndedAt: curtain.Add(ms(to)),
	})
}

func (p *play) probe(process, seq int64, from, to int, o Order, answer string) {
	p.add(process, from, Event{What: Probing, Ref: store.Ref{Seq: seq, Epoch: p.epoch + 1}})
	p.call(process, seq, 2, from, to, o, answer)
}

func (p *play) swap(process int64, at int, version int64, s gate.State, grants ...store.Grant) {
	p.add(process, at, Event{What: Swapped, Text: seen(&store.Gate{Target: "t", Version: version - 1, State: s, Grants: grants})})
}

func opened(at, until int) gate.State {
	c := gate.Config{}
	c.Breaker.Consecutive, c.Breaker.Open = 1, ms(until-at)
	s, _ := gate.Step(c, gate.State{}, gate.Done{Failure: failure.Of(failure.Server)}, curtain.Add(ms(at)), 0.5)
	s.InFlight = 0
	return s
}

func paused(at, until int) gate.State {
	s, _ := gate.Step(gate.Config{}, gate.State{}, gate.Done{Pause: ms(until - at)}, curtain.Add(ms(at)), 0.5)
	return s
}

// JudgeFlow sees each broken limit, and accepts what only looks like one.
func TestJudgeFlow(t *testing.T) {
	with := func(policy string) Order { return Order{Target: "t", Policy: policy} }
	four := func(p *play) {
		for i := range int64(4) {
			p.call(1+i%2, i+1, 1, int(i), 100, with(Limited), "ok")
		}
	}
	keyed := Order{Key: "k"}
	for _, c := range []struct {
		name string
		play func(p *play)
		want string // empty = all is well
	}{
		{"one too many at once", four, "t: 4 calls at once, want 3"},
		{"one ended before", func(p *play) {
			p.call(1, 9, 1, 0, 3, with(Limited), "ok")
			p.call(1, 1, 1, 1, 100, with(Limited), "ok")
			p.call(2, 2, 1, 2, 100, with(Limited), "ok")
			p.call(2, 3, 1, 3, 100, with(Limited), "ok")
		}, ""},
		{"two were the calls of a process taken for dead", func(p *play) {
			p.call(1, 1, 1, 0, 5000, with(Limited), "ok")
			p.call(1, 2, 1, 0, 5000, with(Limited), "ok")
			p.add(2, 3000, Event{What: Reaped, Process: 1})
			for i := range int64(3) {
				p.call(2, 3+i, 1, 3000, 4000, with(Limited), "ok")
			}
		}, ""},
		{"one was killed", func(p *play) {
			four(p)
			p.Lives[0].EndedAt = ms(3)
			p.Lives[0].Events = slices.DeleteFunc(p.Lives[0].Events, func(e Event) bool { return e.What == Ended })
		}, ""},
		{"above the rate", func(p *play) {
			for i := range 120 {
				p.call(1, int64(i+1), 1, 40*i, 40*i+1, with(Rated), "ok")
			}
		}, "starts within"},
		{"at the rate", func(p *play) {
			for i := range 120 {
				p.call(1, int64(i+1), 1, 50*i, 50*i+1, with(Rated), "ok")
			}
		}, ""},
		{"above the budget", func(p *play) { p.retries(with(Budgeted), 9, 7) }, "t: 7 retries within 10ms, allowed 6.8"},
		{"within the budget", func(p *play) { p.retries(with(Budgeted), 9, 6) }, ""},
		{"a start in the pause", func(p *play) {
			p.swap(1, 10, 1, paused(10, 5000))
			p.call(2, 1, 1, 1511, 1520, with(Pausing), "ok")
		}, "job 1 began 1.501s after the pause was known and 3.489s before its end"},
		{"starts within the grant's life and after the pause", func(p *play) {
			p.swap(1, 10, 1, paused(10, 5000))
			p.call(2, 1, 1, 1009, 1020, with(Pausing), "ok")
			p.call(2, 2, 1, 5000, 5010, with(Pausing), "ok")
		}, ""},
		{"a start while the breaker is open", func(p *play) {
			p.swap(1, 10, 1, opened(10, 3000))
			p.call(2, 1, 1, 2000, 2010, with(Breaking), "ok")
		}, "job 1 began 1.99s after the breaker opened and 1s before its time was over"},
		{"two probes", func(p *play) {
			p.probe(1, 1, 3000, 3100, with(Breaking), "ok")
			p.probe(2, 2, 3050, 3150, with(Breaking), "ok")
		}, "job 2 began (as a probe: true) while job 1 was the probe"},
		{"a call beside the probe", func(p *play) {
			p.probe(1, 1, 3000, 3100, with(Breaking), "ok")
			p.call(2, 2, 1, 3099, 3150, with(Breaking), "ok")
		}, "job 2 began (as a probe: false) while job 1 was the probe"},
		{"a call after a probe that failed", func(p *play) {
			p.probe(1, 1, 3000, 3100, with(Breaking), "server")
			p.call(2, 2, 1, 3200, 3250, with(Breaking), "ok")
		}, "job 2 began after the probe 1 had not passed"},
		{"a call after a probe that died", func(p *play) {
			p.probe(1, 1, 3000, 0, with(Breaking), "")
			p.Lives[0].EndedAt = ms(3050)
			p.call(2, 2, 1, 3200, 3250, with(Breaking), "ok")
		}, "job 2 began after the probe 1 had not passed"},
		{"the next probe, and calls when it has passed", func(p *play) {
			p.probe(1, 1, 3000, 3100, with(Breaking), "server")
			p.probe(2, 2, 7000, 7100, with(Breaking), "ok")
			p.call(1, 3, 1, 7100, 7250, with(Breaking), "ok")
		}, ""},
		{"two of a key at once", func(p *play) {
			p.call(1, 1, 1, 0, 10, keyed, "ok")
			p.call(2, 2, 1, 9, 20, keyed, "ok")
		}, "key k: job 2 began while job 1 ran"},
		{"a key out of order", func(p *play) {
			p.call(1, 2, 1, 0, 10, keyed, "ok")
			p.call(2, 1, 1, 10, 20, keyed, "ok")
		}, "key k: job 1 began after job 2"},
		{"one too many at once in the ledger", func(p *play) {
			for seq := range int64(4) {
				p.row(seq, 1, 0, 200, with(Limited))
			}
		}, "ledger of t: 4 calls at once, want 3"},
		{"clocks that differ", func(p *play) {
			for seq := range int64(4) {
				p.row(seq, 1, 120*int(seq/3), 200, with(Limited))
			}
		}, ""},
		{"above the budget in the ledger", func(p *play) {
			for seq := range int64(7) {
				p.row(seq, 2, int(seq), 100, with(Budgeted))
			}
		}, "ledger of t: 7 retries within 6ms, allowed 6"},
		{"two of a key at once in the ledger", func(p *play) {
			p.row(1, 1, 0, 200, keyed)
			p.row(2, 1, 50, 250, keyed)
		}, "ledger of key k: job 2 began 50ms before job 1 ended"},
		{"a permit stayed out", func(p *play) {
			p.gates = []store.Gate{{Target: "t", Grants: []store.Grant{{Process: 1, Firsts: 1}}}}
		}, "t: grants [{1 1 0 false}], in flight 0"},
		{"grants are not what is in flight", func(p *play) { p.swap(1, 1, 1, gate.State{InFlight: 2}, store.Grant{Process: 1, Firsts: 1}) }, "t: version 1 has 2 in flight and grants of 1"},
		{"a version twice", func(p *play) {
			p.swap(1, 1, 1, gate.State{})
			p.swap(2, 1, 1, gate.State{})
		}, "t: processes 1 and 2 both wrote version 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &play{Case: Case{Acked: map[int64]Order{}}}
			c.play(p)
			_, broken := JudgeFlow(p.Case, p.gates)
			text := strings.Join(broken, "\n")
			if c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("the complaints are %q, want one with %q", broken, c.want)
			}
		})
	}
}

// A start by a process that was taken for dead counts apart.
func TestJudgeFlowCountsStrays(t *testing.T) {
	p := &play{Case: Case{Acked: map[int64]Order{}}}
	p.add(2, 1000, Event{What: Reaped, Process: 1})
	o := Order{Target: "t", Policy: Limited}
	p.call(1, 1, 1, 999, 1010, o, "ok")
	p.call(1, 2, 1, 1000, 1010, o, "ok")
	report, broken := JudgeFlow(p.Case, nil)
	if report.Strays != 1 || report.Starts != 1 || len(broken) > 0 {
		t.Errorf("%d strays of %d other starts, complaints %q; want 1 of 1 and none", report.Strays, report.Starts, broken)
	}
}

// retries are first attempts, and after them retries, a millisecond apart.
func (p *play) retries(o Order, firsts, retries int) {
	for i := range firsts {
		p.call(1, int64(i+1), 1, i, i+1, o, "ok")
	}
	for i := range retries {
		p.call(1, int64(i+1), 2, firsts+i, firsts+i+1, o, "ok")
	}
}
