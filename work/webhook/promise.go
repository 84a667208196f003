package webhook

import (
	"fmt"
	"slices"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

// FromEnv returns the preset "webhook" with what the environment overrides:
// the variables of seed 002. The error names every variable that is wrong.
func FromEnv(lookup func(string) (string, bool)) (policy.Policy, error) {
	e, err := file.Preset(PolicyName)
	if err != nil {
		return policy.Policy{}, err
	}
	if e, err = file.ApplyEnv(e, lookup); err != nil {
		return policy.Policy{}, fmt.Errorf("webhook: %w", err)
	}
	return e.Policy, nil
}

// promise returns the policies, with "webhook" among them, and enforces what
// guards endpoints: it is the assertion of seed 002.
func (c *Config) promise() ([]policy.Policy, map[string]*policy.Policy, error) {
	all := slices.Clone(c.Policies)
	if !slices.ContainsFunc(all, func(p policy.Policy) bool { return p.Name == PolicyName }) {
		p, err := FromEnv(c.Lookup)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, p)
	}
	byName := make(map[string]*policy.Policy, len(all))
	for i := range all {
		p := &all[i]
		if byName[p.Name] != nil {
			return nil, nil, fmt.Errorf("webhook: config: policy %q: name each policy once", p.Name)
		}
		byName[p.Name] = p
		if p.Name != PolicyName && p.Target != policy.Endpoint {
			continue
		}
		if p.Version == "" {
			return nil, nil, fmt.Errorf("webhook: config: policy %s: is not sealed; policy.Seal it", p.Name)
		}
		if err := policy.Enforce(*p, c.today()); err != nil {
			return nil, nil, fmt.Errorf("webhook: config: %w", err)
		}
	}
	if p := byName[PolicyName]; p.Target != policy.Endpoint {
		return nil, nil, fmt.Errorf("webhook: config: policy %s: target %s: must be endpoint, or the guard of endpoints would not apply", p.Name, p.Target)
	}
	return all, byName, nil
}

func (c *Config) today() time.Time {
	if c.Clock != nil {
		return c.Clock.Now().UTC()
	}
	return c.Machine.Now().UTC()
}

// policyFor checks the policy that an endpoint asks for.
func (s *Service) policyFor(name string) error {
	switch p := s.byName[name]; {
	case name == "" || name == PolicyName:
		return nil
	case !s.config.EndpointPolicies:
		return invalid("endpoint: policy %q: there is one policy for all endpoints, %q, unless endpoint_policies is set", name, PolicyName)
	case p == nil:
		return invalid("endpoint: policy %q: there is none of that name; add it to the policy file", name)
	case p.Target != policy.Endpoint:
		return invalid("endpoint: policy %q: its target is %s; a policy of endpoints has target: endpoint, so that the guard applies", name, p.Target)
	}
	return nil
}

// checkPolicy refuses a delivery under a policy that is not one of endpoints:
// its retries would come by the guard of another target. Only an enqueue past
// this service can name one.
func (s *Service) checkPolicy(name string) error {
	if p := s.byName[name]; p == nil || p.Target != policy.Endpoint {
		return fmt.Errorf("policy %q is not one of endpoints; cancel the job and send the event by ebb webhook send", name)
	}
	return nil
}
