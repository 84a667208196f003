package simulate

import "github.com/ebbhq/ebb/policy"

// Caller is work that calls downstreams: jobs that arrive, processes that
// start them, and a policy.
type Caller struct {
	Name     string
	Arrivals []Arrivals
	// Mode says who retries. "" = InProcess.
	Mode Mode
	// Clients is the number of processes; jobs are dealt to them in turn, a
	// Closed user stays with one. 0 = 1.
	Clients int
	// Workers is the number of jobs a process works on at once; the others
	// wait in the order of their arrival. 0 = no limit. In mode Durable a job
	// that waits for its retry occupies none unless its policy has slot:
	// keep, and the policy's concurrency, spacing, first_share and batch bound
	// the starts beside it. In mode InProcess a job occupies one from its
	// beginning to its end and the policy's process limits are not applied, as
	// retry.Do does not. In mode Waves the policy says it all and Workers
	// must be 0.
	Workers int
	// MaxWaiting is the most jobs that may wait for their first start in one
	// process; a job that finds more is turned away, and counts as a dead
	// letter of cause "turned_away". 0 = no limit.
	MaxWaiting int
	// Deadline is drawn for each job: no start later than this after its
	// arrival. Zero = none.
	Deadline Dist
	// Seed replaces the seed that retry delays derive from, for comparison
	// with a real worker of that seed. 0 = derived from the run's seed and
	// the caller's name, so that callers are independent.
	Seed uint64

	Client
}

// Mode says who retries.
type Mode string

const (
	// InProcess: retry.Do in a worker of the process, which it keeps until
	// the job ends.
	InProcess Mode = "in_process"
	// Durable: a job is queued with a due time and started by package
	// dispatch, as the engine's worker does.
	Durable Mode = "durable"
	// Waves: the jobs that arrive at one instant are one wave.Run, with the
	// policy's concurrency, spacing, tries in the slot, and waves.
	Waves Mode = "waves"
)

// Client is how something calls: what Caller and Dependency have in common.
type Client struct {
	// Policy is sealed. Its timeout, attempts, schedule, rules and max_hold
	// apply; its gate only where Gate says so.
	Policy policy.Policy
	// Targets are whom it calls. One job has one target for life.
	Targets []Target
	// Pick says how jobs choose. "" = RoundRobin.
	Pick Pick
	// Gate says whose state gate.Step keeps for a target. "" = GateNone: no
	// breaker, pause, budget or limit per target, whatever the policy says.
	Gate GateScope
	// Timeout replaces the policy's timeout by a draw for each start; nil =
	// the policy's, whose 0 means none.
	Timeout *Dist
	// Delay replaces the delay that the policy drew by a draw of its own, for
	// models whose delays no policy has (an exponential one, say); all else is
	// decided by the policy. nil = the policy's.
	Delay *Dist
	// Connections is the most calls a process has under way; a start that
	// finds none free waits in order, and its timeout runs. 0 = no limit.
	Connections int
}

// Target is a share of the jobs.
type Target struct {
	// Downstream is the name of a Downstream; with Copies each copy is a
	// target of its own.
	Downstream string
	// Weight is its share of the jobs, relative to the other targets'; a
	// downstream's copies divide it evenly. 0 = 1.
	Weight float64
	// Names divides the target into that many names, each with its own gate
	// and lane, all answered by the same downstream. 0 = 1.
	Names int
}

// Pick says how jobs choose among targets.
type Pick string

const (
	// RoundRobin: in turn, smoothly by weight.
	RoundRobin Pick = "round_robin"
	// Random: drawn by weight for each job.
	Random Pick = "random"
	// Least: the one whose downstream has the fewest requests in the system
	// when the job arrives, the first of several; weights do not count.
	Least Pick = "least"
	// TwoChoices: two are drawn by weight, and the one with fewer requests in
	// the system is taken, the first drawn of equals.
	TwoChoices Pick = "two_choices"
)

// GateScope says who shares a gate.
type GateScope string

const (
	GateNone   GateScope = "none"
	GateShared GateScope = "shared" // one per target for all callers of this scope, as in a store
	GateCaller GateScope = "caller" // one per target for the caller
	GateClient GateScope = "client" // one per target for each process
)

// Dependency makes a downstream a layer: on serving a request it calls
// another under a policy of its own, with tries in place as retry.Do.
type Dependency struct {
	// Name tells dependencies of one downstream apart. "" = the first
	// target's.
	Name string
	// Share is the probability that a request needs the call. Empty = 1.
	Share Curve
	// Calls is how many such calls a request makes, one after the other; the
	// first that fails for good fails the request. 0 = 1.
	Calls int
	// Parallel makes the Calls all at once. The request goes on when the last
	// has ended, and fails then if one failed for good.
	Parallel bool

	Client
}
