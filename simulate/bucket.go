package simulate

// buckets divides the run into the series' buckets. All series have the same
// ones; when there are too many, two become one.
type buckets struct {
	width int64
	end   int64 // of the current one
	n     int   // complete ones
}

func newBuckets(s *Scenario) buckets {
	b := buckets{width: second}
	if s.Bucket > 0 {
		b.width = int64(s.Bucket)
	}
	b.end = b.width
	return b
}

// roll ends every bucket that lies before the instant.
func (k *kernel) roll(now int64) {
	b := &k.buckets
	for b.end <= now {
		k.eachMeter(func(m meter) { m.bucket(b.end, b.width) })
		b.n++
		if b.n == MaxBuckets {
			k.eachMeter(func(m meter) { m.halve() })
			b.n /= 2
			b.width *= 2
		}
		b.end = int64(b.n+1) * b.width
	}
}

// finish ends the last bucket, which may be shorter.
func (k *kernel) finish() {
	k.roll(k.now)
	b := &k.buckets
	if d := k.now - int64(b.n)*b.width; d > 0 || b.n == 0 {
		k.eachMeter(func(m meter) { m.bucket(k.now, d) })
	}
}

// meter is what has a series.
type meter interface {
	measure(now int64)
	bucket(now, d int64)
	halve()
}

func (k *kernel) eachMeter(f func(meter)) {
	for i := range k.clients {
		f(&k.clients[i].meter)
	}
	for i := range k.nodes {
		f(&k.nodes[i].meter)
	}
}

func (m *callerMeter) halve() {
	s := &m.series
	for _, v := range []*[]int64{&s.Arrived, &s.Firsts, &s.Retries, &s.OK, &s.Failed, &s.Succeeded, &s.Dead} {
		sumPairs(v)
	}
	meanPairs(&s.Depth)
	meanPairs(&s.InFlight)
	maxPairs(&s.InSystemMax)
}

func (m *nodeMeter) halve() {
	s := &m.series
	for _, v := range []*[]int64{&s.Requests, &s.OK, &s.Errors, &s.Wasted} {
		sumPairs(v)
	}
	meanPairs(&s.Queue)
	meanPairs(&s.Busy)
	maxPairs(&s.QueueMax)
}

func sumPairs(v *[]int64)    { pairs(v, func(a, b int64) int64 { return a + b }) }
func maxPairs(v *[]int64)    { pairs(v, func(a, b int64) int64 { return max(a, b) }) }
func meanPairs(v *[]float64) { pairs(v, func(a, b float64) float64 { return (a + b) / 2 }) }

func pairs[T any](v *[]T, join func(a, b T) T) {
	s := *v
	for i := range len(s) / 2 {
		s[i] = join(s[2*i], s[2*i+1])
	}
	*v = s[:len(s)/2]
}
