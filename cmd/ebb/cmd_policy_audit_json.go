package main

import (
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy/audit"
)

// auditedJSON is `policy audit --json`; durations are seconds.
type auditedJSON struct {
	Policy    string        `json:"policy"`
	Version   string        `json:"version"`
	Kept      bool          `json:"kept"` // there are no anomalies
	Anomalies []auditedFlaw `json:"anomalies"`
	Looked    int           `json:"looked"`
	More      bool          `json:"more"` // older jobs were not read
	Jobs      int           `json:"jobs"`
	Failed    int           `json:"failed_starts"`
	Foreign   int           `json:"foreign_starts"`
	Free      int           `json:"free_starts"`
	Ordered   int           `json:"ordered_starts"`
	Unsure    int           `json:"unsure_starts"`
	Early     int           `json:"early_starts"`
	Tries     []auditedTry  `json:"tries"`
	Holds     []auditedHold `json:"holds"`
	Lag       auditedLag    `json:"lag_s"`
	// Expired are dead letters whose time ran out; Parked are jobs that wait
	// until their target is well, their attempts unspent.
	Expired auditedExpired  `json:"expired"`
	Parked  []auditedParked `json:"parked"`
}

type auditedExpired struct {
	Jobs       int `json:"jobs"`
	ByDeadline int `json:"by_deadline"` // their own
	ByWindow   int `json:"by_window"`   // the policy's
}

type auditedParked struct {
	Target    string    `json:"target"`
	Jobs      int       `json:"jobs"`
	DownSince time.Time `json:"down_since,omitzero"`
}

type auditedFlaw struct {
	Rule    audit.Rule `json:"rule"`
	Attempt int        `json:"attempt,omitempty"`
	Count   int        `json:"count"`
	Words   string     `json:"words"`
	// Cause, Jobs and Try are of dead letters that ended with attempts left:
	// why, some of them, and what to do.
	Cause job.Cause `json:"cause,omitempty"`
	Jobs  []string  `json:"jobs,omitempty"`
	Try   string    `json:"try,omitempty"`
}

type auditedTry struct {
	Attempt  int       `json:"attempt"`
	Schedule string    `json:"schedule"`
	Version  string    `json:"version"`
	Accepted bool      `json:"accepted"`
	Promised shownBand `json:"promised_s"`
	Jitter   string    `json:"jitter"`
	Waits    int       `json:"waits"`
	Asked    int       `json:"asked_by_target"`
	Shortest float64   `json:"shortest_s"`
	Median   float64   `json:"median_s"`
	Longest  float64   `json:"longest_s"`
	Short    int       `json:"too_short"`
	Long     int       `json:"too_long"`
	Distance float64   `json:"ks_distance"`
	Chance   float64   `json:"ks_p"`
	Same     int       `json:"same"`
	SameAt   float64   `json:"same_at_s"`
}

type auditedHold struct {
	By      string  `json:"by"`
	Starts  int     `json:"starts"`
	Total   float64 `json:"total_s"`
	Longest float64 `json:"longest_s"`
}

type auditedLag struct {
	Starts int     `json:"starts"`
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	Most   float64 `json:"max"`
}

func auditJSON(r *engine.Audited) auditedJSON {
	out := auditedJSON{
		Policy: r.Policy, Version: r.Version, Kept: len(r.Anomalies) == 0, Anomalies: []auditedFlaw{}, Looked: r.Looked, More: r.More,
		Jobs: r.Jobs, Failed: r.Failed, Foreign: r.Foreign, Free: r.Free, Ordered: r.Ordered, Unsure: r.Unsure, Early: r.Early,
		Tries: []auditedTry{}, Holds: []auditedHold{},
		Expired: auditedExpired{Jobs: r.Expired.Jobs, ByDeadline: r.Expired.ByDeadline, ByWindow: r.Expired.ByWindow}, Parked: []auditedParked{},
		Lag: auditedLag{Starts: r.Lag.Starts, P50: r.Lag.P50.Seconds(), P99: r.Lag.P99.Seconds(), Most: r.Lag.Most.Seconds()},
	}
	for i := range r.Anomalies {
		f := &r.Anomalies[i]
		out.Anomalies = append(out.Anomalies, auditedFlaw{Rule: f.Rule, Attempt: f.Try, Count: f.Count, Words: f.Words, Cause: f.Cause, Jobs: idsOf(f), Try: tryOf(f)})
	}
	for _, p := range r.Parked {
		out.Parked = append(out.Parked, auditedParked{Target: p.Target, Jobs: p.Jobs, DownSince: p.DownSince})
	}
	for _, g := range r.Groups {
		out.Tries = append(out.Tries, auditedTry{
			Attempt: g.Try, Schedule: g.Schedule, Version: g.Version, Accepted: g.Accepted,
			Promised: shownBand{Nominal: g.Nominal.Seconds(), Min: g.Least.Seconds(), Max: g.Most.Seconds()}, Jitter: g.Jitter,
			Waits: g.Waits, Asked: g.Asked, Shortest: g.Shortest.Seconds(), Median: g.Median.Seconds(), Longest: g.Longest.Seconds(),
			Short: g.Short, Long: g.Long, Distance: g.Distance, Chance: g.Chance, Same: g.Same, SameAt: g.SameAt.Seconds(),
		})
	}
	for _, h := range r.Holds {
		out.Holds = append(out.Holds, auditedHold{By: h.By, Starts: h.Starts, Total: h.Total.Seconds(), Longest: h.Longest.Seconds()})
	}
	return out
}
