package memory_test

import (
	"testing"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/store/storetest"
)

func open(*testing.T) store.Store { return memory.New(memory.Config{}) }

func TestStore(t *testing.T) { storetest.Run(t, open) }
