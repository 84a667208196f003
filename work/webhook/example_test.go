package webhook_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/webhook"
	"github.com/ebbhq/ebb/worker"
)

// seal encrypts secrets at rest. A server uses access.Keeper.
type seal struct{ cipher.AEAD }

func (s seal) Seal(secret []byte, label string) ([]byte, error) {
	return s.AEAD.Seal(nil, nil, secret, []byte(label)), nil
}

func (s seal) Open(sealed []byte, label string) ([]byte, error) {
	return s.AEAD.Open(nil, nil, sealed, []byte(label))
}

// Example sends an event to an endpoint, which verifies it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	block, _ := aes.NewCipher(make([]byte, 32)) // a real key is random, and kept
	aead, _ := cipher.NewGCMWithRandomNonce(block)

	store := memory.New(memory.Config{}) // or sqlite.Open, postgres.Open
	s, err := webhook.New(webhook.Config{
		Store: store, Seal: seal{aead},
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, // this example's receiver
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := worker.New(store, worker.Config{Handlers: s.Handlers(), Policies: s.Policies(), Queues: []string{webhook.Queue}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var group sync.WaitGroup
	group.Go(func() { _ = w.Run(ctx) })
	group.Go(func() { _ = s.Run(ctx) })

	secrets := make(chan string, 1)
	done := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hook, _ := standardwebhooks.NewWebhook(<-secrets)
		body, _ := io.ReadAll(r.Body)
		fmt.Println(string(body), hook.Verify(body, r.Header))
		close(done)
	}))
	_, secret, err := s.Add(ctx, webhook.NewEndpoint{URL: receiver.URL, Types: []string{"invoice.*"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	secrets <- secret
	if _, err := s.Send(ctx, webhook.Message{Type: "invoice.paid", Payload: []byte(`{"id":17}`), Key: "invoice-17-paid"}); err != nil {
		fmt.Println(err)
		return
	}
	<-done
	stop()
	group.Wait()
	receiver.Close()
	// Output: {"id":17} <nil>
}
