//go:build unix

package postgres

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// alive reports whether the other side has not hung up on an idle connection.
// It costs no round trip, so that every call can ask: after a restart of the
// server none fails by the connections of before. An idle server says nothing
// but goodbye; under TLS that cannot be told from other noise.
func alive(conn net.Conn) bool {
	over, secured := conn.(*tls.Conn)
	if secured {
		conn = over.NetConn()
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	err = control.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) || secured && n > 0
	})
	return err == nil && silent
}
