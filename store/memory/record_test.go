package memory_test

import (
	"testing"

	"github.com/ebbhq/ebb/store/storetest"
)

func TestRecords(t *testing.T) { storetest.RunRecords(t, open) }

func TestRecordTransactions(t *testing.T) { storetest.RunRecordsTx(t, joinable) }
