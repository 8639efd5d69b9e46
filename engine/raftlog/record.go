package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// A record is one entry, or a stable value, as every kind stores it:
//
//	crc32c of all that follows (4) | write number (8) | entry, in raft-wal's binary form
//
// The checksum is needed because no library checks everything it reads (raft-wal and bolt check nothing that
// was once committed). The write number distinguishes a log that lost acknowledged writes from one that never
// had them (see mark).

const (
	recordHead = 4 + 8
	// entryCodecBytes bounds the size of an encoded entry besides its data and extensions: five varints and a
	// time.
	entryCodecBytes = 5*binary.MaxVarintLen64 + 16
)

// errDamaged is wrapped by errors about content that differs from the written content.
var errDamaged = errors.New("the log is damaged: restore the directory from a copy, or let the node join again with an empty one")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var entryCodec wal.BinaryCodec

// encodeRecord appends a record to w, which grows at most once.
func encodeRecord(w *bytes.Buffer, number uint64, l *raft.Log) error {
	w.Grow(recordHead + len(l.Data) + len(l.Extensions) + entryCodecBytes)
	start := w.Len()
	var head [recordHead]byte
	binary.BigEndian.PutUint64(head[4:], number)
	w.Write(head[:])
	if err := entryCodec.Encode(l, w); err != nil {
		return fmt.Errorf("encode entry %d: %w", l.Index, err)
	}
	putChecksum(w.Bytes()[start:])
	return nil
}

func putChecksum(record []byte) {
	binary.BigEndian.PutUint32(record, crc32.Checksum(record[4:], castagnoli))
}

// stableRecord encodes a stable value.
func stableRecord(number uint64, value []byte) []byte {
	record := binary.BigEndian.AppendUint64(make([]byte, 4, recordHead+len(value)), number)
	record = append(record, value...)
	putChecksum(record)
	return record
}

// checkRecord returns the write number of a record, and its encoded entry or its value.
func checkRecord(record []byte) (number uint64, content []byte, err error) {
	if len(record) < recordHead || crc32.Checksum(record[4:], castagnoli) != binary.BigEndian.Uint32(record) {
		return 0, nil, fmt.Errorf("a record of %d bytes fails its checksum: %w", len(record), errDamaged)
	}
	return binary.BigEndian.Uint64(record[4:]), record[recordHead:], nil
}

// decodeRecord decodes a record into l. It copies the bytes, so record may be reused.
func decodeRecord(record []byte, l *raft.Log) (number uint64, err error) {
	number, entry, err := checkRecord(record)
	if err != nil {
		return 0, err
	}
	*l = raft.Log{}
	return number, entryCodec.Decode(entry, l)
}

// recordCodec encodes records for raft-wal. The write number stays 0, because a walStore's mark is an index.
type recordCodec struct{}

// ID returns the codec's permanent number, in the range that the library reserves for external codecs.
func (recordCodec) ID() uint64 { return wal.FirstExternalCodecID + 1 }

// Encode writes into the library's own buffer, because copying from another buffer would add half the cost of
// an unsynced append.
func (recordCodec) Encode(l *raft.Log, w io.Writer) error {
	b, ok := w.(*bytes.Buffer)
	if !ok {
		return fmt.Errorf("raft-wal has an entry encoded into a %T, not a buffer", w)
	}
	return encodeRecord(b, 0, l)
}

func (recordCodec) Decode(record []byte, l *raft.Log) error {
	_, err := decodeRecord(record, l)
	return err
}
