//go:build !windows

package failure

import "syscall"

func platformErrno(syscall.Errno) (Class, bool) { return Unknown, false }
