package retry

// Draw is the one random number of a decision: 64 uniform bits.
type Draw uint64

// Derive returns the draw of one start of one job. It is a hash, not a
// stream: the same seed, job and start give the same draw whatever happened
// in between, so a simulation and the engine agree event for event.
func Derive(seed, sequence uint64, start int) Draw {
	return Draw(mix(mix(mix(seed)^sequence) ^ uint64(start)))
}

// Unit returns the draw as a number in [0, 1), 53 bits fine.
func (d Draw) Unit() float64 { return float64(d>>11) / (1 << 53) }

// mix is the finaliser of SplitMix64: every input bit moves every output bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
