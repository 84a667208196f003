package document

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/document/model"
)

// Settings are the server's: the key `document` of the configuration file.
type Settings struct {
	// Providers by name, next to the built-in openai and anthropic; one with
	// such a name replaces fields of it.
	Providers map[string]Provider `yaml:"providers" json:"providers,omitempty"`
	// Buckets are the URLs below which documents submitted over the API may
	// read and write, such as s3://docs or file:///srv/docs. Default: none, so
	// that a token does not open the server's files. Who has the database or
	// the command line on the server is not bound by them.
	Buckets []string `yaml:"buckets" json:"buckets,omitempty"`
	Raw     Raw      `yaml:"raw" json:"raw"`
	// MaxAnswer is the most bytes of a model's answer. Default 1 MiB.
	MaxAnswer int `yaml:"max_answer" json:"max_answer,omitempty"`
}

// Provider is whom a model is asked of. It is the jobs' target: breaker, pause
// and limits are per provider, over all processes.
type Provider struct {
	// Protocol is openai, openai-responses or anthropic. Default openai.
	Protocol model.Protocol `yaml:"protocol" json:"protocol,omitempty"`
	// BaseURL is what the protocol's path is appended to, such as
	// http://127.0.0.1:11434/v1 for a local server.
	BaseURL string `yaml:"base_url" json:"base_url,omitempty"`
	// KeyEnv names the environment variable with the key; empty = no key.
	KeyEnv string `yaml:"key_env" json:"key_env,omitempty"`
	// Stream asks for answers piece by piece; Idle is then the longest time
	// without one. Default 60 s.
	Stream bool     `yaml:"stream" json:"stream,omitempty"`
	Idle   Duration `yaml:"idle" json:"idle,omitempty"`
	// Unstructured leaves the schema to the prompt, for servers that do not
	// know structured output.
	Unstructured bool `yaml:"unstructured" json:"unstructured,omitempty"`
	// Concurrency, RequestsPerMinute and TokensPerMinute bound the provider
	// over all processes; 0 = no limit.
	Concurrency       int     `yaml:"concurrency" json:"concurrency,omitempty"`
	RequestsPerMinute float64 `yaml:"requests_per_minute" json:"requests_per_minute,omitempty"`
	TokensPerMinute   int64   `yaml:"tokens_per_minute" json:"tokens_per_minute,omitempty"`
	// Prices by model, in dollars for a million tokens; "*" is of all others.
	// A model without one costs nothing in the accounts.
	Prices map[string]Price `yaml:"prices" json:"prices,omitempty"`
}

// Price is dollars for a million tokens.
type Price struct {
	Input  float64 `yaml:"input" json:"input"`
	Output float64 `yaml:"output" json:"output"`
}

// Raw is what is kept of answers that break their schema.
type Raw struct {
	MaxBytes int      `yaml:"max_bytes" json:"max_bytes,omitempty"` // of each; the rest is cut. Default 64 KiB; negative = none is kept
	Keep     Duration `yaml:"keep" json:"keep,omitempty"`           // how long. Default 30 days
	// Redact are regular expressions; what they match is replaced before
	// anything is kept.
	Redact []string `yaml:"redact" json:"redact,omitempty"`
}

// Duration is a time.Duration that is written as 30s or 12h.
type Duration time.Duration

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return fmt.Errorf("%q: must be a duration such as 30s or 12h", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

const (
	defaultIdle     = Duration(time.Minute)
	defaultRawBytes = 64 << 10
	defaultRawKeep  = Duration(30 * 24 * time.Hour)
)

var builtin = map[string]Provider{
	"openai":    {Protocol: model.Chat, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"},
	"anthropic": {Protocol: model.Messages, BaseURL: "https://api.anthropic.com/v1", KeyEnv: "ANTHROPIC_API_KEY"},
}

// fill returns the settings with defaults, checked.
func (s Settings) fill() (Settings, error) {
	providers := maps.Clone(builtin)
	for name, p := range s.Providers {
		if err := p.fill(name, providers[name]); err != nil {
			return s, err
		}
		providers[name] = p
	}
	for name, p := range providers {
		if p.Idle == 0 {
			p.Idle = defaultIdle
			providers[name] = p
		}
	}
	s.Providers = providers
	for _, b := range s.Buckets {
		if u, err := url.Parse(b); err != nil || u.Scheme == "" {
			return s, invalidf("document: buckets: %q: must be a URL such as s3://docs or file:///srv/docs", b)
		}
	}
	if s.Raw.MaxBytes == 0 {
		s.Raw.MaxBytes = defaultRawBytes
	}
	if s.Raw.Keep == 0 {
		s.Raw.Keep = defaultRawKeep
	}
	if s.MaxAnswer == 0 {
		s.MaxAnswer = model.DefaultMaxAnswer
	}
	if s.MaxAnswer < 0 {
		return s, invalidf("document: max_answer %d: must be 0 (the default) or more bytes", s.MaxAnswer)
	}
	return s, nil
}

// fill takes what is not given from base and checks the rest.
func (p *Provider) fill(name string, base Provider) error {
	if name == "" || strings.ContainsAny(name, "/: \t\n") {
		return invalidf("document: provider %q: a name without / : and spaces", name)
	}
	p.Protocol = cmp.Or(p.Protocol, base.Protocol, model.Chat)
	p.BaseURL = cmp.Or(p.BaseURL, base.BaseURL)
	p.KeyEnv = cmp.Or(p.KeyEnv, base.KeyEnv)
	if p.Concurrency < 0 || !(p.RequestsPerMinute >= 0) || p.TokensPerMinute < 0 {
		return invalidf("document: provider %s: limits must be 0 (none) or more", name)
	}
	for m, price := range p.Prices {
		if !(price.Input >= 0) || !(price.Output >= 0) {
			return invalidf("document: provider %s: price of %s: must be 0 or more dollars for a million tokens", name, m)
		}
	}
	return nil
}

func (p *Provider) key(lookup func(string) (string, bool)) string {
	if p.KeyEnv == "" {
		return ""
	}
	key, _ := lookup(p.KeyEnv)
	return strings.TrimSpace(key)
}

// Fingerprint changes when the settings or a key do: jobs that were parked for
// a bad key come back then. It does not tell the key.
func (s Settings) Fingerprint(lookup func(string) (string, bool)) string {
	filled, err := s.fill()
	if err != nil {
		filled = s
	}
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(filled) // plain values: it cannot fail
	for _, name := range slices.Sorted(maps.Keys(filled.Providers)) {
		p := filled.Providers[name]
		fmt.Fprintf(h, "%q %q\n", name, p.key(lookup))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// limited reports whether the provider has limits that a gate keeps.
func (p *Provider) limited() bool { return p.Concurrency > 0 || p.RequestsPerMinute > 0 }

// PolicyName is the policy of a pipeline's jobs that ask the provider: where
// the provider has limits of its own, one that has them.
func (s Settings) PolicyName(base, providerName string) string {
	if base == "" {
		base = DefaultPolicy
	}
	if p, ok := s.Providers[providerName]; ok && p.limited() {
		return base + "." + providerName
	}
	return base
}

// Policies returns, for every provider with limits and every given policy for
// providers, a policy with both: the provider's concurrency and rate replace
// the policy's limits per target.
func (s Settings) Policies(known []policy.Policy) ([]policy.Policy, error) {
	var out []policy.Policy
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		p := s.Providers[name]
		if !p.limited() {
			continue
		}
		for _, base := range known {
			if base.Target != policy.Provider {
				continue
			}
			base.Name = s.PolicyName(base.Name, name)
			base.PerTarget = policy.PerTarget{Concurrency: p.Concurrency, Rate: p.RequestsPerMinute / 60}
			base.Concurrency = max(base.Concurrency, p.Concurrency) // of one process: what all may, one may
			sealed, err := policy.Seal(base)
			if err != nil {
				return nil, fmt.Errorf("document: provider %s: %w", name, err)
			}
			out = append(out, sealed)
		}
	}
	return out, nil
}
