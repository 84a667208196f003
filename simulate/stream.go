package simulate

import "math"

// stream is one element's own randomness: SplitMix64 from a hash of seed,
// name and index. So no element's draws depend on which others there are.
type stream struct{ state uint64 }

func newStream(seed uint64, name string, index int) stream {
	h := scramble(seed)
	for i := range len(name) {
		h = scramble(h ^ uint64(name[i]))
	}
	return stream{state: scramble(scramble(h^uint64(len(name))) ^ uint64(index))}
}

// fork returns the stream of the n-th part of an element.
func (s stream) fork(n int) stream {
	return stream{state: scramble(scramble(s.state^0x5bd1e995) ^ uint64(n))}
}

// scramble is the finaliser of SplitMix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s *stream) bits() uint64 {
	x := s.state
	s.state += 0x9e3779b97f4a7c15
	return scramble(x)
}

// unit returns a number in [0, 1), 53 bits fine.
func (s *stream) unit() float64 { return float64(s.bits()>>11) / (1 << 53) }

// open returns a number in (0, 1).
func (s *stream) open() float64 { return (float64(s.bits()>>11) + 0.5) / (1 << 53) }

// exp returns an exponential draw of mean 1.
func (s *stream) exp() float64 { return -math.Log(s.open()) }

// normal returns a standard normal draw, by the polar method.
func (s *stream) normal() float64 {
	for {
		u, v := 2*s.unit()-1, 2*s.unit()-1
		q := u*u + v*v
		if q > 0 && q < 1 {
			return u * math.Sqrt(-2*math.Log(q)/q)
		}
	}
}

// gamma returns a draw of the shape and scale 1: by stages for small whole
// shapes, else by Marsaglia and Tsang's method.
func (s *stream) gamma(shape float64) float64 {
	if shape <= 16 && shape == math.Trunc(shape) {
		product := 1.0
		for range int(shape) {
			product *= s.open()
		}
		return -math.Log(product)
	}
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(s.open(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := s.normal()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(s.open()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return boost * d * v
		}
	}
}
