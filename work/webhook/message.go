package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// envelope is what a delivery knows of its event, beside the payload.
type envelope struct {
	Event       string    `json:"event"`
	Type        string    `json:"type"`
	ContentType string    `json:"content_type,omitempty"`
	SentAt      time.Time `json:"sent_at"`
}

const defaultContentType = "application/json"

func (e *envelope) contentType() string {
	if e.ContentType == "" {
		return defaultContentType
	}
	return e.ContentType
}

// pack makes a job's arguments: the envelope as one line of JSON, then the
// payload's exact bytes. The payload travels with each delivery, so that a
// delivery can be made as long as it is kept.
func pack(e envelope, payload []byte) ([]byte, error) {
	head, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	args := make([]byte, 0, len(head)+1+len(payload))
	args = append(args, head...)
	args = append(args, '\n')
	return append(args, payload...), nil
}

var errArgs = errors.New("want one line of JSON, then the payload")

func unpack(args []byte) (e envelope, payload []byte, err error) {
	head, payload, ok := bytes.Cut(args, []byte{'\n'})
	if !ok {
		return e, nil, errArgs
	}
	if !e.plain(string(head)) {
		e = envelope{}
		if err := json.Unmarshal(head, &e); err != nil {
			return e, nil, fmt.Errorf("%w: %w", errArgs, err)
		}
	}
	if e.Event == "" {
		return e, nil, fmt.Errorf("%w: it names no event", errArgs)
	}
	return e, payload, nil
}

// plain reads the envelope in exactly the form that pack gives it where no
// text needs an escape, and reports whether it has it. That is nearly always
// so, and every attempt begins with it.
func (e *envelope) plain(head string) bool {
	event, rest, ok := field(head, `{"event":"`)
	if !ok {
		return false
	}
	kind, rest, ok := field(rest, `,"type":"`)
	if !ok {
		return false
	}
	contentType, after, ok := field(rest, `,"content_type":"`)
	if ok {
		rest = after
	}
	sentAt, rest, ok := field(rest, `,"sent_at":"`)
	if !ok || rest != "}" || e.SentAt.UnmarshalText([]byte(sentAt)) != nil {
		return false
	}
	e.Event, e.Type, e.ContentType = event, kind, contentType
	return true
}

// field cuts the value off that stands after a name, up to its quotation mark.
func field(text, name string) (value, rest string, ok bool) {
	if text, ok = strings.CutPrefix(text, name); !ok {
		return "", "", false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"':
			return text[:i], text[i+1:], true
		case c < ' ' || c == '\\' || c > '~':
			return "", "", false
		}
	}
	return "", "", false
}
