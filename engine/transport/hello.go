package transport

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// purpose says how a connection is used.
type purpose uint8

const (
	forMessages purpose = 0
	forSnapshot purpose = 1
)

// hello is the first frame each way. All versions of the protocol encode its magic, version and node ID
// alike.
type hello struct {
	version uint64
	node    string
	purpose purpose
	address string // address under which the node is reached
	info    []byte
}

const (
	magic = "CORV"
	// maxName bounds a node's ID, an address and a group's name, in bytes.
	maxName = 255
)

func (h hello) append(to []byte) []byte {
	to = append(to, magic...)
	to = binary.AppendUvarint(to, h.version)
	to = appendBytes(to, h.node)
	to = append(to, byte(h.purpose))
	to = appendBytes(to, h.address)
	return appendBytes(to, h.info)
}

// decodeHello stops after the node ID if the version differs.
func decodeHello(b []byte) (hello, error) {
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return hello{}, malformed("a connection that does not begin as ours do")
	}
	c := cursor{rest: b[len(magic):]}
	h := hello{version: c.uint(), node: c.string()}
	if c.err != nil {
		return h, c.err
	}
	if h.version != Version {
		return h, fmt.Errorf("node %q speaks version %d of the protocol, node here version %d: bring both to the same release", h.node, h.version, Version)
	}
	h.purpose, h.address, h.info = purpose(c.byte()), c.string(), c.bytes()
	switch {
	case c.end() != nil:
		return h, c.err
	case h.purpose > forSnapshot:
		return h, malformed("a connection for purpose %d", h.purpose)
	case len(h.node) > maxName || len(h.address) > maxName || len(h.info) > MaxInfo:
		return h, malformed("a hello with a name, address or info that is too long")
	}
	return h, nil
}

// readHello reads the peer's hello, or its reason for refusing this node's.
func readHello(r io.Reader) (hello, error) {
	h, payload, err := readFrame(r)
	switch {
	case err != nil:
		return hello{}, fmt.Errorf("read the peer's hello: %w", noEOF(err))
	case h.kind == frameRefusal:
		return hello{}, fmt.Errorf("it refuses the connection: %q", payload)
	case h.kind != frameHello || h.more():
		return hello{}, malformed("a frame of kind %d instead of a hello", h.kind)
	}
	return decodeHello(payload)
}

func (t *Transport) hello(p purpose) []byte {
	h := hello{version: Version, node: t.id, purpose: p, address: t.address, info: t.info}
	return appendFrames(nil, header{kind: frameHello}, h.append(nil))
}

// refuse sends a peer the reason for a refusal. The connection is closed whether the reason arrives or not.
func refuse(c net.Conn, why error) {
	text := why.Error()
	text = text[:min(len(text), 512)]
	_ = c.SetWriteDeadline(time.Now().Add(RPCTimeout))
	_, _ = c.Write(appendFrames(nil, header{kind: frameRefusal}, []byte(text)))
}
