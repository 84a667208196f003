package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/audit"
	"github.com/ebbhq/ebb/retry"
)

// AuditScope bounds what an audit reads.
type AuditScope struct {
	Kind  string    // empty = all
	Since time.Time // jobs enqueued (living) or ended (others) from then on; zero = all that is kept
	Limit int       // most jobs with failures whose ledger is read; default DefaultAuditLimit
}

const (
	// DefaultAuditLimit is how many jobs with failures an audit reads.
	DefaultAuditLimit = 5000
	// auditSearch is how many jobs are looked at for one to read.
	auditSearch = 20
)

// Audited is the report with how much was read for it.
type Audited struct {
	audit.Report
	Looked int  // jobs looked at
	More   bool // there are more that were not
	// Parked are jobs of the policy that wait until their target is well, most
	// first. Nothing is broken by it: their attempts are unspent.
	Parked []ParkedFor
}

// ParkedFor is how many jobs were parked because a target is down.
type ParkedFor struct {
	Target    string
	Jobs      int
	DownSince time.Time // zero = it is not down any more, or that is not known
}

// Audit asks whether the ledger keeps what the policy promises, from the
// newest job back. Accepted versions of the policy are judged by themselves.
// It reads through any Ops, a page at a time.
func Audit(ctx context.Context, ops Ops, promise *policy.Policy, accepted []policy.Policy, scope AuditScope) (Audited, error) {
	a, err := audit.New(promise, accepted...)
	if err != nil {
		return Audited{}, &invalidError{text: err.Error()}
	}
	if scope.Limit == 0 {
		scope.Limit = DefaultAuditLimit
	}
	if scope.Limit < 0 {
		return Audited{}, invalid("policy audit: limit %d: must be 1 or more", scope.Limit)
	}
	var out Audited
	if err := out.readExpired(ctx, ops, a, promise.Name, scope); err != nil {
		return out, err
	}
	if err := out.readParked(ctx, ops, promise.Name, scope); err != nil {
		return out, err
	}
	read := 0
	page := Page{Limit: MaxLimit}
	for {
		list, err := ops.Jobs(ctx, Filter{Kind: scope.Kind, Since: scope.Since}, page)
		if err != nil {
			return out, fmt.Errorf("policy audit: %w", err)
		}
		for i := range list.Jobs {
			if read == scope.Limit || out.Looked == scope.Limit*auditSearch {
				out.More = true
				break
			}
			out.Looked++
			j := &list.Jobs[i]
			if j.Policy != promise.Name || j.LastClass == "" {
				continue
			}
			read++
			if err := auditJob(ctx, ops, a, j); err != nil {
				return out, err
			}
		}
		if page.Cursor = list.Next; page.Cursor == "" || out.More {
			out.Report = a.Report()
			return out, nil
		}
	}
}

// readExpired reads the dead letters of the policy whose time ran out, also
// those that never started, in whatever number of others they stand.
func (out *Audited) readExpired(ctx context.Context, ops Ops, a *audit.Audit, name string, scope AuditScope) error {
	read := 0
	return out.each(ctx, ops, Filter{State: job.Failed, Cause: retry.CauseExpired, Kind: scope.Kind, Since: scope.Since}, scope, func(j *Job) (bool, error) {
		if j.Policy != name {
			return true, nil
		}
		if read++; read > scope.Limit {
			return false, nil
		}
		seq, err := job.ParseID(j.ID)
		if err != nil {
			return false, err
		}
		e := audit.Expiry{Seq: seq, Attempts: j.Attempts, Version: j.PolicyVersion, EndedAt: j.EndedAt, DeadlineAt: j.DeadlineAt}
		if j.Starts > 0 {
			if e.Starts, err = ledgerOf(ctx, ops, j); err != nil {
				return false, err
			}
		}
		a.AddExpired(e)
		return true, nil
	})
}

// maxDown is how many targets are asked since when they are down.
const maxDown = 20

// readParked counts the jobs of the policy that wait until their target is
// well.
func (out *Audited) readParked(ctx context.Context, ops Ops, name string, scope AuditScope) error {
	jobs := map[string]int{}
	err := out.each(ctx, ops, Filter{State: job.Parked, Cause: retry.CauseTargetDown, Kind: scope.Kind, Since: scope.Since}, scope, func(j *Job) (bool, error) {
		if j.Policy == name {
			jobs[j.Target]++
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for target, n := range jobs {
		out.Parked = append(out.Parked, ParkedFor{Target: target, Jobs: n})
	}
	slices.SortFunc(out.Parked, func(x, y ParkedFor) int {
		return cmp.Or(cmp.Compare(y.Jobs, x.Jobs), strings.Compare(x.Target, y.Target))
	})
	for i := range out.Parked[:min(len(out.Parked), maxDown)] {
		p := &out.Parked[i]
		t, err := ops.Target(ctx, p.Target)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("policy audit: %w", err)
		}
		p.DownSince = t.DownSince()
	}
	return nil
}

// each reads the jobs of a filter, newest first, until do says that it is
// enough. More is set where some were left.
func (out *Audited) each(ctx context.Context, ops Ops, f Filter, scope AuditScope, do func(*Job) (bool, error)) error {
	looked := 0
	for page := (Page{Limit: MaxLimit}); ; {
		list, err := ops.Jobs(ctx, f, page)
		if err != nil {
			return fmt.Errorf("policy audit: %w", err)
		}
		for i := range list.Jobs {
			if looked++; looked > scope.Limit*auditSearch {
				out.More = true
				return nil
			}
			goOn, err := do(&list.Jobs[i])
			if err != nil {
				return err
			}
			if !goOn {
				out.More = true
				return nil
			}
		}
		if page.Cursor = list.Next; page.Cursor == "" {
			return nil
		}
	}
}

func auditJob(ctx context.Context, ops Ops, a *audit.Audit, j *Job) error {
	seq, err := job.ParseID(j.ID)
	if err != nil {
		return err
	}
	starts, err := ledgerOf(ctx, ops, j)
	if err != nil {
		return err
	}
	a.Add(audit.Job{Seq: seq, Attempts: j.Attempts, Starts: starts})
	return nil
}

// ledgerOf reads the ledger of a job as an audit takes it.
func ledgerOf(ctx context.Context, ops Ops, j *Job) ([]audit.Start, error) {
	rows, err := ops.Attempts(ctx, j.ID)
	if err != nil {
		return nil, fmt.Errorf("policy audit: %w", err)
	}
	var starts []audit.Start
	for i := range rows {
		r := &rows[i]
		class := failure.Unknown
		if r.Class != "" {
			if class, err = failure.ParseClass(r.Class); err != nil {
				return nil, fmt.Errorf("policy audit: job %s: start %d: %w", j.ID, r.Start, err)
			}
		}
		starts = append(starts, audit.Start{
			Number: r.Start, StartedAt: r.StartedAt, EndedAt: r.EndedAt, OK: r.OK, Class: class, Reason: r.Reason, Status: r.Status,
			RetryAfter: seconds(r.RetryAfter), Cause: r.Cause, Delay: seconds(r.Delay), DueAt: r.DueAt, HeldBy: r.HeldBy, Held: seconds(r.Held),
			Counted: r.Counted, Rule: r.Rule, Version: r.PolicyVersion,
		})
	}
	return starts, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
