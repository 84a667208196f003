package worker

import (
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
)

// route is what jobs of one kind and policy have in common.
type route struct {
	kind, name string // of the kind and the policy
	handler    Handler
	policy     *policy.Policy // nil if nobody knows it
	pace       *pace
	learnt     bool
}

// routeOf returns the route of a job: mostly that of the job before.
func (l *loop) routeOf(j *job.Job) *route {
	if r := &l.latest; r.handler == nil || r.kind != j.Kind || r.name != j.Policy {
		*r = route{kind: j.Kind, name: j.Policy, handler: l.config.Handlers[j.Kind], policy: l.policyOf(j)}
		if r.policy != nil {
			r.pace = l.limits.paces[r.policy.Name]
		}
	}
	return &l.latest
}

// runsAtOnce is how many runs share one piece of memory. It is freed with the
// last of them, so a slow one must not hold many.
const runsAtOnce = 16

// newRun makes the run of a lease.
func (l *loop) newRun(j *job.Job, way *route) *run {
	if len(l.blank) == 0 {
		l.blank = make([]run, runsAtOnce)
	}
	r := &l.blank[0]
	l.blank = l.blank[1:]
	r.worker, r.job, r.process = l.Worker, *j, l.process
	r.handler, r.policy, r.pace = way.handler, way.policy, way.pace
	r.task.run, r.ctx.run, r.ctx.parent = r, r, l.runs
	return r
}
