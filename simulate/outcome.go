package simulate

// outcome sums the run up.
func (k *kernel) outcome() Outcome {
	o := Outcome{
		Seed: k.seed, From: seconds(min(k.from, k.now)), EndedAt: seconds(k.now), Events: k.events,
		CutShort: k.jobs.used > 0 || k.requests.used > 0,
	}
	span := k.now - k.from
	firsts := int64(0)
	for i := range k.clients {
		if cl := &k.clients[i]; !cl.layer {
			firsts += cl.meter.total.Firsts
		}
	}
	began, ended, disturbed := k.disturbance()
	for i := range k.clients {
		c := k.clients[i].outcome(k.now, span, k.buckets.width)
		if disturbed {
			c.Recovery = k.recovery(&c.Series, began, ended)
		}
		o.Callers = append(o.Callers, c)
	}
	for i := range k.nodes {
		o.Downstreams = append(o.Downstreams, k.nodes[i].outcome(k, span, firsts))
	}
	return o
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// perSecond is a count over a span of nanoseconds.
func perSecond(n, span int64) float64 {
	if span <= 0 {
		return 0
	}
	return float64(n) / seconds(span)
}

func (cl *client) outcome(now, span, width int64) CallerOutcome {
	m := &cl.meter
	t := m.total
	t.Unfinished = t.Jobs - t.Succeeded - t.Dead
	t.Amplification = ratio(t.Calls, t.Firsts)
	t.SuccessShare, t.DeadShare = ratio(t.Succeeded, t.Succeeded+t.Dead), ratio(t.Dead, t.Succeeded+t.Dead)
	t.CallSuccess = ratio(t.OK, t.OK+t.Failed)
	t.Throughput, t.Goodput = perSecond(t.Succeeded+t.Dead, span), perSecond(t.Succeeded, span)
	t.CallRate = perSecond(t.Calls, span)
	t.PeakCalls, t.PeakAt = m.calls.most, seconds(m.calls.mostAt)
	t.DepthMean, t.DepthMax = m.depth.mean(now, span), m.depth.most
	t.InFlightMean, t.InFlightMax = m.inFlight.mean(now, span), m.inFlight.most
	t.InSystemMean, t.InSystemMax = m.inSystem.mean(now, span), m.inSystem.most
	t.Held, t.LastEnd = m.held.minus(wide{})/second, seconds(m.lastEnd)
	o := CallerOutcome{
		Name: cl.name, Layer: cl.layer, Totals: t,
		Jobs: m.jobs.histogram(), Calls: m.tries.histogram(), OK: m.ok.histogram(), Waits: m.waits.histogram(),
		DeadLetters: m.dead, Failures: m.failures, Waves: m.waves, Series: m.series,
	}
	o.Series.Width = seconds(width)
	for i := range m.intervals {
		o.Intervals = append(o.Intervals, m.intervals[i].histogram())
	}
	return o
}

func (n *node) outcome(k *kernel, span, firsts int64) DownstreamOutcome {
	m := &n.meter
	t := m.total
	if n.collapse.down {
		m.collapsed += k.now - max(n.collapse.began, k.from)
	}
	t.LossShare, t.WaitShare = ratio(t.Full, t.Requests), ratio(t.Waited, t.Admitted)
	t.Amplification = ratio(t.Requests, firsts)
	if all := m.spent.minus(wide{}); all > 0 {
		t.ServedShare = m.useful.minus(wide{}) / all
	}
	t.QueueMean, t.QueueMax = m.queue.mean(k.now, span), m.queue.most
	t.BusyMean = m.busy.mean(k.now, span)
	t.InSystemMean, t.InSystemMax = m.inSystem.mean(k.now, span), m.inSystem.most
	if servers := m.servers.mean(k.now, span); servers > 0 {
		t.Utilisation = t.BusyMean / servers
	}
	if span > 0 {
		t.IdleShare = float64(m.inSystem.idle) / float64(span)
	}
	t.Throughput = perSecond(m.sojourns.count, span)
	t.PeakRequests, t.PeakAt = m.peak.most, seconds(m.peak.mostAt)
	t.CollapsedTime = seconds(m.collapsed)
	o := DownstreamOutcome{
		Name: n.name, Totals: t,
		Waits: m.waits.histogram(), Services: m.services.histogram(), Sojourns: m.sojourns.histogram(), Series: m.series,
	}
	o.Series.Width = seconds(k.buckets.width)
	return o
}
