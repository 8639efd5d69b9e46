package transport

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
)

// KeyOf names the key of a certificate: the SHA-256 of its public key, in
// hexadecimal. A node keeps its key for as long as its data directory, so the key
// tells the directory from another that is started under the same ID.
func KeyOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Know sets the key that the node of an ID has, so that a process with another key
// is a stranger: its address is not learned, no group hears it, it is never called
// under the ID, and its calls reach only the Handlers of HandleAny. With an empty
// key every process with a certificate for the ID is the node.
func (t *Transport) Know(id, key string) {
	if id == "" || id == t.id || len(id) > maxName {
		return
	}
	t.mu.Lock()
	p := t.peer(id)
	if p.known == key {
		t.mu.Unlock()
		return
	}
	p.known, p.failures, p.retryAt = key, 0, time.Time{} // the last refusal may have been for the key
	var ended []*conn
	if p.toldBy != "" && key != "" && p.toldBy != key {
		p.address, p.info, p.toldBy = "", nil, "" // a stranger's
	}
	if p.out != nil && p.strange(p.out.key) {
		ended, p.out = append(ended, p.out), nil
	}
	for _, c := range p.in {
		stranger := p.strange(c.key)
		if c.calling { // a guest; the node is called anew
			ended = append(ended, c)
		} else if c.stranger.Swap(stranger) && !stranger {
			ended = append(ended, t.hear(p, c.told, c.key))
		}
	}
	t.mu.Unlock()
	for _, c := range ended {
		c.fail(errMoved)
	}
}

// strange says whether a process with this key is another than the known one.
// The Transport's mutex is held.
func (p *peer) strange(key string) bool { return p.known != "" && p.known != key }

// keep adds a connection to those that are not for our requests to the peer, and
// returns one that is too many. Strangers are counted by themselves, so that they
// end none of the peer's. t.mu is held.
func (p *peer) keep(c *conn) (old *conn) {
	p.in = append(p.in, c)
	alike := slices.DeleteFunc(slices.Clone(p.in), func(o *conn) bool { return o.stranger.Load() != c.stranger.Load() })
	if len(alike) > maxIncoming {
		return alike[0]
	}
	return nil
}

// guest takes a connection that we have made to a stranger, if whoever answers at
// the address was called and not the node of the ID. t.mu is held.
func (t *Transport) guest(p *peer, c *conn, called string) (old *conn, err error) {
	switch {
	case t.closed:
		return nil, ErrClosed
	case called != "":
		return nil, errOther(p.id)
	}
	c.stranger.Store(true)
	t.warn(p, c.key, c.address)
	return p.keep(c), nil
}

// stranger says whether the node of an ID is known to have another key.
func (t *Transport) stranger(id, key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	return p != nil && p.strange(key)
}

// hear notes the address and the info that a peer has told in its hello, and
// returns the connection to the address it had before. t.mu is held.
func (t *Transport) hear(p *peer, h hello, key string) (moved *conn) {
	p.info, p.toldBy = h.info, key
	p.failures, p.retryAt = 0, time.Time{} // who calls can be called
	if h.address == "" {
		return nil
	}
	return t.learn(p, h.address)
}

// warn logs a stranger once for each key. t.mu is held.
func (t *Transport) warn(p *peer, key, address string) {
	if p.warned == key {
		return
	}
	p.warned = key
	t.log.Warn("another process uses the id of a node: give it its own id, or remove the node first",
		"node", p.id, "address", address, "key", key, "known_key", p.known, "known_address", p.address)
}

// errTaken refuses a process whose ID belongs to another data directory.
func errTaken(id string) error {
	return api.Errorf(api.Conflict, "another process holds node id %q in the cluster: give this node its own id (--node-id), or remove %q first (corvo cluster remove %[1]s)", id, id)
}

// errOther is the caller's side of errTaken: the process that answers for a node
// has not the node's key.
func errOther(id string) error {
	return api.Errorf(api.Conflict, "another process answers under the id of node %q: give that process its own id, or remove %q first", id, id)
}
