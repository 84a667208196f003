package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/store"
)

const (
	keyHeader = "Idempotency-Key"
	kindOnce  = "idempotency"
	// KeptFor is how long an idempotency key is remembered.
	KeptFor = 24 * time.Hour
	// underWay is how long a request may take before its key says that nobody
	// knows what came of it.
	underWay = 2 * time.Minute
	maxKey   = 255
)

// answered is what is remembered of a request with a key.
type answered struct {
	Request string    `json:"request"` // sum of method, path and body
	At      time.Time `json:"at"`
	Status  int       `json:"status"` // 0 = under way
	Type    string    `json:"type,omitempty"`
	Answer  []byte    `json:"answer,omitempty"`
}

// once answers the first request of a key by doing it, and all others as the
// first was answered.
func (s *server) once(w http.ResponseWriter, r *http.Request, key string, body []byte, act func() (int, any, error)) {
	if len(key) > maxKey {
		problem(http.StatusBadRequest, "idempotency", "a UUID will do", "%s: has %d characters, at most %d", keyHeader, len(key), maxKey).write(w)
		return
	}
	p, _ := access.PrincipalOf(r.Context())
	id := digest([]byte(p.Name + "\x00" + p.TokenID + "\x00" + key))
	now := s.Clock.Now()
	mine := answered{Request: digest([]byte(r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.RawQuery+"\n"), body), At: now}
	version, err := s.put(r.Context(), id, 0, mine)
	if errors.Is(err, store.ErrConflict) {
		s.again(w, r, id, mine)
		return
	}
	if err != nil {
		s.problemOf(r, err).write(w)
		return
	}
	status, out, err := act()
	kind := "application/json"
	if err != nil {
		p := s.problemOf(r, err)
		status, out, kind = p.Status, p, "application/problem+json"
	}
	// What is done is remembered though the caller has gone.
	ctx := context.WithoutCancel(r.Context())
	if status >= http.StatusInternalServerError {
		_, err = s.Records.Write(ctx, now, store.Write{Drops: []store.Record{{Kind: kindOnce, ID: id, Version: version}}})
	} else {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		if err = e.Encode(out); err == nil {
			mine.Status, mine.Type, mine.Answer = status, kind, text.Bytes()
			_, err = s.put(ctx, id, version, mine)
		}
	}
	if err != nil {
		s.Log.Error("idempotency key not kept", "error", err)
	}
	if p, ok := out.(*Problem); ok {
		p.write(w)
		return
	}
	reply(w, status, out)
}

// put writes what is remembered and returns its version.
func (s *server) put(ctx context.Context, id string, version int64, a answered) (int64, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return 0, fmt.Errorf("idempotency: %w", err)
	}
	row := store.Record{Kind: kindOnce, ID: id, Version: version, ExpiresAt: a.At.Add(KeptFor), Body: body}
	_, err = s.Records.Write(ctx, s.Clock.Now(), store.Write{Puts: []store.Record{row}})
	return version + 1, err
}

// again answers a request whose key is known.
func (s *server) again(w http.ResponseWriter, r *http.Request, id string, mine answered) {
	row, err := s.Records.Record(r.Context(), kindOnce, id)
	if err != nil {
		s.problemOf(r, err).write(w)
		return
	}
	var first answered
	if err := json.Unmarshal(row.Body, &first); err != nil {
		s.problemOf(r, err).write(w)
		return
	}
	switch {
	case first.Request != mine.Request:
		problem(http.StatusConflict, "idempotency", "take a new key for a new request", "%s: was used for another request", keyHeader).write(w)
	case first.Status == 0 && mine.At.Sub(first.At) < underWay:
		w.Header().Set("Retry-After", "1")
		problem(http.StatusConflict, "under_way", "the same again in a moment", "%s: the first request is still under way", keyHeader).write(w)
	case first.Status == 0:
		problem(http.StatusConflict, "outcome_unknown", "look whether it was done; if not, ask again with a new key",
			"%s: the server stopped during the first request; nobody knows what came of it", keyHeader).write(w)
	default:
		w.Header().Set("Content-Type", first.Type)
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(first.Status)
		if first.Status != http.StatusNoContent {
			_, _ = w.Write(first.Answer) // the caller has gone
		}
	}
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
