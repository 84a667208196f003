package failure

import "syscall"

// platformErrno knows the socket and disk errors of Windows, which are not
// the invented POSIX numbers of package syscall.
func platformErrno(errno syscall.Errno) (Class, bool) {
	switch errno {
	case 10061: // WSAECONNREFUSED
		return Refused, true
	case 10053, 10054: // WSAECONNABORTED, WSAECONNRESET
		return Reset, true
	case 10050, 10051, 10064, 10065: // network or host down or unreachable
		return Unreachable, true
	case 10060: // WSAETIMEDOUT
		return ConnectTimeout, true
	case 39, 112: // ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL
		return DiskFull, true
	}
	return Unknown, false
}
