package backup

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/corvo/corvo/dataplane/state"
)

// Reader reads a backup from its beginning to its end and checks all of it. The caller may
// rely on the yielded pairs only after End has returned without an error.
type Reader struct {
	Header Header

	from  io.Reader
	chain chain
	got   Trailer
	shard int    // the shard that is being read
	last  []byte // the last key of that shard
	next  []byte // a payload that was read ahead; of is its shard
	of    int
	end   *Trailer
}

// NewReader reads a backup's header. It returns UNSUPPORTED for a newer format, and VALIDATION_ERROR for a
// file that is damaged or no backup.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{from: from, chain: newChain()}
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(from, begin); err != nil && !short(err) {
		return nil, err
	} else if err != nil || string(begin) != magic {
		return nil, damaged("it does not begin like a file of `corvo admin backup`")
	}
	k, _, payload, err := r.part()
	switch {
	case err != nil:
		return nil, err
	case k != kindHeader:
		return nil, damaged("it has no header")
	}
	// Check the format before the fields, because a newer format may have other fields.
	var of struct {
		Format  int    `json:"format"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(payload, &of); err == nil && of.Format > Format {
		return nil, (&Header{Format: of.Format, Version: of.Version}).check()
	}
	if err := document(payload, &r.Header); err != nil {
		return nil, damaged("its header cannot be read: %v", err)
	}
	if err := r.Header.check(); err != nil {
		return nil, err
	}
	r.got.Pairs = make([]uint64, len(r.Header.Shards))
	return r, nil
}

// document decodes a part in JSON and refuses one that this package would encode
// differently.
func document(payload []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if again, err := json.Marshal(v); err != nil || !bytes.Equal(again, payload) {
		return errors.New("its JSON is not in the form that corvo writes")
	}
	return nil
}

func short(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// truncated turns an early end of the file into the error that refuses a truncated backup. It
// returns other errors as they are.
func truncated(err error) error {
	if short(err) {
		return damaged("it is truncated: its end is missing")
	}
	return err
}

// part reads the next part and checks its hash.
func (r *Reader) part() (k kind, shard uint32, payload []byte, err error) {
	f := make([]byte, frontBytes)
	if _, err := io.ReadFull(r.from, f); err != nil {
		return 0, 0, nil, truncated(err)
	}
	k, shard = kind(f[0]), binary.LittleEndian.Uint32(f[1:])
	length := binary.LittleEndian.Uint32(f[5:])
	if length > maxPartBytes {
		return 0, 0, nil, damaged("a part of it has a length of %d bytes", length)
	}
	// The buffer grows with the data that arrives, because the length may be wrong.
	var buffer bytes.Buffer
	if _, err := io.CopyN(&buffer, r.from, int64(length)); err != nil {
		return 0, 0, nil, truncated(err)
	}
	h := r.chain.begin(f)
	h.Write(buffer.Bytes())
	h.Sum(r.chain.sum[:0])
	sum := make([]byte, len(r.chain.sum))
	if _, err := io.ReadFull(r.from, sum); err != nil {
		return 0, 0, nil, truncated(err)
	}
	if !bytes.Equal(sum, r.chain.sum[:]) {
		return 0, 0, nil, damaged("the hash of a part is wrong")
	}
	return k, shard, buffer.Bytes(), nil
}

// Shard yields the pairs of a shard in the order of their keys. The caller reads the shards
// in order, each to its end. A pair is valid until the next one. An error is yielded once
// and ends the iteration.
func (r *Reader) Shard(shard int) iter.Seq2[state.KV, error] {
	return func(yield func(state.KV, error) bool) {
		if shard != r.shard {
			yield(state.KV{}, fmt.Errorf("shard %d is to be read next, not %d", r.shard, shard))
			return
		}
		for {
			payload, err := r.pairs()
			if err != nil {
				yield(state.KV{}, err)
				return
			}
			if payload == nil {
				break
			}
			for len(payload) > 0 {
				var kv state.KV
				if kv, payload, err = r.pair(payload); err != nil {
					yield(state.KV{}, err)
					return
				}
				if !yield(kv, nil) {
					return
				}
			}
		}
		r.shard, r.last = r.shard+1, nil
	}
}

// pair takes the next pair from a payload and counts it.
func (r *Reader) pair(payload []byte) (kv state.KV, rest []byte, err error) {
	if kv, rest, err = nextPair(payload); err != nil {
		return kv, nil, damaged("%v", err)
	}
	if r.last != nil && bytes.Compare(kv.Key, r.last) <= 0 {
		return kv, nil, damaged("its keys are not in order")
	}
	r.last = append(r.last[:0], kv.Key...)
	r.got.Pairs[r.shard]++
	r.got.Bytes += uint64(len(kv.Key) + len(kv.Value))
	return kv, rest, nil
}

// pairs returns the next part of the current shard, or nil after its last part.
func (r *Reader) pairs() ([]byte, error) {
	if r.next == nil && r.end == nil {
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
	if r.next == nil || r.of != r.shard {
		return nil, nil
	}
	payload := r.next
	r.next = nil
	return payload, nil
}

// advance reads the next part of pairs, or the trailer.
func (r *Reader) advance() error {
	k, shard, payload, err := r.part()
	switch {
	case err != nil:
		return err
	case k == kindPairs && int64(shard) >= int64(r.shard) && int64(shard) < int64(len(r.Header.Shards)) && len(payload) > 0:
		r.next, r.of = payload, int(shard)
		return nil
	case k != kindTrailer:
		return damaged("a part of it is out of place")
	}
	r.end = &Trailer{}
	if err := document(payload, r.end); err != nil {
		return damaged("its trailer cannot be read: %v", err)
	}
	return nil
}

// End returns the trailer after all shards have been read. It returns an error if data is
// missing or follows the trailer.
func (r *Reader) End() (Trailer, error) {
	if r.end == nil || r.shard != len(r.Header.Shards) {
		return Trailer{}, fmt.Errorf("shard %d has not been read to its end", r.shard)
	}
	if r.end.Bytes != r.got.Bytes || !slices.Equal(r.end.Pairs, r.got.Pairs) {
		return Trailer{}, damaged("it does not hold what its trailer counts")
	}
	if slices.Contains(r.got.Pairs, 0) {
		return Trailer{}, damaged("a shard of it is empty")
	}
	var more [1]byte
	switch n, err := io.ReadFull(r.from, more[:]); {
	case n > 0:
		return Trailer{}, damaged("something follows its trailer")
	case err != io.EOF: //nolint:errorlint // as every reader compares it
		return Trailer{}, err
	}
	return *r.end, nil
}

// Verify reads a whole backup, keeps nothing of it, and returns its header and trailer. A
// backup that it refuses must not be restored.
func Verify(from io.Reader) (Header, Trailer, error) {
	r, err := NewReader(from)
	if err != nil {
		return Header{}, Trailer{}, err
	}
	for shard := range r.Header.Shards {
		for _, err := range r.Shard(shard) {
			if err != nil {
				return r.Header, Trailer{}, err
			}
		}
	}
	t, err := r.End()
	return r.Header, t, err
}
