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

// A record is one entry, or a stable value, as every kind keeps it:
//
//	crc32c of what follows (4) | write number (8) | entry, in raft-wal's binary form
//
// No library behind us checks all it reads (raft-wal and bolt check nothing of
// what was once committed), so we do. The write number is what tells a log that
// lost acknowledged writes from one that never had them; see mark.

const (
	recordHead = 4 + 8
	// entryFormBytes is the most an entry takes beside its data and extensions: five
	// varints and a time.
	entryFormBytes = 5*binary.MaxVarintLen64 + 16
)

// errDamaged is an entry that is not what was written.
var errDamaged = errors.New("the log is damaged: restore the directory from a copy, or let the node join again with an empty one")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var entryForm wal.BinaryCodec

// encodeRecord appends a record to w, which grows once.
func encodeRecord(w *bytes.Buffer, number uint64, l *raft.Log) error {
	w.Grow(recordHead + len(l.Data) + len(l.Extensions) + entryFormBytes)
	start := w.Len()
	var head [recordHead]byte
	binary.BigEndian.PutUint64(head[4:], number)
	w.Write(head[:])
	if err := entryForm.Encode(l, w); err != nil {
		return fmt.Errorf("encode entry %d: %w", l.Index, err)
	}
	seal(w.Bytes()[start:])
	return nil
}

func seal(record []byte) {
	binary.BigEndian.PutUint32(record, crc32.Checksum(record[4:], castagnoli))
}

// stableRecord is a stable value as it is kept.
func stableRecord(number uint64, value []byte) []byte {
	record := binary.BigEndian.AppendUint64(make([]byte, 4, recordHead+len(value)), number)
	record = append(record, value...)
	seal(record)
	return record
}

// checkRecord answers the number of the write that a record came with, and its
// entry still encoded, or its value.
func checkRecord(record []byte) (number uint64, content []byte, err error) {
	if len(record) < recordHead || crc32.Checksum(record[4:], castagnoli) != binary.BigEndian.Uint32(record) {
		return 0, nil, fmt.Errorf("a record of %d bytes fails its checksum: %w", len(record), errDamaged)
	}
	return binary.BigEndian.Uint64(record[4:]), record[recordHead:], nil
}

// decodeRecord fills l with copies: record may be reused afterwards.
func decodeRecord(record []byte, l *raft.Log) (number uint64, err error) {
	number, entry, err := checkRecord(record)
	if err != nil {
		return 0, err
	}
	*l = raft.Log{}
	return number, entryForm.Decode(entry, l)
}

// recordCodec is the record as raft-wal wants it. The write number stays 0: the
// index is enough there, see walStore.
type recordCodec struct{}

// ID is one of the numbers the library leaves to others; it never changes.
func (recordCodec) ID() uint64 { return wal.FirstExternalCodecID + 1 }

// Encode writes into the library's own buffer: one of ours, copied, would be half
// as much again on top of an append that is not synced.
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
