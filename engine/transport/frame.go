package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/corvo/corvo/engine/entry"
)

// Version is the version of the protocol. Peers of different versions refuse each other when they connect.
// All versions encode the frame header, and the magic, version and node ID of a hello, alike, so that each
// peer can read the other's version.
const Version = 1

// A frame is a header and up to MaxFrame bytes. A longer message is sent as several frames, and frames of
// other messages may come between them. Frames have no checksum: TLS authenticates each record with a 128-bit
// tag, so a frame arrives exactly as it was sent.
const (
	headerSize = 18
	// MaxFrame bounds a frame's payload in bytes: 64 KiB take half a millisecond at 1 Gbit/s. Frames of other
	// messages come between the frames of a long message, and an urgent message waits for one write (see
	// batch).
	MaxFrame = 64 << 10
	// MaxMessage bounds a message of Raft in bytes: the largest entry, and a frame for the request around it.
	MaxMessage = entry.MaxBytes + MaxFrame
)

// frameKind identifies the content of a frame. The numbers are permanent.
type frameKind uint8

const (
	frameHello    frameKind = 1  // the sender's identity; the first frame each way
	frameRefusal  frameKind = 2  // instead of a hello: the reason for the refusal, as text
	frameGroup    frameKind = 3  // assigns a number to a group
	framePing     frameKind = 4  // empty; asks for the peer's clock
	framePong     frameKind = 5  // the sender's clock at the arrival of the ping, and now
	frameAppend   frameKind = 6  // raft.AppendEntriesRequest
	frameVote     frameKind = 7  // raft.RequestVoteRequest
	framePreVote  frameKind = 8  // raft.RequestPreVoteRequest
	frameTimeout  frameKind = 9  // raft.TimeoutNowRequest
	frameCall     frameKind = 10 // kind, time left, request
	frameAnswer   frameKind = 11 // the answer to a request
	frameFault    frameKind = 12 // the error of a request
	frameCancel   frameKind = 13 // the caller no longer waits for the answer to a request
	frameSnapshot frameKind = 14 // raft.InstallSnapshotRequest and the table of parts
	frameMissing  frameKind = 15 // the indexes of the parts that the receiver lacks
	framePart     frameKind = 16 // a part's bytes; its number is the request
	frameManifest frameKind = 17 // the bytes for raft
	frameWorking  frameKind = 18 // the receiver is busy with the snapshot; wait
	lastKind                = frameWorking
)

// flagMore says that the message continues in another frame of the same kind and request.
const flagMore = 1

// header precedes each frame's payload, little-endian: length 4, request 8, group 4, kind 1, flags 1.
type header struct {
	length  uint32
	request uint64 // chosen by the caller, repeated in the answer
	group   uint32 // a number assigned by frameGroup; 0 = the process
	kind    frameKind
	flags   uint8
}

// ErrMalformed is wrapped by every error about bytes that no peer of this version would send. The connection
// is closed.
var ErrMalformed = errors.New("malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

func (h header) more() bool { return h.flags&flagMore != 0 }

func (h header) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, h.length)
	to = binary.LittleEndian.AppendUint64(to, h.request)
	to = binary.LittleEndian.AppendUint32(to, h.group)
	return append(to, byte(h.kind), h.flags)
}

func parseHeader(b *[headerSize]byte) (header, error) {
	h := header{
		length:  binary.LittleEndian.Uint32(b[0:]),
		request: binary.LittleEndian.Uint64(b[4:]),
		group:   binary.LittleEndian.Uint32(b[12:]),
		kind:    frameKind(b[16]),
		flags:   b[17],
	}
	switch {
	case h.length > MaxFrame:
		return h, malformed("a frame of %d bytes, more than %d", h.length, MaxFrame)
	case h.kind == 0 || h.kind > lastKind:
		return h, malformed("a frame of kind %d", h.kind)
	case h.flags&^flagMore != 0:
		return h, malformed("a frame with flags %#x", h.flags)
	}
	return h, nil
}

// readHeader reads a header. It returns io.EOF if the stream ends before the header, and io.ErrUnexpectedEOF
// if it ends within it.
func readHeader(r io.Reader) (header, error) {
	var b [headerSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return header{}, err
	}
	return parseHeader(&b)
}

// readFrame reads a whole frame.
func readFrame(r io.Reader) (header, []byte, error) {
	h, err := readHeader(r)
	if err != nil {
		return h, nil, err
	}
	payload := make([]byte, h.length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return h, nil, fmt.Errorf("read a frame: %w", noEOF(err))
	}
	return h, payload, nil
}

// noEOF turns io.EOF into io.ErrUnexpectedEOF, where the stream must not end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrames splits a message into frames and appends them.
func appendFrames(to []byte, h header, payload []byte) []byte {
	for {
		n := min(len(payload), MaxFrame)
		h.length, h.flags = uint32(n), 0
		if n < len(payload) {
			h.flags = flagMore
		}
		to = append(h.append(to), payload[:n]...)
		if payload = payload[n:]; h.flags == 0 {
			return to
		}
	}
}
