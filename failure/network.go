package failure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
)

// fromDNS tells a name that does not exist (the target's fault) from a
// resolver that does not answer (ours).
func fromDNS(err error) (Failure, bool) {
	var dns *net.DNSError
	if !errors.As(err, &dns) {
		return Failure{}, false
	}
	f := Of(DNS)
	switch {
	case dns.IsNotFound:
		f.Reason = "name_not_found"
	case dns.IsTimeout:
		f.Reason, f.Blame = "resolver_timeout", BlameUs
	default:
		f.Reason, f.Blame = "resolver_failed", BlameUs
	}
	return f, true
}

func fromTLS(err error) (Failure, bool) {
	var (
		record  tls.RecordHeaderError
		alert   tls.AlertError
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		roots   x509.SystemRootsError
	)
	f := Of(TLS)
	switch {
	case errors.As(err, &host):
		f.Reason = "wrong_host"
	case errors.As(err, &invalid):
		f.Reason = "certificate_invalid"
		if invalid.Reason == x509.Expired {
			f.Reason = "certificate_expired"
		}
	case errors.As(err, &unknown):
		f.Reason = "unknown_authority"
	case errors.As(err, &roots):
		f.Reason, f.Blame = "no_system_roots", BlameUs
	case errors.As(err, &verify):
		f.Reason = "certificate_refused"
	case errors.As(err, &alert):
		f.Reason = "alert"
	case errors.As(err, &record):
		f.Reason = "not_tls"
	default:
		return Failure{}, false
	}
	return f, true
}

// errnoClasses maps what the kernel says. On Windows the sockets' own numbers
// are added by errno_windows.go.
var errnoClasses = map[syscall.Errno]Class{
	syscall.ECONNREFUSED: Refused,
	syscall.ECONNRESET:   Reset,
	syscall.ECONNABORTED: Reset,
	syscall.EPIPE:        Reset,
	syscall.EHOSTUNREACH: Unreachable,
	syscall.ENETUNREACH:  Unreachable,
	syscall.ENETDOWN:     Unreachable,
	syscall.EHOSTDOWN:    Unreachable,
	syscall.ETIMEDOUT:    ConnectTimeout,
	syscall.ENOSPC:       DiskFull,
	syscall.EDQUOT:       DiskFull,
	syscall.EIO:          LocalIO,
	syscall.EMFILE:       LocalIO,
	syscall.ENFILE:       LocalIO,
	syscall.EROFS:        LocalIO,
	syscall.ENOMEM:       LocalIO,
	syscall.ESTALE:       LocalIO,
}

func fromErrno(err error) (Failure, bool) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return Failure{}, false
	}
	class, ok := errnoClasses[errno]
	if !ok {
		class, ok = platformErrno(errno)
	}
	if !ok {
		return Failure{}, false
	}
	if class == ConnectTimeout {
		// The kernel gives up on established connections with the same number.
		var op *net.OpError
		if phase := phaseOf(err); phase != 0 {
			class = timeoutIn(phase)
		} else if errors.As(err, &op) && op.Op != "dial" {
			class = Timeout
		}
	}
	return Of(class), true
}

// fromTimeout recognises deadlines. net/http keeps its own timeout errors
// private, so two are known by their text.
func fromTimeout(err error) (Failure, bool) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return Of(TooLarge), true
	}
	var timeout interface{ Timeout() bool }
	deadline := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	if !deadline && (!errors.As(err, &timeout) || !timeout.Timeout()) {
		return Failure{}, false
	}
	if phase := phaseOf(err); phase != 0 {
		return Of(timeoutIn(phase)), true
	}
	var op *net.OpError
	text := err.Error()
	switch {
	case errors.As(err, &op) && op.Op == "dial", strings.Contains(text, "TLS handshake timeout"):
		return Of(ConnectTimeout), true
	case strings.Contains(text, "awaiting response headers"), strings.Contains(text, "awaiting headers"):
		return Of(HeaderTimeout), true
	case strings.Contains(text, "while reading body"):
		return Of(BodyTimeout), true
	}
	return Of(Timeout), true
}
