package transport

import (
	"net"
	"syscall"
)

// tcpNotSentLowat is TCP_NOTSENT_LOWAT, which package syscall does not name.
const tcpNotSentLowat = 25

// boundUnsent limits the bytes that the kernel accepts before it can send them, because a heartbeat cannot
// overtake accepted bytes. Unlike a small send buffer, this does not limit the bytes that are sent and not
// acknowledged, and so not the throughput.
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
