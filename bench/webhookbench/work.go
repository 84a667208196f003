package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/work/webhook"
	"github.com/ebbhq/ebb/worker"
)

const (
	// connections is what the preset has; the bare loop has as many.
	connections = 20
	// endpoints share the work: each takes four calls at once by the preset.
	endpoints = 10
	// everybody owns an endpoint of each, patient one of each that takes its
	// time.
	everybody = "everybody"
	patient   = "patient"
)

// bare is a loop over a client: so many signed messages to the receiver, by as
// many connections as the sender has. It remembers nothing.
func bare(ctx context.Context, to *receiver, path string, n int) (perSecond float64, err error) {
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var group sync.WaitGroup
	failures := make(chan error, connections)
	begin := time.Now()
	for i := range connections {
		group.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := post(ctx, client, signer, to.url+"/in/"+path+strconv.Itoa(i%endpoints)); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(begin).Seconds()
	close(failures)
	for e := range failures {
		err = errors.Join(err, e)
	}
	return float64(n) / took, err
}

func post(ctx context.Context, client *http.Client, signer *standardwebhooks.Webhook, url string) error {
	now := time.Now()
	payload, id := payloadAt(now), "evt_"+rand.Text()
	signature, err := signer.Sign(id, now, payload)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return err
}

// sender is Ebb over a fresh database, with its endpoints.
type sender struct {
	client *ebb.Client
	hooks  *webhook.Service
	owners []string // one for each endpoint
}

func newSender(ctx context.Context, url string, to *receiver) (*sender, error) {
	client, err := ebb.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	s := &sender{client: client}
	keeper, err := access.New(client.Store(), nil, bytes.Repeat([]byte{1}, access.KeySize))
	if err == nil {
		s.hooks, err = webhook.New(webhook.Config{Store: client.Store(), Seal: keeper, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	}
	for i := 0; err == nil && i < endpoints; i++ {
		own := "owner-" + strconv.Itoa(i)
		for _, owner := range []string{own, everybody, patient} {
			path := strconv.Itoa(i)
			if owner == patient {
				path = slowPath + path
			}
			if _, _, err = s.hooks.Add(ctx, webhook.NewEndpoint{URL: to.url + "/in/" + path, Owner: owner, Secret: secret}); err != nil {
				break
			}
		}
		s.owners = append(s.owners, own)
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return s, nil
}

func (s *sender) close() error {
	s.hooks.Close()
	return s.client.Close()
}

// run starts the worker; stop ends it.
func (s *sender) run(ctx context.Context) (w *worker.Worker, stop func() error, err error) {
	w, err = worker.New(s.client.Store(), worker.Config{Handlers: s.hooks.Handlers(), Queues: []string{webhook.Queue}, Policies: s.hooks.Policies()})
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return w, func() error { w.Stop(); return <-ended }, nil
}

// compare fills the queue, then delivers it all between two runs of the bare
// loop.
func (s *sender) compare(ctx context.Context, to *receiver, owner, path string, n int, found *pairs) error {
	if err := s.fill(ctx, owner, n); err != nil {
		return err
	}
	before, err := aside(ctx, to, path, n)
	if err != nil {
		return err
	}
	rate, err := s.empty(ctx, to, n)
	if err != nil {
		return err
	}
	after, err := aside(ctx, to, path, n)
	found.ebb, found.bare = append(found.ebb, rate), append(found.bare, (before+after)/2)
	return err
}

// aside runs the bare loop and lets the receiver forget it.
func aside(ctx context.Context, to *receiver, path string, n int) (perSecond float64, err error) {
	if perSecond, err = bare(ctx, to, path, n); err != nil {
		return 0, fmt.Errorf("bare loop: %w", err)
	}
	_, err = to.taken(ctx)
	return perSecond, err
}

func (s *sender) fill(ctx context.Context, owner string, n int) error {
	for range n / endpoints {
		if _, err := s.hooks.Send(ctx, webhook.Message{Type: "bench.sent", Payload: payloadAt(time.Now()), Owner: owner}); err != nil {
			return err
		}
	}
	return nil
}

// empty delivers all: the time ends when every outcome is in the database. The
// receiver tells whether all have come.
func (s *sender) empty(ctx context.Context, to *receiver, n int) (perSecond float64, err error) {
	begin := time.Now()
	w, stop, err := s.run(ctx)
	if err != nil {
		return 0, err
	}
	err = w.Quiet(ctx)
	took := time.Since(begin).Seconds()
	if err = errors.Join(err, stop()); err != nil {
		return 0, err
	}
	if got, err := to.taken(ctx); err != nil || len(got) != n {
		return 0, errors.Join(err, fmt.Errorf("received %d of %d", len(got), n))
	}
	return float64(n) / took, nil
}

// trickle sends events at a rate and returns when all have arrived.
func (s *sender) trickle(ctx context.Context, perSecond, n int) (err error) {
	w, stop, err := s.run(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var group sync.WaitGroup
	failures := make(chan error, n)
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for i := range n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		group.Go(func() {
			_, err := s.hooks.Send(ctx, webhook.Message{Type: "bench.sent", Payload: payloadAt(time.Now()), Owner: s.owners[i%endpoints]})
			failures <- err
		})
	}
	group.Wait()
	close(failures)
	for e := range failures {
		err = errors.Join(err, e)
	}
	if err != nil {
		return err
	}
	return w.Quiet(ctx)
}
