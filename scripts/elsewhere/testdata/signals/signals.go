// Package signals calls what Windows has not.
package signals

import "syscall"

// Stop tells a process to end.
func Stop(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }
