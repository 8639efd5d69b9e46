package transport

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
)

// KeyOf returns the name of a certificate's key: the SHA-256 of its public key, in hexadecimal. A node keeps
// its key as long as its data directory, so the key distinguishes the directory from another one that is
// started with the same ID.
func KeyOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Know sets the key of the node with an ID. A process with the same ID and another key is an impostor: its
// address is not learned, no group accepts its messages, it is never called under the ID, and its calls reach
// only the handlers of HandleAny. With an empty key, every process with a certificate for the ID is accepted
// as the node.
func (t *Transport) Know(id, key string) {
	if id == "" || id == t.id || len(id) > maxName {
		return
	}
	t.mu.Lock()
	p := t.peer(id)
	if p.knownKey == key {
		t.mu.Unlock()
		return
	}
	p.knownKey, p.failures, p.retryAt = key, 0, time.Time{} // the last refusal may have been because of the key
	var ended []*conn
	if p.infoKey != "" && key != "" && p.infoKey != key {
		p.address, p.info, p.infoKey = "", nil, "" // they came from an impostor
	}
	if p.out != nil && p.otherKey(p.out.key) {
		ended, p.out = append(ended, p.out), nil
	}
	for _, c := range p.in {
		impostor := p.otherKey(c.key)
		if c.calling { // to an impostor; the node is dialled again
			ended = append(ended, c)
		} else if c.impostor.Swap(impostor) && !impostor {
			ended = append(ended, t.learnFrom(p, c.hello, c.key))
		}
	}
	t.mu.Unlock()
	for _, c := range ended {
		c.fail(errMoved)
	}
}

// otherKey reports whether key differs from the known one. The caller holds t.mu.
func (p *peer) otherKey(key string) bool { return p.knownKey != "" && p.knownKey != key }

// addIn adds a connection to the peer that this node does not use for its own requests. If there are too
// many, addIn returns the oldest one, or else nil. Impostors' connections are counted separately, so that
// they close none of the peer's. The caller holds t.mu.
func (p *peer) addIn(c *conn) (old *conn) {
	p.in = append(p.in, c)
	alike := slices.DeleteFunc(slices.Clone(p.in), func(o *conn) bool { return o.impostor.Load() != c.impostor.Load() })
	if len(alike) > maxIncoming {
		return alike[0]
	}
	return nil
}

// addImpostor keeps a connection that this node opened to an impostor at an address. If called is not "",
// this node dialled the node with that ID, and addImpostor returns an error. The caller holds t.mu.
func (t *Transport) addImpostor(p *peer, c *conn, called string) (old *conn, err error) {
	switch {
	case t.closed:
		return nil, ErrClosed
	case called != "":
		return nil, errWrongKey(p.id)
	}
	c.impostor.Store(true)
	t.warn(p, c.key, c.address)
	return p.addIn(c), nil
}

// impostor reports whether another key is known for the node with an ID.
func (t *Transport) impostor(id, key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	return p != nil && p.otherKey(key)
}

// learnFrom stores the address and the info of a peer's hello, and returns the connection to its previous
// address, or nil. The caller holds t.mu.
func (t *Transport) learnFrom(p *peer, h hello, key string) (moved *conn) {
	p.info, p.infoKey = h.info, key
	p.failures, p.retryAt = 0, time.Time{} // a peer that connects can be reached
	if h.address == "" {
		return nil
	}
	return t.learn(p, h.address)
}

// warn logs an impostor once for each key. The caller holds t.mu.
func (t *Transport) warn(p *peer, key, address string) {
	if p.warned == key {
		return
	}
	p.warned = key
	t.log.Warn("another process uses the id of a node: give it its own id, or remove the node first",
		"node", p.id, "address", address, "key", key, "known_key", p.knownKey, "known_address", p.address)
}

// errIDTaken refuses a process whose ID belongs to another data directory.
func errIDTaken(id string) error {
	return api.Errorf(api.Conflict, "another process holds node id %q in the cluster: give this node its own id (--node-id), or remove %q first (in a bare cluster: corvo cluster remove %[1]s; in a control plane: corvo cloud processes remove %[1]s)", id, id)
}

// errWrongKey is the caller's counterpart of errIDTaken: the process that answered for a node does not have
// the node's key.
func errWrongKey(id string) error {
	return api.Errorf(api.Conflict, "another process answers under the id of node %q: give that process its own id, or remove %q first", id, id)
}
