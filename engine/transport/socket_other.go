//go:build !linux

package transport

import "net"

// boundUnsent bounds the whole send buffer, because these systems cannot bound only the unsent bytes.
func boundUnsent(c *net.TCPConn) error { return c.SetWriteBuffer(4 * maxUnsent) }
