package transport

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestTheKernelTakesLittleAhead checks the bound on unsent bytes, because a heartbeat waits until they are
// sent. Without the bound, the kernel accepts megabytes besides the receiver's buffer.
func TestTheKernelTakesLittleAhead(t *testing.T) {
	t.Parallel()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	took := func(bound bool) (n int) {
		c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		far, err := l.AcceptTCP()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		if err := far.SetReadBuffer(64 << 10); err != nil {
			t.Fatal(err)
		}
		if bound {
			if err := boundUnsent(c); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var failed error
		for chunk := make([]byte, 16<<10); failed == nil && n < 64<<20; {
			err := raw.Write(func(fd uintptr) bool {
				var k int
				k, failed = syscall.Write(int(fd), chunk)
				n += max(0, k)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !errors.Is(failed, syscall.EAGAIN) {
			t.Fatal(failed)
		}
		return n
	}
	with, without := took(true), took(false)
	t.Logf("%d bytes with the bound, %d without", with, without)
	if with >= without {
		t.Errorf("the kernel takes %d bytes with the bound, %d without", with, without)
	}
}
