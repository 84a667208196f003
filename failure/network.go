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
	dns, ok := errors.AsType[*net.DNSError](err)
	if !ok {
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
	f := Of(TLS)
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		f.Reason = "certificate_invalid"
		if invalid.Reason == x509.Expired {
			f.Reason = "certificate_expired"
		}
		return f, true
	}
	switch {
	case has[x509.HostnameError](err):
		f.Reason = "wrong_host"
	case has[x509.UnknownAuthorityError](err):
		f.Reason = "unknown_authority"
	case has[x509.SystemRootsError](err):
		f.Reason, f.Blame = "no_system_roots", BlameUs
	case has[*tls.CertificateVerificationError](err):
		f.Reason = "certificate_refused"
	case has[tls.AlertError](err):
		f.Reason = "alert"
	case has[tls.RecordHeaderError](err):
		f.Reason = "not_tls"
	default:
		return Failure{}, false
	}
	return f, true
}

// has reports whether the chain holds an error of the type.
func has[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
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
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
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
		if phase := phaseOf(err); phase != 0 {
			class = timeoutIn(phase)
		} else if op, ok := errors.AsType[*net.OpError](err); ok && op.Op != "dial" {
			class = Timeout
		}
	}
	return Of(class), true
}

// fromTimeout recognises deadlines. net/http keeps its own timeout errors
// private, so two are known by their text.
func fromTimeout(err error) (Failure, bool) {
	if has[*http.MaxBytesError](err) {
		return Of(TooLarge), true
	}
	timed, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	deadline := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	if !deadline && (!ok || !timed.Timeout()) {
		return Failure{}, false
	}
	if phase := phaseOf(err); phase != 0 {
		return Of(timeoutIn(phase)), true
	}
	op, ok := errors.AsType[*net.OpError](err)
	text := err.Error()
	switch {
	case ok && op.Op == "dial", strings.Contains(text, "TLS handshake timeout"):
		return Of(ConnectTimeout), true
	case strings.Contains(text, "awaiting response headers"), strings.Contains(text, "awaiting headers"):
		return Of(HeaderTimeout), true
	case strings.Contains(text, "while reading body"):
		return Of(BodyTimeout), true
	}
	return Of(Timeout), true
}
