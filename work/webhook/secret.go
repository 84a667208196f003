package webhook

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	secretPrefix = "whsec_"
	secretSize   = 32 // bytes of a secret made here; the spec allows 24 to 64
	minSecret    = 24
	maxSecret    = 64
)

// maxSecrets is how many may sign at once: each call carries a signature by
// every one.
const maxSecrets = 10

// DefaultOverlap is how long the secret before signs too after a rotation.
const DefaultOverlap = 24 * time.Hour

// Secret is a signing secret as it can be shown: not itself.
type Secret struct {
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is when it stops signing; zero = it is the newest.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// storedSecret is a Secret as it is kept.
type storedSecret struct {
	Secret
	Sealed []byte `json:"sealed"`
}

func label(endpoint, what string) string { return "webhook " + endpoint + " " + what }

// newSecret makes a secret, or checks the one that was brought along.
func (s *Service) newSecret(given string) (string, error) {
	if given == "" {
		key := make([]byte, secretSize)
		if _, err := io.ReadFull(s.config.Rand, key); err != nil {
			return "", fmt.Errorf("webhook: secret: %w", err)
		}
		return secretPrefix + base64.StdEncoding.EncodeToString(key), nil
	}
	text, ok := strings.CutPrefix(given, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return "", invalid("endpoint: secret: want %s and %d to %d bytes in base64, as Standard Webhooks says", secretPrefix, minSecret, maxSecret)
	}
	return given, nil
}

func (s *Service) sealSecret(endpoint, secret string, at time.Time) (storedSecret, error) {
	sealed, err := s.config.Seal.Seal([]byte(secret), label(endpoint, "secret"))
	if err != nil {
		return storedSecret{}, fmt.Errorf("webhook: endpoint: %s: seal: %w", endpoint, err)
	}
	return storedSecret{Secret: Secret{CreatedAt: at}, Sealed: sealed}, nil
}

func (s *Service) sealHeaders(endpoint string, headers map[string]string) ([]byte, error) {
	if len(headers) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return nil, err
	}
	sealed, err := s.config.Seal.Seal(text, label(endpoint, "headers"))
	if err != nil {
		return nil, fmt.Errorf("webhook: endpoint: %s: seal: %w", endpoint, err)
	}
	return sealed, nil
}

func (s *Service) openHeaders(doc *endpointDoc) (map[string]string, error) {
	if len(doc.Headers) == 0 {
		return nil, nil
	}
	text, err := s.config.Seal.Open(doc.Headers, label(doc.ID, "headers"))
	if err != nil {
		return nil, err
	}
	var headers map[string]string
	err = json.Unmarshal(text, &headers)
	return headers, err
}

// signer signs with one secret until it expires.
type signer struct {
	hook      *standardwebhooks.Webhook
	expiresAt time.Time // zero = never
}

func (s *Service) signers(doc *endpointDoc) ([]signer, error) {
	list := make([]signer, 0, len(doc.Secrets))
	for _, k := range doc.Secrets {
		secret, err := s.config.Seal.Open(k.Sealed, label(doc.ID, "secret"))
		if err != nil {
			return nil, err
		}
		hook, err := standardwebhooks.NewWebhook(string(secret))
		if err != nil {
			return nil, err
		}
		list = append(list, signer{hook: hook, expiresAt: k.ExpiresAt})
	}
	return list, nil
}

// sign sets the headers of Standard Webhooks: the same id for every attempt,
// the attempt's own time, a signature by every secret that has not expired,
// newest first.
func sign(h http.Header, signers []signer, id string, at time.Time, payload []byte) error {
	var all []string
	for _, k := range signers {
		if !k.expiresAt.IsZero() && !at.Before(k.expiresAt) {
			continue
		}
		one, err := k.hook.Sign(id, at, payload)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	h[http.CanonicalHeaderKey(standardwebhooks.HeaderWebhookID)] = []string{id}
	h[http.CanonicalHeaderKey(standardwebhooks.HeaderWebhookTimestamp)] = []string{strconv.FormatInt(at.Unix(), 10)}
	h[http.CanonicalHeaderKey(standardwebhooks.HeaderWebhookSignature)] = []string{strings.Join(all, " ")}
	return nil
}
