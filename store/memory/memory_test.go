package memory_test

import (
	"flag"
	"os"
	"testing"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/store/storetest"
)

var (
	update = flag.Bool("update", false, "write the traces down anew")
	seed   = flag.Int("seed", -1, "print the trace of this seed")
)

func open(*testing.T) store.Store { return memory.New(memory.Config{}) }

func TestStore(t *testing.T) { storetest.Run(t, open) }

func TestFlow(t *testing.T) { storetest.RunFlow(t, open) }

func joinable(*testing.T) storetest.Joinable {
	s := memory.New(memory.Config{})
	return storetest.Joinable{Store: s, Concurrent: true, Begin: func() storetest.Tx {
		tx := s.Begin()
		return storetest.Tx{Join: tx, Commit: tx.Commit, Rollback: tx.Rollback}
	}}
}

func TestTransactions(t *testing.T) { storetest.RunTx(t, joinable) }

func TestFlowTransactions(t *testing.T) { storetest.RunFlowTx(t, joinable) }

// The traces of this store are those that all others are compared with.
func TestTraces(t *testing.T) {
	if *seed >= 0 {
		t.Logf("\n%s", storetest.Trace(t, open, uint64(*seed), storetest.GoldenSteps))
	}
	if *update {
		if err := os.WriteFile("../storetest/testdata/traces.txt", []byte(storetest.Golden(t, open, 8)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	storetest.SameTraces(t, open)
}

func TestFlowTraces(t *testing.T) {
	if *seed >= 0 {
		t.Logf("\n%s", storetest.FlowTrace(t, open, uint64(*seed), storetest.GoldenSteps))
	}
	if *update {
		if err := os.WriteFile("../storetest/testdata/flow_traces.txt", []byte(storetest.FlowGolden(t, open, 8)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	storetest.SameFlowTraces(t, open)
}
