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
	"slices"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
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
	// Jobs stand instead of Answer where some were there already: what is told
	// of those is read again.
	Jobs []engine.Enqueued `json:"jobs,omitempty"`
}

// act is what a request asks for.
type act = func(context.Context) (any, error)

// once answers the first request of a key by doing it, and all others as the
// first was answered.
func (s *server) once(w http.ResponseWriter, r *http.Request, route *route, key string, body []byte, do act) {
	if len(key) > maxKey {
		problem(http.StatusBadRequest, "idempotency", "a UUID will do", "%s: has %d characters, at most %d", keyHeader, len(key), maxKey).write(w)
		return
	}
	p, _ := access.PrincipalOf(r.Context())
	id := digest([]byte(p.Name + "\x00" + p.TokenID + "\x00" + key))
	mine := answered{Request: digest([]byte(r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.RawQuery+"\n"), body), At: s.Clock.Now()}
	first := s.onceApart
	if route.enqueued != nil {
		first = s.onceTogether
	}
	if err := first(w, r, route, id, mine, do); err != nil {
		s.problemOf(r, err).write(w)
	}
}

// onceTogether is for what only enqueues: key, answer and jobs are one
// transaction, so that no crash and no lost answer of the store parts them.
func (s *server) onceTogether(w http.ResponseWriter, r *http.Request, route *route, id string, mine answered, do act) error {
	version, known, err := s.again(w, r, route, id, mine)
	if known || err != nil {
		return err
	}
	receipt := engine.Receipt{
		Record: mine.record(id, version),
		Body: func(jobs []engine.Enqueued) []byte {
			kept := mine
			kept.Status, kept.Type = route.status, "application/json"
			if slices.ContainsFunc(jobs, func(j engine.Enqueued) bool { return j.Existing }) {
				kept.Jobs = jobs
			} else {
				kept.Answer = text(route.enqueued(jobs))
			}
			return text(kept)
		},
	}
	out, err := do(engine.WithReceipt(r.Context(), receipt))
	switch {
	case err == nil:
		reply(w, route.status, out)
		return nil
	case errors.Is(err, store.ErrConflict): // another request of the key was faster
		_, known, again := s.again(w, r, route, id, mine)
		if known || again != nil {
			return again
		}
	}
	p := s.problemOf(r, err)
	if p.Status < http.StatusInternalServerError {
		s.keep(r.Context(), id, version, mine, p.Status, p)
	}
	return p
}

// onceApart takes the key, does what is asked and keeps the answer.
func (s *server) onceApart(w http.ResponseWriter, r *http.Request, route *route, id string, mine answered, do act) error {
	version, known, err := s.again(w, r, route, id, mine)
	if known || err != nil {
		return err
	}
	row := mine.record(id, version)
	row.Body = text(mine)
	if _, err := s.Records.Write(r.Context(), time.Time{}, store.Write{Puts: []store.Record{row}}); errors.Is(err, store.ErrConflict) {
		if _, known, err := s.again(w, r, route, id, mine); known || err != nil {
			return err
		}
		return err // it was there, and has gone
	} else if err != nil {
		return err
	}
	out, err := do(r.Context())
	if err == nil {
		s.keep(r.Context(), id, version+1, mine, route.status, out)
		reply(w, route.status, out)
		return nil
	}
	p := s.problemOf(r, err)
	if p.Status >= http.StatusInternalServerError {
		s.forget(r.Context(), id, version+1)
	} else {
		s.keep(r.Context(), id, version+1, mine, p.Status, p)
	}
	return p
}

// record is what keeps the key, without its body; version is the one that is
// replaced.
func (a *answered) record(id string, version int64) store.Record {
	return store.Record{Kind: kindOnce, ID: id, Version: version, ExpiresAt: a.At.Add(KeptFor)}
}

// keep remembers the answer, though the caller may have gone.
func (s *server) keep(ctx context.Context, id string, version int64, a answered, status int, out any) {
	a.Status, a.Type, a.Answer = status, "application/json", text(out)
	if _, refused := out.(*Problem); refused {
		a.Type = "application/problem+json"
	}
	row := a.record(id, version)
	row.Body = text(a)
	_, err := s.Records.Write(context.WithoutCancel(ctx), time.Time{}, store.Write{Puts: []store.Record{row}})
	if err != nil && !errors.Is(err, store.ErrConflict) { // another request of the key was refused alike
		s.Log.Error("idempotency key not kept", "error", err)
	}
}

// forget lets the key be used again: nothing was done.
func (s *server) forget(ctx context.Context, id string, version int64) {
	row := store.Record{Kind: kindOnce, ID: id, Version: version}
	if _, err := s.Records.Write(context.WithoutCancel(ctx), time.Time{}, store.Write{Drops: []store.Record{row}}); err != nil {
		s.Log.Error("idempotency key not forgotten", "error", err)
	}
}

// again answers a request whose key is known. If it is not, version is what
// its record replaces.
func (s *server) again(w http.ResponseWriter, r *http.Request, route *route, id string, mine answered) (version int64, known bool, err error) {
	row, err := s.Records.Record(r.Context(), kindOnce, id)
	if errors.Is(err, store.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if row.Expired(mine.At) {
		return row.Version, false, nil
	}
	var first answered
	if err := json.Unmarshal(row.Body, &first); err != nil {
		return 0, false, fmt.Errorf("idempotency: %w", err)
	}
	switch {
	case first.Request != mine.Request:
		return 0, true, problem(http.StatusConflict, "idempotency", "take a new key for a new request", "%s: was used for another request", keyHeader)
	case first.Status == 0 && mine.At.Sub(first.At) < underWay:
		w.Header().Set("Retry-After", "1")
		return 0, true, problem(http.StatusConflict, "under_way", "the same again in a moment", "%s: the first request is still under way", keyHeader)
	case first.Status == 0:
		return 0, true, problem(http.StatusConflict, "outcome_unknown", "look whether it was done; if not, ask again with a new key",
			"%s: the server stopped during the first request; nobody knows what came of it", keyHeader)
	}
	if first.Jobs != nil {
		if first.Answer, err = s.living(r.Context(), route, first.Jobs); err != nil {
			return 0, true, err
		}
	}
	w.Header().Set("Content-Type", first.Type)
	w.Header().Set("Idempotent-Replayed", "true")
	w.WriteHeader(first.Status)
	if first.Status != http.StatusNoContent {
		_, _ = w.Write(first.Answer) // the caller has gone
	}
	return 0, true, nil
}

// living is the answer for jobs of which some were there already.
func (s *server) living(ctx context.Context, route *route, jobs []engine.Enqueued) ([]byte, error) {
	for i := range jobs {
		if !jobs[i].Existing {
			continue
		}
		j, err := s.Ops.Job(ctx, jobs[i].ID)
		if errors.Is(err, engine.ErrNotFound) {
			continue // it ended long ago
		}
		if err != nil {
			return nil, err
		}
		jobs[i].Job = j
	}
	return text(route.enqueued(jobs)), nil
}

// text is an answer as it is sent. What answers are made of can be encoded.
func text(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return b.Bytes()
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
