package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version is the protocol's. Peers of different versions refuse each other when
// they meet; the frame header and the first three fields of a hello stay for ever,
// so that they can.
const Version = 1

// A frame is a header and up to MaxFrame bytes. A message longer than that goes as
// several frames, between which those of other messages may stand. There is no
// checksum: TLS authenticates each record with a 128-bit tag, so a frame that
// arrives is the frame that was sent.
const (
	headerSize = 18
	// MaxFrame bounds a frame's payload in bytes. It is how long a heartbeat waits
	// behind data: 64 KiB take half a millisecond at 1 Gbit/s.
	MaxFrame = 64 << 10
	// MaxMessage bounds a message of Raft in bytes. One op of the largest size is far
	// below it.
	MaxMessage = 64 << 20
)

// frameKind is what a frame is a part of. The numbers are for ever.
type frameKind uint8

const (
	frameHello    frameKind = 1  // who I am; the first frame each way
	frameRefusal  frameKind = 2  // instead of a hello: why not, in words
	frameGroup    frameKind = 3  // the group that a number will stand for
	framePing     frameKind = 4  // my clock
	framePong     frameKind = 5  // your clock, mine at your ping's arrival, mine now
	frameAppend   frameKind = 6  // raft.AppendEntriesRequest
	frameVote     frameKind = 7  // raft.RequestVoteRequest
	framePreVote  frameKind = 8  // raft.RequestPreVoteRequest
	frameTimeout  frameKind = 9  // raft.TimeoutNowRequest
	frameCall     frameKind = 10 // kind, time left, request
	frameAnswer   frameKind = 11 // what a request asked for
	frameFault    frameKind = 12 // why it cannot be had
	frameCancel   frameKind = 13 // the answer to a request is not awaited any more
	frameSnapshot frameKind = 14 // raft.InstallSnapshotRequest and the table of parts
	frameMissing  frameKind = 15 // which parts are asked for
	framePart     frameKind = 16 // a part's bytes; its number is the request
	frameManifest frameKind = 17 // the bytes for raft
	frameWorking  frameKind = 18 // I am busy with your snapshot, wait
	lastKind                = frameWorking
)

// flagMore says that the message goes on in another frame of the same kind and
// request.
const flagMore = 1

// header is what stands before each frame's payload, little-endian:
// length 4, request 8, group 4, kind 1, flags 1.
type header struct {
	length  uint32
	request uint64 // chosen by who asks, repeated by who answers
	group   uint32 // a number introduced by frameGroup; 0 = the process
	kind    frameKind
	flags   uint8
}

// ErrMalformed is the cause of every error about bytes that no peer of this
// version would send. The connection they came on is ended.
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

// readHeader reads a header. An end of the stream before it is io.EOF, within it
// io.ErrUnexpectedEOF.
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

// noEOF is for an end of the stream where it may not be.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrames cuts a message into frames and appends them.
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
