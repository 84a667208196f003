package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/telemetry"
	"github.com/ebbhq/ebb/work/webhook"
)

// webhookSettings is the key webhook of the configuration file. What is not
// given has the defaults of webhook.Config.
type webhookSettings struct {
	// AllowNetworks may be called although they are not public: CIDRs, such as
	// 10.0.0.0/8. Default none.
	AllowNetworks []string `yaml:"allow_networks"`
	// Ports that may be called. Default any.
	Ports []uint16 `yaml:"ports"`
	// HTTPSOnly refuses endpoints whose URL is not https.
	HTTPSOnly bool `yaml:"https_only"`
	// Proxy is what calls go through: http://, https:// or socks5://HOST:PORT.
	Proxy string `yaml:"proxy"`
	// EndpointPolicies lets endpoints name a policy of their own.
	EndpointPolicies bool `yaml:"endpoint_policies"`
	// MaxPayload is the largest payload, MaxResponse how much of an answer is
	// read, Excerpt how much of it is kept; in bytes.
	MaxPayload  int   `yaml:"max_payload"`
	MaxResponse int64 `yaml:"max_response"`
	Excerpt     int   `yaml:"excerpt"`
	// EventsKept, KeysKept and AttemptsKept are how long events, idempotency
	// keys and the log of attempts are kept.
	EventsKept   time.Duration `yaml:"events_kept"`
	KeysKept     time.Duration `yaml:"keys_kept"`
	AttemptsKept time.Duration `yaml:"attempts_kept"`
	// Health is when an endpoint of which everything fails is disabled.
	Health struct {
		After    time.Duration `yaml:"after"`
		Failures int           `yaml:"failures"`
		Grace    time.Duration `yaml:"grace"`
		Every    time.Duration `yaml:"every"`
	} `yaml:"health"`
}

// config is the sender's. The store, the seal and the policies are the
// caller's to add.
func (s *webhookSettings) config() (webhook.Config, error) {
	c := webhook.Config{
		Ports: s.Ports, HTTPSOnly: s.HTTPSOnly, EndpointPolicies: s.EndpointPolicies,
		MaxPayload: s.MaxPayload, MaxResponse: s.MaxResponse, Excerpt: s.Excerpt,
		EventsKept: s.EventsKept, KeysKept: s.KeysKept, AttemptsKept: s.AttemptsKept,
		Health: webhook.Health{After: s.Health.After, Failures: s.Health.Failures, Grace: s.Health.Grace, Every: s.Health.Every},
	}
	for _, text := range s.AllowNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return c, fmt.Errorf("allow_networks: %q: want a network such as 10.0.0.0/8 or fd00::/8", text)
		}
		c.AllowNetworks = append(c.AllowNetworks, network)
	}
	if s.Proxy != "" {
		var err error
		if c.Proxy, err = url.Parse(s.Proxy); err != nil {
			return c, errors.New("proxy: want http://, https:// or socks5://HOST:PORT")
		}
	}
	return c, nil
}

// webhooks makes the sender of a site.
func (a *app) webhooks(on *site) (*webhook.Service, error) {
	c, err := on.settings.Webhook.config()
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	c.Store, c.Seal, c.Policies, c.Clock, c.Log = on.store, on.keeper, on.policies, on.clock, on.log
	c.Actor, c.Lookup, c.Observe = a.actor(), a.lookup, on.observe
	if on.telemetry != nil {
		c.Wrap = on.telemetry.Transport
	}
	return webhook.New(c)
}

// webhookWork is the sending of webhooks.
func (a *app) webhookWork(on site) (workload, error) {
	w := workload{name: "webhook"}
	s, err := a.webhooks(&on)
	if err != nil {
		return w, err
	}
	w.handlers, w.queues = s.Handlers(), []string{webhook.Queue}
	w.settings = fmt.Sprintf("%+v", on.settings.Webhook)
	w.collectors = []prometheus.Collector{telemetry.NewRetryDepth(on.store, nil, webhook.Queue)}
	w.serve = func(asks *api.Config, looks *console.Config) {
		asks.Webhooks, looks.Webhooks = s, s
		// A payload comes in base64, with a little around it.
		asks.MaxBody = max(asks.MaxBody, api.DefaultMaxBody, int64(on.settings.Webhook.MaxPayload)*4/3+64<<10)
	}
	w.run = s.Run
	return w, nil
}
