package simulate

import (
	"fmt"

	"github.com/ebbhq/ebb/policy"
)

func (c *checker) caller(path string, v *Caller) {
	oneOf(c, path+".mode", v.Mode, "", InProcess, Durable, Waves)
	c.count(path+".clients", v.Clients)
	c.count(path+".workers", v.Workers)
	c.count(path+".max_waiting", v.MaxWaiting)
	c.dist(path+".deadline", &v.Deadline)
	c.must(v.Mode != Waves || v.Workers == 0 && v.MaxWaiting == 0, path+".workers", "in mode waves the policy's concurrency bounds the work; leave workers and max_waiting out")
	c.must(len(v.Arrivals) > 0, path+".arrivals", "no job arrives; add a stream")
	for i := range v.Arrivals {
		at := fmt.Sprintf("%s.arrivals[%d]", path, i)
		c.arrivals(at, &v.Arrivals[i])
		c.must(v.Mode != Waves || v.Arrivals[i].Kind == Batch || v.Arrivals[i].Kind == Trace, at+".kind", "mode waves works on batches; use batch or trace")
	}
	c.client(path, &v.Client)
}

func (c *checker) arrivals(path string, a *Arrivals) {
	if !oneOf(c, path+".kind", a.Kind, Poisson, Regular, Batch, Closed, Trace, Renewal) {
		return
	}
	c.factor(path+".rate", &a.Rate)
	c.must(a.Jobs >= 0, path+".jobs", "%d is negative", a.Jobs)
	c.must(a.Size >= 0 && a.Size <= policy.MaxWhole, path+".size", "%d is out of range; 0 means 1", a.Size)
	c.notNegative(path+".every", a.Every)
	c.notNegative(path+".from", a.From)
	c.must(a.Until == 0 || a.Until > a.From, path+".until", "%s is not after from %s", a.Until, a.From)
	c.must(a.Priority >= 0 && a.Priority <= 9, path+".priority", "%d is out of range; 0 to 9", a.Priority)
	c.count(path+".users", a.Users)
	c.dist(path+".think", &a.Think)
	c.dist(path+".first", &a.First)
	c.dist(path+".gap", &a.Gap)
	switch a.Kind {
	case Poisson, Regular:
		c.must(len(a.Rate.Points) > 0, path+".rate", "needed: jobs a second")
	case Batch:
		c.must(a.Jobs > 0, path+".jobs", "needed: the size of the batch")
	case Closed:
		c.must(a.Users > 0, path+".users", "needed: 1 or more")
	case Renewal:
		c.must(!a.Gap.IsZero(), path+".gap", "needed: the time between jobs")
	case Trace:
		for i := range a.Times {
			at := fmt.Sprintf("%s.times[%d]", path, i)
			c.notNegative(at, a.Times[i])
			c.must(i == 0 || a.Times[i] >= a.Times[i-1], at, "%s is before %s; times are ascending", a.Times[i], a.Times[max(0, i-1)])
		}
	}
}

func (c *checker) client(path string, v *Client) {
	c.must(v.Policy.Version != "", path+".policy", "the policy is not sealed")
	c.must(len(v.Targets) > 0, path+".targets", "calls nobody; add a target")
	sum := 0.0
	for i, t := range v.Targets {
		at := fmt.Sprintf("%s.targets[%d]", path, i)
		c.must(c.names[t.Downstream], at+".downstream", "%q is no downstream of this scenario", t.Downstream)
		c.must(t.Weight >= 0 && t.Weight <= 1e9, at+".weight", "%g is out of range; 0 means 1", t.Weight)
		c.count(at+".names", t.Names)
		sum += t.Weight
	}
	oneOf(c, path+".pick", v.Pick, "", RoundRobin, Random, Least, TwoChoices)
	oneOf(c, path+".gate", v.Gate, "", GateNone, GateShared, GateCaller, GateClient)
	c.count(path+".connections", v.Connections)
	if v.Timeout != nil {
		c.dist(path+".timeout", v.Timeout)
	}
	if v.Delay != nil {
		c.dist(path+".delay", v.Delay)
	}
}

func (c *checker) downstream(path string, d *Downstream) {
	c.count(path+".copies", d.Copies)
	c.count(path+".servers", d.Servers)
	c.factor(path+".capacity", &d.Capacity)
	c.must(len(d.Capacity.Points) == 0 || d.Servers > 0, path+".capacity", "multiplies servers, of which there are no number; set servers")
	if d.Queue != nil {
		c.count(path+".queue", *d.Queue)
	}
	c.answer(path+".full", &d.Full)
	c.dist(path+".max_wait", &d.MaxWait)
	oneOf(c, path+".order", d.Order, "", FIFO, LIFO, PS)
	c.dist(path+".service", &d.Service)
	c.factor(path+".speed", &d.Speed)
	for i, p := range d.Load.Points {
		at := fmt.Sprintf("%s.load.points[%d]", path, i)
		c.must(i == 0 || p.InService >= d.Load.Points[i-1].InService, at+".in_service", "%g is out of order; points ascend", p.InService)
		c.must(p.Multiply >= 0 && p.Multiply <= 1e9, at+".multiply", "%g is out of range; 0 or more", p.Multiply)
	}
	oneOf(c, path+".abandoned", d.Abandoned, "", Serve, Skip, Remove, Cancel)
	for i := range d.Faults {
		c.fault(fmt.Sprintf("%s.faults[%d]", path, i), &d.Faults[i])
	}
	c.limit(path+".limit", d.Limit)
	c.collapse(path+".collapse", d.Collapse)
	if d.Row != nil {
		c.dist(path+".row.work", &d.Row.Work)
		c.answer(path+".row.conflict", &d.Row.Conflict)
		c.must(len(d.Calls) == 0, path+".row", "a row has no calls of its own; use two downstreams")
	}
	c.dist(path+".network.there", &d.Network.There)
	c.dist(path+".network.back", &d.Network.Back)
	c.probability(path+".network.loss_there", &d.Network.LossThere)
	c.probability(path+".network.loss_back", &d.Network.LossBack)
	c.layers(path, d)
	if d.Order == PS {
		c.must(d.Queue == nil && len(d.Load.Points) == 0 && len(d.Calls) == 0, path+".order", "ps has no queue: queue, load and calls cannot be set beside it")
	}
}

func (c *checker) layers(path string, d *Downstream) {
	for i := range d.Calls {
		at := fmt.Sprintf("%s.calls[%d]", path, i)
		c.probability(at+".share", &d.Calls[i].Share)
		c.count(at+".calls", d.Calls[i].Calls)
		c.client(at, &d.Calls[i].Client)
		c.must(d.Calls[i].Policy.Waves.Count == 0, at+".policy", "a request cannot wait for waves; use a policy without")
	}
	c.answer(path+".call_failed", &d.CallFailed)
}

func (c *checker) answer(path string, a *Answer) {
	c.must(a.Status == 0 || a.Status >= 300 && a.Status <= 599, path+".status", "%d is no failure; 300 to 599", a.Status)
	c.notNegative(path+".retry_after", a.RetryAfter)
	c.dist(path+".after", &a.After)
}

func (c *checker) fault(path string, f *Fault) {
	oneOf(c, path+".kind", f.Kind, FaultError, FaultServed, FaultRefuse, FaultHang)
	c.notNegative(path+".from", f.From)
	c.must(f.Until == 0 || f.Until > f.From, path+".until", "%s is not after from %s", f.Until, f.From)
	c.probability(path+".probability", &f.Probability)
	c.answer(path+".answer", &f.Answer)
	c.dist(path+".up", &f.Up)
	c.dist(path+".down", &f.Down)
	c.must(f.Up.IsZero() == f.Down.IsZero(), path+".down", "up and down belong together")
}

func (c *checker) limit(path string, l *RateLimit) {
	if l == nil {
		return
	}
	c.must(l.Burst >= 1 && l.Burst <= policy.MaxWhole, path+".burst", "%g is no bucket; 1 or more", l.Burst)
	c.must(l.Rate >= 0 && l.Rate <= policy.MaxWhole, path+".rate", "%g is out of range", l.Rate)
	c.must(l.Rate > 0 || l.Window > 0, path+".rate", "needed: tokens a second, or a window")
	c.notNegative(path+".window", l.Window)
	c.notNegative(path+".retry_after", l.RetryAfter)
	c.dist(path+".after", &l.After)
}

func (c *checker) collapse(path string, v *Collapse) {
	if v == nil {
		return
	}
	c.count(path+".in_system", v.InSystem)
	c.count(path+".rate", v.Rate)
	c.must(v.Rate <= 1<<20, path+".rate", "%d is out of range; at most %d", v.Rate, 1<<20)
	c.must(v.InSystem > 0 || v.Rate > 0, path+".in_system", "needed: in_system or rate, what it breaks under")
	c.must(v.Answer != nil || v.Speed > 0, path+".speed", "needed: over 0, or an answer; what it does while it is down")
	c.must(!v.Kills || v.Answer != nil, path+".kills", "needs an answer to end requests with")
	c.must(v.Recovery > 0 || v.Quiet > 0, path+".recovery", "needed: how long it lasts, or quiet")
	c.notNegative(path+".over", v.Over)
	c.notNegative(path+".recovery", v.Recovery)
	c.notNegative(path+".prolong", v.Prolong)
	c.notNegative(path+".quiet", v.Quiet)
	c.notNegative(path+".max_recovery", v.MaxRecovery)
	if v.Answer != nil {
		c.answer(path+".answer", v.Answer)
	}
}
