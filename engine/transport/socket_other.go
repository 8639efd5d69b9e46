//go:build !linux

package transport

import "net"

// boundUnsent bounds the send buffer, for want of anything that bounds only what
// has not been sent.
func boundUnsent(c *net.TCPConn) error { return c.SetWriteBuffer(4 * maxUnsent) }
