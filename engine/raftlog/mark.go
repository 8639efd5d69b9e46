package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corvo/corvo/durable"
)

// mark records, outside of the library's files, the last write that the log has acknowledged. The libraries
// drop the end of a log that they cannot read, because they take it for a write torn by a crash. But that end
// may be an acknowledged write that was damaged later, and no library can tell. The mark shows the
// difference: a log that ends before its mark has lost acknowledged entries, and is refused.
//
// The mark is written after each acknowledged write and is not synced. Writing it costs a microsecond, and it
// survives the process. After a crash of the machine it may be too low, which makes the check weaker and
// never wrong. Syncing it would double the cost of an append. If appends are not synced, the mark is frozen,
// that is, not raised, because it could reach the disk before they do.
type mark struct {
	file   *os.File
	value  uint64
	frozen bool
}

const (
	markFile  = "MARK"
	voteFile  = "VOTES" // raft-wal stores term and vote apart from the log, so they have a mark of their own
	markBytes = 8 + 4
)

func openMark(dir, name string, frozen bool) (*mark, error) {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data = encodeMark(0)
		err = durable.WriteFile(path, data, 0o644)
	}
	if err != nil {
		return nil, err
	}
	if len(data) != markBytes || crc32.Checksum(data[:8], castagnoli) != binary.BigEndian.Uint32(data[8:]) {
		return nil, fmt.Errorf("%s is damaged: without it a log that lost its end looks whole; remove it to open the log all the same", path)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &mark{file: file, value: binary.BigEndian.Uint64(data), frozen: frozen}, nil
}

func encodeMark(value uint64) []byte {
	data := binary.BigEndian.AppendUint64(nil, value)
	return binary.BigEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

// raise records an acknowledged write.
func (m *mark) raise(value uint64) error {
	if m.frozen || value <= m.value {
		return nil
	}
	m.value = value
	_, err := m.file.WriteAt(encodeMark(value), 0)
	return err
}

// lower lowers the mark durably, before a deletion. If the log's end were deleted first, a crash in between
// would look like a loss.
func (m *mark) lower(value uint64) error {
	if value >= m.value {
		return nil
	}
	if _, err := m.file.WriteAt(encodeMark(value), 0); err != nil {
		return err
	}
	m.value = value
	return m.file.Sync()
}

// reached checks that the log reaches the last acknowledged write.
func (m *mark) reached(value uint64) error {
	if value < m.value {
		return fmt.Errorf("write %d was acknowledged and the log ends at %d: %w", m.value, value, errDamaged)
	}
	return nil
}

func (m *mark) Close() error { return m.file.Close() }
