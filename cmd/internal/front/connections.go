package front

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tooMany is the response to a connection above the limit. The front answers it instead of letting it wait,
// so that the client can try another node.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 166\r\n\r\n" +
	`{"error":"this node has as many connections as it may have: try again later, or another node","code":"OVERLOADED","details":{"retry_after_ms":1000,"retryable":true}}` + "\n"

// Bounds for turning connections away.
const (
	turnAwayTimeout = time.Second
	turnAwayLog     = 10 * time.Second // between two log lines
)

// bounded is a listener that turns further connections away while as many are open as its limit allows.
type bounded struct {
	net.Listener
	most   int64
	silent bool // the client expects TLS and could not read the answer
	log    *slog.Logger

	open   atomic.Int64
	turned uint64    // connections that were turned away
	logged time.Time // time of the last log line
}

// Accept returns the next connection within the limit.
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

// turnAway answers and closes a connection. With TLS it only closes it, because a handshake would cost more than a
// request. The write does not wait, because the send buffer of a new connection is empty.
func (b *bounded) turnAway(conn net.Conn) {
	if !b.silent {
		_ = conn.SetDeadline(time.Now().Add(turnAwayTimeout))
		_, _ = conn.Write([]byte(tooMany))
	}
	_ = conn.Close()
	b.turned++
	if now := time.Now(); now.Sub(b.logged) > turnAwayLog {
		b.logged = now
		b.log.Warn("connections are refused because --max-connections is reached", "max_connections", b.most, "refused", b.turned)
	}
}

// counted is a connection that counts towards the limit until it is closed.
type counted struct {
	net.Conn
	listener *bounded
	once     sync.Once
}

// Close closes the connection and frees its place.
func (c *counted) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}
