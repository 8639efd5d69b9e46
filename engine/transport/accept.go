package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// accept accepts connections until the listener is closed. Another error of the listener, such as too many
// open files, may be temporary, so accept tries again.
func (t *Transport) accept() {
	handshakes := make(chan struct{}, maxHandshakes)
	wait := minAcceptWait
	for {
		raw, err := t.listener.Accept()
		if err != nil {
			if t.ctx.Err() != nil {
				return
			}
			t.log.Error("the transport cannot accept connections", "error", err)
			select {
			case <-time.After(wait):
				wait = min(2*wait, maxAcceptWait)
				continue
			case <-t.ctx.Done():
				return
			}
		}
		wait = minAcceptWait
		select {
		case handshakes <- struct{}{}:
			t.wg.Go(func() { t.receive(raw, func() { <-handshakes }) })
		default:
			t.log.Warn("the transport refuses a connection: too many others have not identified themselves yet", "address", raw.RemoteAddr())
			_ = raw.Close()
		}
	}
}

const (
	minAcceptWait = 5 * time.Millisecond
	maxAcceptWait = time.Second
)

// receive identifies the caller and serves the connection. It calls known once the caller is identified or
// refused.
func (t *Transport) receive(raw net.Conn, known func()) {
	s, err := t.track(raw)
	if err != nil {
		known()
		return
	}
	defer t.untrack(s)
	c, h, err := t.serverHandshake(s)
	known()
	if err != nil {
		t.log.Warn("the transport refuses a connection", "address", raw.RemoteAddr(), "error", err)
		return
	}
	if h.purpose == forSnapshot {
		t.receiveSnapshot(c, h.node)
		return
	}
	conn := newConn(t, c, h.node, false)
	conn.key = c.key
	if !t.addIncoming(h, conn) {
		return
	}
	conn.serve()
}

// serverHandshake performs the handshake on the accepting side.
func (t *Transport) serverHandshake(s *socket) (*link, hello, error) {
	config := secured(t.identity.Server())
	config.SessionTicketsDisabled = true // a resumed session would not check the certificate again
	c := &link{Conn: tls.Server(s, config), socket: s}
	if err := s.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, hello{}, err
	}
	if err := c.HandshakeContext(t.ctx); err != nil {
		return nil, hello{}, err
	}
	h, err := readHello(c) // read it in every case, because a refusal is lost if bytes are unread
	if err == nil {
		err = t.checkHello(c, h)
	}
	if err == nil && h.purpose == forSnapshot && t.impostor(h.node, c.key) {
		err = errIDTaken(h.node)
	}
	if err != nil {
		refuse(c, err)
		return nil, h, err
	}
	if _, err := c.Write(t.hello(h.purpose)); err != nil {
		return nil, h, err
	}
	return c, h, s.SetDeadline(time.Time{})
}

// checkHello checks that the hello names the owner of the certificate.
func (t *Transport) checkHello(c *link, h hello) error {
	id, err := t.identityOf(c)
	if err != nil {
		return err
	}
	if h.node != id {
		return fmt.Errorf("the certificate is that of node %q, not of %q", id, h.node)
	}
	if id == t.id {
		return t.refuseOwnID(c.key)
	}
	return nil
}

// refuseOwnID returns the error for a process with this node's ID: either this process, reached by another
// address, or another process with the same ID.
func (t *Transport) refuseOwnID(key string) error {
	if t.key == "" || t.key == key {
		return fmt.Errorf("node %q is called by one of the same ID: each node needs its own", t.id)
	}
	return errIDTaken(t.id)
}

// secured adds the fixed settings to an Identity's configuration.
func secured(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.DynamicRecordSizingDisabled = true // small records help browsers, but not this protocol
	return c
}

// identityOf returns the ID in the peer's certificate, which the Identity has verified. It stores the
// certificate's key in the link.
func (t *Transport) identityOf(c *link) (string, error) {
	certificates := c.ConnectionState().PeerCertificates
	if len(certificates) == 0 {
		return "", errors.New("the peer has no certificate")
	}
	id := t.identity.NodeID(certificates[0])
	if id == "" || len(id) > maxName {
		return "", fmt.Errorf("the peer's certificate must name a node with 1 to %d bytes, and names %q", maxName, id)
	}
	c.key = KeyOf(certificates[0])
	return id, nil
}
