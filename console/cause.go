package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

// causeRow is how many jobs have one cause.
type causeRow struct {
	Cause job.Cause
	Count int64
	Link  string // to those jobs
	Means string
}

// causeMeans says what a cause means, to who sees it for the first time.
var causeMeans = map[job.Cause]string{
	retry.CauseExhausted:  "no attempt was left",
	retry.CauseFatal:      "no retry could have helped",
	retry.CausePoison:     "they took their processes down",
	retry.CauseExpired:    "their time ran out before their attempts did",
	retry.CauseConfig:     "a setting or a credential must be changed",
	retry.CauseNoProgress: "they started again and again without progress",
	retry.CauseTargetDown: "their target is down; they go on by themselves when it is well, their attempts unspent",
	job.HostLost:          "the host that ran them does not answer",
	job.Disabled:          "their target is disabled: nothing starts before it is resumed",
	job.HeadFailed:        "the job ahead in their key failed",
}

// rowsOf puts counts into rows, most first.
func rowsOf(path string, f engine.Filter, counts map[job.Cause]int64) []causeRow {
	rows := make([]causeRow, 0, len(counts))
	for cause, n := range counts {
		f.Cause, f.Fingerprint = cause, ""
		rows = append(rows, causeRow{Cause: cause, Count: n, Link: path + "?" + query(f).Encode(), Means: causeMeans[cause]})
	}
	slices.SortFunc(rows, func(a, b causeRow) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(string(a.Cause), string(b.Cause)))
	})
	return rows
}

// deadCauses counts dead letters by cause.
func deadCauses(f engine.Filter, groups []engine.Group) []causeRow {
	counts := map[job.Cause]int64{}
	for i := range groups {
		counts[groups[i].Cause] += groups[i].Count
	}
	f.State = "" // the page's own
	return rowsOf("/dead", f, counts)
}

// parkedSum tells of parked jobs by cause, and of those that wait for a
// target by target.
type parkedSum struct {
	Causes []causeRow
	Down   []downTarget
	Looked int // older ones are not counted beyond so many; 0 = all are counted
}

// downTarget is a target that jobs wait for until it is well.
type downTarget struct {
	Name string
	Jobs int64
	Link string // to those jobs
}

// Probe is the command that does not wait for the next probe.
func (d downTarget) Probe() string { return "ebb target probe " + engine.Shell(d.Name) }

// maxDown is how many such targets a page names.
const maxDown = 5

// parked counts the newest parked jobs of the queues that the visitor may see.
func (s *server) parked(ctx context.Context, r *http.Request, f engine.Filter) (*parkedSum, error) {
	queues := queues(r)
	if queues == nil || f.Queue != "" {
		queues = []string{f.Queue}
	}
	f.State, f.Cause = job.Parked, ""
	causes, targets := map[job.Cause]int64{}, map[string]int64{}
	sum := &parkedSum{}
	for _, f.Queue = range queues {
		list, err := s.Ops.Jobs(ctx, f, engine.Page{Limit: engine.MaxLimit, Rows: engine.PageRows})
		if err != nil {
			return nil, err
		}
		for i := range list.Jobs {
			j := &list.Jobs[i]
			causes[j.Cause]++
			if j.Cause == retry.CauseTargetDown {
				targets[j.Target]++
			}
		}
		if list.Next != "" {
			sum.Looked = engine.MaxLimit
		}
	}
	if len(queues) > 1 {
		f.Queue = ""
	}
	sum.Causes = rowsOf("/jobs", f, causes)
	for name, n := range targets {
		down := f
		down.Cause, down.Target = retry.CauseTargetDown, name
		sum.Down = append(sum.Down, downTarget{Name: name, Jobs: n, Link: "/jobs?" + query(down).Encode()})
	}
	slices.SortFunc(sum.Down, func(a, b downTarget) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), strings.Compare(a.Name, b.Name)) })
	return sum, nil
}

// Named are the targets that the page names.
func (p *parkedSum) Named() []downTarget { return p.Down[:min(len(p.Down), maxDown)] }

// Unnamed is how many more there are.
func (p *parkedSum) Unnamed() int { return max(len(p.Down)-maxDown, 0) }
