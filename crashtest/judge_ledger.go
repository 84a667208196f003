package crashtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
)

// clockError is how well a worker of a busy machine knows the store's clock, by
// which the ledger's instants are written: those of two processes may differ by
// twice as much.
const clockError = 50 * time.Millisecond

// ledger judges limits, budgets and keys once more, by the store's own rows.
// Crashes are left out: what a dead process had marked as begun may not have
// begun, and ended when it died, not when that was found.
func (f *flow) ledger() {
	targets, keys := map[string][]*run{}, map[string][]*run{}
	for seq, rows := range f.in.Ledger {
		order := f.orders[seq]
		for i := range rows {
			row := &rows[i]
			if row.Class == failure.Crash {
				continue
			}
			f.report.Rows++
			r := &run{until: sinceEpoch(row.EndedAt) - 2*clockError}
			r.Mono, r.Start, r.Process = sinceEpoch(row.StartedAt), row.Start, row.Process
			r.Ref = store.Ref{Seq: seq, Epoch: row.Epoch}
			if order.Target != "" {
				targets[order.Target] = append(targets[order.Target], r)
			}
			if order.Key != "" {
				keys[order.Key] = append(keys[order.Key], r)
			}
		}
	}
	for target, runs := range targets {
		slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.Mono, b.Mono) })
		name := "ledger of " + target
		switch f.orders[runs[0].Seq].Policy {
		case Limited, Breaking, Parking:
			f.atOnce(name, runs)
		case Budgeted:
			allowance := Allowance
			allowance.TTL -= 2 * clockError
			f.budget(name, runs, allowance)
		}
	}
	for key, runs := range keys {
		slices.SortFunc(runs, func(a, b *run) int {
			return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Epoch, b.Epoch))
		})
		for i := 1; i < len(runs); i++ {
			if before, after := runs[i-1], runs[i]; after.Mono < before.until {
				f.breaks("ledger of key %s: job %d began %s before job %d ended", key, after.Seq, before.until-after.Mono, before.Seq)
			}
		}
	}
}

func sinceEpoch(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }
