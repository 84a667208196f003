package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"
	"time"
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
		return secretText(key), nil
	}
	text, ok := strings.CutPrefix(given, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return "", invalid("endpoint: secret: want %s and %d to %d bytes in base64, as Standard Webhooks says", secretPrefix, minSecret, maxSecret)
	}
	return given, nil
}

func secretText(key []byte) string { return secretPrefix + base64.StdEncoding.EncodeToString(key) }

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

// signer signs with one secret until it expires, as Standard Webhooks says:
// HMAC-SHA256 over id, time and payload. Its library does the same and makes
// the key's two blocks and a copy of the payload anew each time, which is most
// of the cost; tests hold the two together.
type signer struct {
	pens      *sync.Pool // of *pen
	expiresAt time.Time  // zero = never
}

// pen is what one signature at a time is written with.
type pen struct {
	mac  hash.Hash
	text []byte
}

func newSigner(secret string, expiresAt time.Time) (signer, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil {
		return signer{}, fmt.Errorf("webhook: secret: %w", err)
	}
	return signer{&sync.Pool{New: func() any { return &pen{mac: hmac.New(sha256.New, key)} }}, expiresAt}, nil
}

// sign adds a signature to b.
func (k *signer) sign(b []byte, id, seconds string, payload []byte) []byte {
	p := k.pens.Get().(*pen) //nolint:forcetypeassert // nothing else is put; unsigned is worse than a panic
	p.text = append(append(append(append(p.text[:0], id...), '.'), seconds...), '.')
	_, _ = p.mac.Write(p.text) // a hash takes everything
	_, _ = p.mac.Write(payload)
	p.text = p.mac.Sum(p.text[:0])
	b = base64.StdEncoding.AppendEncode(append(b, "v1,"...), p.text)
	p.mac.Reset()
	k.pens.Put(p)
	return b
}

func (s *Service) signers(doc *endpointDoc) ([]signer, error) {
	list := make([]signer, 0, len(doc.Secrets))
	for _, k := range doc.Secrets {
		secret, err := s.config.Seal.Open(k.Sealed, label(doc.ID, "secret"))
		if err != nil {
			return nil, err
		}
		one, err := newSigner(string(secret), k.ExpiresAt)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// signatures are those by every secret that has not expired, newest first.
func signatures(signers []signer, id, seconds string, at time.Time, payload []byte) string {
	all := make([]byte, 0, 64)
	for i := range signers {
		k := &signers[i]
		if !k.expiresAt.IsZero() && !at.Before(k.expiresAt) {
			continue
		}
		if len(all) > 0 {
			all = append(all, ' ')
		}
		all = k.sign(all, id, seconds, payload)
	}
	return string(all)
}
