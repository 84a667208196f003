package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// ErrUnique is returned by an enqueue that refuses a taken unique key.
var ErrUnique = errors.New("store: the unique key is taken")

// prepareFlow checks what flow control reads and writes the scope of a unique
// key into it, so that stores compare nothing but the key. The queue is set.
func prepareFlow(n *job.New) error {
	if strings.HasPrefix(n.Target, QueuePrefix) {
		return fmt.Errorf("store: enqueue: target %q: names that begin with %q are for the limits of queues", n.Target, QueuePrefix)
	}
	switch n.KeyRule {
	case job.KeyBlock, job.KeySkip, job.KeyPark:
	default:
		return fmt.Errorf("store: enqueue: key rule %q: want %q, %q or nothing, which blocks", n.KeyRule, job.KeySkip, job.KeyPark)
	}
	if n.KeyRule != job.KeyBlock && n.Key == "" {
		return fmt.Errorf("store: enqueue: key rule %q without a key", n.KeyRule)
	}
	switch n.Conflict {
	case job.ConflictKeep, job.ConflictReplace, job.ConflictRefuse:
	default:
		return fmt.Errorf("store: enqueue: conflict %q: want %q, %q or nothing, which keeps the job there is", n.Conflict, job.ConflictReplace, job.ConflictRefuse)
	}
	if n.UniqueFor < 0 {
		return fmt.Errorf("store: enqueue: unique for %s: must not be negative", n.UniqueFor)
	}
	if n.Unique == "" {
		if n.UniqueScope != "" || n.UniqueFor != 0 || n.Conflict != "" {
			return errors.New("store: enqueue: unique scope, time or conflict without a unique key")
		}
		return nil
	}
	switch n.UniqueScope {
	case job.UniqueEverywhere:
	case job.UniqueInQueue:
		n.Unique = "queue " + n.Queue + ": " + n.Unique
	case job.UniqueInKind:
		n.Unique = "kind " + n.Kind + ": " + n.Unique
	default:
		return fmt.Errorf("store: enqueue: unique scope %q: want %q, %q or nothing, which means everywhere", n.UniqueScope, job.UniqueInQueue, job.UniqueInKind)
	}
	n.UniqueScope = job.UniqueEverywhere // it stands in the key now
	return nil
}

// Retrying reports whether the next start of a job is a retry to its gate:
// it has started since it was enqueued or queued again by an order.
func Retrying(h retry.History) bool { return !h.FirstStartAt.IsZero() }

// CheckEnding refuses an end that a waiting job cannot have.
func CheckEnding(e Ending) error {
	if e.To != job.Failed && e.To != job.Parked || !job.Allowed(job.Queued, e.To, e.Cause) {
		return fmt.Errorf("store: end waiting: %q: from queued to %q with cause %q: %w", e.Target, e.To, e.Cause, ErrState)
	}
	return nil
}

// Selects reports whether the job is one to end.
func (e *Ending) Selects(j *job.Job) bool {
	if j.State != job.Queued || j.Target != e.Target || j.DueAt.After(e.DueBy) || !selects(e.Policy, j.Policy) {
		return false
	}
	if !e.Any && e.Retries != Retrying(j.History) {
		return false
	}
	if len(e.Seqs) == 0 {
		return j.History.Held == 0
	}
	return slices.Contains(e.Seqs, j.Seq)
}

// Abandoned is the gate of a target after a process that held permits of it
// died: they come back, counting neither way, and a lost probe frees its
// place. The lanes may be looked at; whoever claims next finds out more.
func Abandoned(g Gate, process int64, now time.Time) Gate {
	// Whatever the policy's figures are: an outcome that counts neither way
	// needs a breaker that is on, and nothing of its figures.
	c := gate.Config{Breaker: policy.Breaker{Consecutive: 1}}
	grants := make([]Grant, 0, len(g.Grants))
	for _, held := range g.Grants {
		if held.Process != process {
			grants = append(grants, held)
			continue
		}
		for i := range held.Size() {
			e := gate.Abandon{Retry: i < held.Retries, Probe: held.Probe}
			g.State, _ = gate.Step(c, g.State, e, now, 0)
		}
	}
	g.Grants, g.OpenAt, g.Room = grants, time.Time{}, NoLimit
	return g
}

// GrantOf returns what the process holds of the gate.
func (g *Gate) GrantOf(process int64) Grant {
	i, found := slices.BinarySearchFunc(g.Grants, process, byProcess)
	if !found {
		return Grant{Process: process}
	}
	return g.Grants[i]
}

// SetGrant writes what a process holds; one of size 0 is taken out.
func (g *Gate) SetGrant(held Grant) {
	grants := slices.Clone(g.Grants)
	i, found := slices.BinarySearchFunc(grants, held.Process, byProcess)
	switch {
	case held.Size() == 0 && found:
		grants = slices.Delete(grants, i, i+1)
	case held.Size() == 0:
	case found:
		grants[i] = held
	default:
		grants = slices.Insert(grants, i, held)
	}
	g.Grants = grants
}

func byProcess(g Grant, process int64) int {
	switch {
	case g.Process < process:
		return -1
	case g.Process > process:
		return 1
	}
	return 0
}

// UnknownGates leaves out of the gates that a turn is answered with those that
// the caller knows as they are.
func UnknownGates(t *Turn, swapped []bool, gates []Gate) []Gate {
	known := KnownGates(t, swapped)
	return slices.DeleteFunc(gates, func(g Gate) bool { return g.Version > 0 && known[g.Target] == g.Version })
}

// KnownGates are the versions of the gates that the caller of a turn knows: if one
// still has it, the answer leaves it out. A lost swap is always told.
func KnownGates(t *Turn, swapped []bool) map[string]int64 {
	known := make(map[string]int64, len(t.Lanes))
	for i := range t.Lanes {
		if c := &t.Lanes[i]; c.Known > 0 {
			known[c.Target] = c.Known
		}
	}
	for i, done := range swapped {
		if !done {
			delete(known, t.Swaps[i].Target)
		}
	}
	return known
}
