package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/audit"
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

func auditJob(ctx context.Context, ops Ops, a *audit.Audit, j *Job) error {
	seq, err := job.ParseID(j.ID)
	if err != nil {
		return err
	}
	rows, err := ops.Attempts(ctx, j.ID)
	if err != nil {
		return fmt.Errorf("policy audit: %w", err)
	}
	ledger := audit.Job{Seq: seq, Attempts: j.Attempts}
	for i := range rows {
		r := &rows[i]
		class := failure.Unknown
		if r.Class != "" {
			if class, err = failure.ParseClass(r.Class); err != nil {
				return fmt.Errorf("policy audit: job %s: start %d: %w", j.ID, r.Start, err)
			}
		}
		ledger.Starts = append(ledger.Starts, audit.Start{
			Number: r.Start, StartedAt: r.StartedAt, EndedAt: r.EndedAt, OK: r.OK, Class: class, Reason: r.Reason, Status: r.Status,
			RetryAfter: seconds(r.RetryAfter), Cause: r.Cause, Delay: seconds(r.Delay), DueAt: r.DueAt, HeldBy: r.HeldBy, Held: seconds(r.Held),
			Counted: r.Counted, Rule: r.Rule, Version: r.PolicyVersion,
		})
	}
	a.Add(ledger)
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
