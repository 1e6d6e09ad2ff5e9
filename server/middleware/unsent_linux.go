package middleware

import (
	"net"

	"golang.org/x/sys/unix"
)

// maxUnsent is how many bytes the system takes from a handler before the client has room for them.
const maxUnsent = 16 << 10

// limitUnsent makes writes wait for the client instead of filling the system's buffer, which grows
// to megabytes.
func limitUnsent(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}

	var optErr error
	err = raw.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
	})
	if err != nil {
		return err
	}

	return optErr
}
