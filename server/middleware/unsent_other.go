//go:build !linux

package middleware

import "net"

// limitUnsent limits the system's buffer for bytes that a client has not taken.
func limitUnsent(conn *net.TCPConn) error { return conn.SetWriteBuffer(128 << 10) }
