package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/image"
)

// A snapshot is sent on a connection of its own, on which the two ends alternate:
//
//	sender                        receiver
//	frameSnapshot: group, request, table of parts
//	                              frameMissing: the parts it lacks
//	framePart: the bytes of each, in that order
//	frameManifest: the bytes for raft
//	                              frameAnswer: raft's
//
// The receiver may send frameFault instead, and sends frameWorking each second. The whole transfer has no
// time limit, because its duration cannot be known.

const (
	// MaxManifest bounds the bytes that raft reads of a snapshot, and separately the table of its parts.
	MaxManifest = 16 << 20
	// A transfer ends if it receives nothing for snapshotIdleTimeout.
	snapshotIdleTimeout = 10 * time.Second
	// workingEvery is the interval at which the receiver sends frameWorking.
	workingEvery = time.Second
	// maxSending bounds the snapshots that are sent to a peer at a time. Others wait.
	maxSending = 4
	// maxReceiving bounds a peer's connections for snapshots: those in use, and as many that the peer has
	// lost without this node noticing. More are refused, and raft tries again.
	maxReceiving = 2 * maxSending
	// partBound is the least size of a part in the table, in bytes.
	partBound = 1 + 1 + 1 + 32
)

// offer is the first message of a transfer.
type offer struct {
	groupKey
	request *raft.InstallSnapshotRequest
	parts   []image.Part
}

func (o offer) append(to []byte) []byte {
	to = o.groupKey.append(to)
	to = appendSnapshotRequest(to, o.request)
	to = binary.AppendUvarint(to, uint64(len(o.parts)))
	for _, p := range o.parts {
		to = appendBytes(to, p.Name)
		to = binary.AppendUvarint(to, uint64(p.Size))
		to = append(to, p.Sum[:]...)
	}
	return to
}

func decodeOffer(b []byte) (offer, error) {
	c := cursor{rest: b}
	o := offer{groupKey: c.group(), request: c.snapshotRequest()}
	o.parts = make([]image.Part, c.count(partBound))
	seen := make(map[string]bool, len(o.parts))
	for i := range o.parts {
		p := &o.parts[i]
		p.Name, p.Size = c.string(), int64(c.uint())
		if len(c.rest) < len(p.Sum) {
			c.fail("a part's hash is cut off")
			break
		}
		c.rest = c.rest[copy(p.Sum[:], c.rest):]
		if seen[p.Name] || p.Name == "." || !fs.ValidPath(p.Name) || p.Size < 0 {
			c.fail("a part's name is no name of a file, or of two, or its size is none")
			break
		}
		seen[p.Name] = true
	}
	return o, c.end()
}

func appendMissing(to []byte, indexes []int) []byte {
	to = binary.AppendUvarint(to, uint64(len(indexes)))
	for _, i := range indexes {
		to = binary.AppendUvarint(to, uint64(i))
	}
	return to
}

// decodeMissing decodes the parts that the receiver lacks: distinct indexes, each less than parts.
func decodeMissing(b []byte, parts int) ([]int, error) {
	c := cursor{rest: b}
	indexes := make([]int, c.count(1))
	seen := make(map[int]bool, len(indexes))
	for i := range indexes {
		indexes[i] = c.small()
		if indexes[i] >= parts || seen[indexes[i]] {
			c.fail("a part is asked for that there is not, or twice")
			break
		}
		seen[indexes[i]] = true
	}
	return indexes, c.end()
}

// transferConn is one end of a transfer's connection. One goroutine reads; several may write.
type transferConn struct {
	net net.Conn
	mu  sync.Mutex // held while a goroutine writes
}

func (l *transferConn) write(h header, payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.net.Write(appendFrames(nil, h, payload))
	return err
}

// frame reads a frame. It must arrive within snapshotIdleTimeout.
func (l *transferConn) frame() (header, []byte, error) {
	if err := l.net.SetReadDeadline(time.Now().Add(snapshotIdleTimeout)); err != nil {
		return header{}, nil, err
	}
	return readFrame(l.net)
}

// message reads a message of the given kind and at most most bytes.
func (l *transferConn) message(kind frameKind, most int) ([]byte, error) {
	var all []byte
	for {
		h, payload, err := l.frame()
		switch {
		case err != nil:
			return nil, noEOF(err)
		case h.kind != kind:
			return nil, malformed("a frame of kind %d where kind %d was due", h.kind, kind)
		case len(all)+len(payload) > most:
			return nil, malformed("a message of more than %d bytes", most)
		}
		all = append(all, payload...)
		if !h.more() {
			return all, nil
		}
		if len(payload) == 0 {
			return nil, malformed("an empty frame in a message of several")
		}
	}
}

// partReader reads the bytes of a part from its frames.
type partReader struct {
	conn  *transferConn
	index uint64
	rest  bytes.Reader
	last  bool
	err   error
}

func (r *partReader) Read(p []byte) (int, error) {
	for r.rest.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.last {
			return 0, io.EOF
		}
		h, payload, err := r.conn.frame()
		switch {
		case err != nil:
			r.err = noEOF(err)
		case h.kind != framePart || h.request != r.index:
			r.err = malformed("a frame of kind %d, number %d, within part %d", h.kind, h.request, r.index)
		case h.more() && len(payload) == 0:
			r.err = malformed("an empty frame in a part of several")
		default:
			r.rest.Reset(payload)
			r.last = !h.more()
		}
	}
	return r.rest.Read(p)
}
