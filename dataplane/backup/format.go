// Package backup owns the backup file of a namespace: it takes consistent snapshots of all
// shards, writes them, and reads and checks the file. It does not decide who may request a
// backup or where a restored node is. It may import dataplane/state and every package that
// state may import.
package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// The file, integers little-endian:
//
//	magic  8 bytes
//	parts  each: kind 1, shard 4, length 4, payload, SHA-256 32
//
// A part's hash covers the hash before it (at first, the magic's), its kind, shard,
// length and payload. So no part can be changed, left out, doubled, moved or taken from
// another file, and a reader that has read the last part has checked all of them.
//
// The first part is the header, in JSON. Then follow the pairs of each shard's store, in
// the order of shards and store keys, many to a part: the length of the key, the key, the
// length of the value, and the value, with lengths as varints. The last part is the
// trailer, in JSON. A file that ends before it or continues after it is refused.
const magic = "CORVOBAK"

// Format is the version of the format that this package writes, and the highest it reads.
const Format = 1

type kind byte

const (
	kindHeader  kind = 1
	kindPairs   kind = 2
	kindTrailer kind = 3
)

const (
	// partBytes is the size at which a part of pairs ends, after the pair that reaches it.
	partBytes = 256 << 10
	// maxPartBytes is the maximum size of a part: partBytes and the largest pair, which is an
	// op in an outbox with its key.
	maxPartBytes = partBytes + job.MaxOpBytes + 1<<20
	// maxRest bounds the pause after each part. The pause lasts as long as the part took, so
	// that a backup, which is not urgent, takes about half a processor.
	maxRest = 20 * time.Millisecond
	// maxShards bounds the shards that a header may name.
	maxShards = 1 << 10
)

// Header describes a backup.
type Header struct {
	Format       int       `json:"format"`
	FeatureLevel uint32    `json:"feature_level"` // of the stores; a binary must know it to restore
	Version      string    `json:"version"`       // of the binary that wrote the file
	Namespace    string    `json:"namespace"`
	Created      time.Time `json:"created"`
	Shards       []Shard   `json:"shards"`
}

// Shard is the position of a shard's store in its log.
type Shard struct {
	Group       string            `json:"group"`
	Incarnation entry.Incarnation `json:"incarnation"`
	Index       uint64            `json:"index"`
	Term        uint64            `json:"term"`
}

// Trailer has the counts of all parts before it.
type Trailer struct {
	Pairs []uint64 `json:"pairs"` // by shard
	Bytes uint64   `json:"bytes"` // of keys and values
}

func (h *Header) check() error {
	switch {
	case h.Format > Format:
		return api.Errorf(api.Unsupported, "the backup has format %d, this binary (which reads up to %d) is too old: restore it with corvo %s or newer", h.Format, Format, h.Version)
	case h.Format < 1 || h.Namespace == "":
		return damaged("its header makes no sense")
	case len(h.Shards) == 0 || len(h.Shards) > maxShards:
		return damaged("its header names %d shards", len(h.Shards))
	}
	for i, s := range h.Shards {
		if s.Index == 0 || s.Term == 0 || s.Group != fmt.Sprintf("%s/%d", h.Namespace, i) {
			return damaged("its header makes no sense of shard %d", i)
		}
	}
	return nil
}

// damaged returns the error that refuses a damaged file.
func damaged(format string, args ...any) error {
	return api.Errorf(api.ValidationError, "the backup is damaged: %s. Use another copy of it, or another backup", fmt.Sprintf(format, args...))
}

// chain computes the hashes of the parts.
type chain struct{ sum [sha256.Size]byte }

func newChain() chain { return chain{sha256.Sum256([]byte(magic))} }

// begin starts the hash of the next part.
func (c *chain) begin(front []byte) hash.Hash {
	h := sha256.New()
	h.Write(c.sum[:])
	h.Write(front)
	return h
}

const frontBytes = 1 + 4 + 4

func front(k kind, shard uint32, length int) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{byte(k)}, shard)
	return binary.LittleEndian.AppendUint32(b, uint32(length))
}

// writer writes parts with their hashes.
type writer struct {
	to    io.Writer
	chain chain
}

func (w *writer) part(k kind, shard uint32, payload []byte) error {
	f := front(k, shard, len(payload))
	h := w.chain.begin(f)
	h.Write(payload)
	h.Sum(w.chain.sum[:0])
	for _, b := range [][]byte{f, payload, w.chain.sum[:]} {
		if _, err := w.to.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) document(k kind, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.part(k, 0, text)
}

// write writes a whole backup from the snapshots of the header's shards.
func write(to io.Writer, h Header, shards []*state.Snapshot) (Trailer, error) {
	t := Trailer{Pairs: make([]uint64, len(shards))}
	if _, err := io.WriteString(to, magic); err != nil {
		return t, err
	}
	w := &writer{to: to, chain: newChain()}
	if err := w.document(kindHeader, h); err != nil {
		return t, err
	}
	payload := make([]byte, 0, partBytes+4<<10)
	began := time.Now()
	for i, v := range shards {
		for kv, err := range v.Export() {
			if err != nil {
				return t, fmt.Errorf("read shard %d: %w", i, err)
			}
			payload = appendPair(payload, kv)
			t.Pairs[i]++
			t.Bytes += uint64(len(kv.Key) + len(kv.Value))
			if len(payload) < partBytes {
				continue
			}
			if err := w.part(kindPairs, uint32(i), payload); err != nil {
				return t, err
			}
			payload = payload[:0]
			time.Sleep(min(time.Since(began), maxRest))
			began = time.Now()
		}
		if len(payload) > 0 {
			if err := w.part(kindPairs, uint32(i), payload); err != nil {
				return t, err
			}
			payload = payload[:0]
		}
	}
	return t, w.document(kindTrailer, t)
}

func appendPair(b []byte, kv state.KV) []byte {
	b = append(binary.AppendUvarint(b, uint64(len(kv.Key))), kv.Key...)
	return append(binary.AppendUvarint(b, uint64(len(kv.Value))), kv.Value...)
}

// nextPair takes a pair off the front of a part's payload.
func nextPair(b []byte) (kv state.KV, rest []byte, err error) {
	for _, field := range []*[]byte{&kv.Key, &kv.Value} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return kv, nil, errors.New("a pair goes beyond its part")
		}
		*field, b = b[size:size+int(n)], b[size+int(n):]
	}
	if len(kv.Key) == 0 {
		return kv, nil, errors.New("a pair has no key")
	}
	return kv, b, nil
}
