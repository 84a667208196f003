package memory_test

import (
	"testing"

	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/store/memory/internal/fault"
	"github.com/ebbhq/ebb/store/storetest"
)

func TestLinearizable(t *testing.T) { storetest.Linearizable(t, open) }

// The checker notices a store that is not what it says.
func TestLinearizableCatches(t *testing.T) {
	for name, faults := range map[string]fault.Set{
		"stale epochs accepted":   {NoFence: true},
		"any holder accepted":     {NoHolder: true},
		"epoch not raised":        {SameEpoch: true},
		"two leases":              {DoubleLease: true},
		"unique keys given twice": {NoUnique: true},
		"orders lost":             {LoseOrders: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				if storetest.CheckLinearizable(t.Context(), memory.New(memory.Config{Faults: faults}), seed) != nil {
					return
				}
			}
			t.Error("not noticed in 50 histories")
		})
	}
}
