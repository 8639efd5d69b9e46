package front

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tooMany is what a connection too many gets. It is answered, not left waiting: who is
// told can try another node.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 166\r\n\r\n" +
	`{"error":"this node has as many connections as it may have: try again later, or another node","code":"OVERLOADED","details":{"retry_after_ms":1000,"retryable":true}}` + "\n"

// The bounds of turning a connection away.
const (
	turnAwayTimeout = time.Second
	turnAwayLog     = 10 * time.Second // between two lines about it
)

// bounded is a listener that turns connections away while there are too many.
type bounded struct {
	net.Listener
	most int64
	log  *slog.Logger

	open   atomic.Int64
	turned uint64    // connections that were turned away
	logged time.Time // when that was said last
}

// Accept returns the next connection there is room for.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.most {
			return &counted{Conn: conn, listener: b}, nil
		}
		b.open.Add(-1)
		b.turnAway(conn)
	}
}

// turnAway ends a connection. Its send buffer is empty, so nothing waits here.
func (b *bounded) turnAway(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(turnAwayTimeout))
	_, _ = conn.Write([]byte(tooMany))
	_ = conn.Close()
	b.turned++
	if now := time.Now(); now.Sub(b.logged) > turnAwayLog {
		b.logged = now
		b.log.Warn("connections are refused because --max-connections is reached", "most", b.most, "turned_away", b.turned)
	}
}

// counted is a connection that there is room for again when it is closed.
type counted struct {
	net.Conn
	listener *bounded
	once     sync.Once
}

// Close ends the connection.
func (c *counted) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}
