package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// announcement is the stream that raft transfers as a snapshot: the position and the list of parts. The
// transport sends the parts themselves separately.
//
// Its encoding, integers little-endian, each length before its field:
//
//	magic          8 bytes, includes the format's version
//	group          length 2
//	incarnation    16 bytes
//	index, term    8 bytes each
//	configuration  length 4, raft's encoding; its index, 8 bytes
//	parts          number 4; each: name with length 2, size 8, SHA-256 32
//	crc            CRC-32C of all before, 4 bytes
//
// The encoding is binary because there may be many parts and raft needs the exact size in advance.
type announcement struct {
	manifest
	parts []image.Part
}

const (
	announcementMagic = "CORVOSN1"
	// maxAnnouncement bounds the encoding of an announcement, in bytes. It has room for the maximum number of
	// parts with names of common length, or for a fifth of them with the longest names.
	maxAnnouncement = 8 << 20
	maxGroupName    = 1 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (a announcement) encode() ([]byte, error) {
	if err := image.Check(a.parts); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	b := []byte(announcementMagic)
	b = append(le.AppendUint16(b, uint16(len(a.Group))), a.Group...)
	b = append(b, a.Incarnation[:]...)
	b = le.AppendUint64(le.AppendUint64(b, a.Index), a.Term)
	b = append(le.AppendUint32(b, uint32(len(a.Configuration))), a.Configuration...)
	b = le.AppendUint64(b, a.ConfigurationIndex)
	b = le.AppendUint32(b, uint32(len(a.parts)))
	for _, p := range a.parts {
		b = append(le.AppendUint16(b, uint16(len(p.Name))), p.Name...)
		b = append(le.AppendUint64(b, uint64(p.Size)), p.Sum[:]...)
	}
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if len(a.Group) > maxGroupName || len(b) > maxAnnouncement {
		return nil, fmt.Errorf("the snapshot of group %q has %d parts, whose list has %d bytes, more than %d", a.Group, len(a.parts), len(b), maxAnnouncement)
	}
	return b, nil
}

// decodeAnnouncement decodes the output of encode. An accepted announcement encodes to the same bytes.
func decodeAnnouncement(b []byte) (announcement, error) {
	var a announcement
	body := len(b) - crc32.Size
	if len(b) > maxAnnouncement || body < len(announcementMagic) || string(b[:len(announcementMagic)]) != announcementMagic {
		return a, errors.New("this is no snapshot that this binary knows; members of a group run binaries of neighbouring versions")
	}
	if got, want := binary.LittleEndian.Uint32(b[body:]), crc32.Checksum(b[:body], castagnoli); got != want {
		return a, fmt.Errorf("the list of the snapshot's parts is damaged: checksum %08x, want %08x", got, want)
	}
	in := &fields{b: b[len(announcementMagic):body]}
	a.Group = string(in.take(int(in.uint16())))
	a.Incarnation = entry.Incarnation(in.take(len(a.Incarnation)))
	a.Index, a.Term = in.uint64(), in.uint64()
	if n := in.take(int(in.uint32())); len(n) > 0 {
		a.Configuration = append([]byte(nil), n...)
	}
	a.ConfigurationIndex = in.uint64()
	count := int(in.uint32())
	for i := 0; i < count && in.err == nil; i++ {
		p := image.Part{Name: string(in.take(int(in.uint16())))}
		p.Size = int64(in.uint64())
		copy(p.Sum[:], in.take(len(p.Sum)))
		a.parts = append(a.parts, p)
	}
	if in.err != nil || len(in.b) > 0 || len(a.Group) > maxGroupName {
		return announcement{}, errors.New("the list of the snapshot's parts does not end where it should")
	}
	if err := image.Check(a.parts); err != nil {
		return announcement{}, err
	}
	return a, nil
}

// fields reads fields from b. Beyond the end it returns zeros and sets err.
type fields struct {
	b   []byte
	err error
}

func (f *fields) take(n int) []byte {
	if n < 0 || n > len(f.b) {
		f.err, f.b = io.ErrUnexpectedEOF, nil
		return make([]byte, min(max(n, 0), sumBytes))
	}
	taken := f.b[:n]
	f.b = f.b[n:]
	return taken
}

// sumBytes is the longest field of fixed length.
const sumBytes = 32

func (f *fields) uint16() uint16 { return binary.LittleEndian.Uint16(f.take(2)) }
func (f *fields) uint32() uint32 { return binary.LittleEndian.Uint32(f.take(4)) }
func (f *fields) uint64() uint64 { return binary.LittleEndian.Uint64(f.take(8)) }
