package transport

import (
	"net"
	"syscall"
)

// tcpNotSentLowat is TCP_NOTSENT_LOWAT, which package syscall does not name.
const tcpNotSentLowat = 25

// boundUnsent keeps the kernel from taking more bytes than it can send soon: what
// it has taken cannot be overtaken by a heartbeat. Unlike a small send buffer it
// does not bound what is on its way unacknowledged, and so not the throughput.
func boundUnsent(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, maxUnsent)
	})
	if err != nil {
		return err
	}
	return failed
}
