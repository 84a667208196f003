package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebbhq/ebb/dispatch"
)

// BenchmarkStep is the way of one item: added, started, ended. A thousand
// wait in each case at least, or one a lane.
func BenchmarkStep(b *testing.B) {
	for _, lanes := range []int{0, 1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			f := dispatch.New(1000, born)
			f.SetPolicy("p", dispatch.Limits{Concurrency: 100, FirstShare: 0.25, Batch: 100})
			names := []string{""}
			if lanes > 0 {
				names = names[:0]
				for n := range lanes {
					names = append(names, fmt.Sprintf("https://hooks.example/%d", n))
				}
			}
			item := func(n int) dispatch.Item {
				return dispatch.Item{
					ID: int64(n), Target: names[n%len(names)], Policy: "p", Retry: n%3 == 0,
					DueAt: born.Add(time.Duration(n) * time.Millisecond),
				}
			}
			n := 0
			for ; n < max(1000, lanes); n++ {
				f.Add(item(n))
			}
			b.ReportAllocs()
			for b.Loop() {
				f.Add(item(n))
				n++
				got, ok := f.Next(born, always)
				if !ok {
					b.Fatal("nothing to start")
				}
				f.Ended(got.Place(), born)
			}
		})
	}
}

// BenchmarkRefused is the cost of lanes that cannot go: each is asked once.
func BenchmarkRefused(b *testing.B) {
	f := dispatch.New(1000, born)
	for n := range 10_000 {
		f.Add(dispatch.Item{ID: int64(n), Target: fmt.Sprint(n), Policy: "p", DueAt: born})
	}
	never := func(dispatch.Item) dispatch.Answer { return dispatch.Answer{} }
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		f.Wake(fmt.Sprint(n % 10_000))
		if _, ok := f.Next(born, never); ok {
			b.Fatal("started what was refused")
		}
	}
}
