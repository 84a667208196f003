package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
)

// Classifier recognises errors of one field. It returns false for errors
// that it does not know.
type Classifier func(err error) (Failure, bool)

// Classify turns err into exactly one Failure. A Failure already named in the
// chain wins, then the extra classifiers in their order, then the built-in
// ones; what none of them knows is of class Plain. Fatal, Park and Snooze
// keep their order whatever the class. Classify(nil) is the zero Failure.
func Classify(err error, extra ...Classifier) Failure {
	if err == nil {
		return Failure{}
	}
	f := classify(err, extra)
	if f.Blame == BlameNone {
		f.Blame = f.Class.Blame()
	}
	f.Err = err
	if o, ok := errors.AsType[*orderError](err); ok {
		f.Order, f.Snooze = o.order, o.snooze
	}
	return f
}

func classify(err error, extra []Classifier) Failure {
	if named, ok := errors.AsType[*Error](err); ok && named.Failure.Class != Unknown {
		return named.Failure
	}
	for _, c := range extra {
		if f, ok := c(err); ok {
			return f
		}
	}
	for _, c := range [...]Classifier{fromService, fromSQL, fromTLS, fromDNS, fromErrno, fromTimeout, fromStream} {
		if f, ok := c(err); ok {
			return f
		}
	}
	return Of(Plain)
}

// Phase is how far a call had come; it tells apart timeouts that look alike.
type Phase uint8

const (
	PhaseConnect Phase = iota + 1 // resolving, dialling, handshaking
	PhaseHeader                   // request sent, no answer yet
	PhaseBody                     // answer begun
)

type phaseError struct {
	phase Phase
	err   error
}

func (e *phaseError) Error() string { return e.err.Error() }
func (e *phaseError) Unwrap() error { return e.err }

// During marks err with the phase it happened in. A nil err stays nil.
func During(phase Phase, err error) error {
	if err == nil {
		return nil
	}
	return &phaseError{phase: phase, err: err}
}

func phaseOf(err error) Phase {
	if p, ok := errors.AsType[*phaseError](err); ok {
		return p.phase
	}
	return 0
}

// timeoutIn returns the class of a timeout in the phase.
func timeoutIn(phase Phase) Class {
	switch phase {
	case PhaseConnect:
		return ConnectTimeout
	case PhaseHeader:
		return HeaderTimeout
	case PhaseBody:
		return BodyTimeout
	}
	return Timeout
}

// fromStream recognises broken streams and a stop of our own.
func fromStream(err error) (Failure, bool) {
	switch {
	case errors.Is(err, context.Canceled):
		return Of(Interrupted), true
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Of(ShortBody), true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
		if phaseOf(err) == PhaseBody {
			return Of(ShortBody), true
		}
		return Of(Reset), true
	case errors.Is(err, net.ErrClosed):
		return Of(Reset), true
	}
	return fromText(err)
}

// fromText recognises the errors of net/http and database/sql that have no
// type to match, or none that we may import.
func fromText(err error) (Failure, bool) {
	text := err.Error()
	for _, known := range []struct {
		part   string
		class  Class
		reason string
	}{
		{"server closed idle connection", Reset, "idle_closed"},
		{"http2: server sent GOAWAY", Reset, "goaway"},
		{"stream error: stream ID", Reset, "http2_stream"},
		{"malformed HTTP", Reset, "malformed_response"},
		{"server gave HTTP response to HTTPS client", TLS, "not_tls"},
		{"driver: bad connection", Unavailable, "bad_connection"},
		{"sql: connection is already closed", Unavailable, "bad_connection"},
		{"unsupported protocol scheme", InvalidInput, "scheme"},
		{"no Host in request URL", InvalidInput, "no_host"},
	} {
		if strings.Contains(text, known.part) {
			f := Of(known.class)
			f.Reason = known.reason
			return f, true
		}
	}
	return Failure{}, false
}
