package server

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
)

// indexHeader names the response header with the positions of a write. A client passes it back as min_index
// to read what it wrote.
const indexHeader = "Corvo-Index"

// indexVersion is the first byte of encoded positions. Pairs of shard and index follow as unsigned varints,
// each shard once and in order.
const indexVersion = 1

// maxIndexText bounds the text before it is decoded: one position for every possible shard, with 1 byte of
// shard and at most 10 bytes of index.
var maxIndexText = base64.RawURLEncoding.EncodedLen(1 + host.MaxShards*(1+binary.MaxVarintLen64))

// position is the place of a write in the log of its shard.
type position struct {
	shard uint32
	index cell.Index
}

// positionOf returns the last position that this node has applied in the log of a shard.
func positionOf(c *cell.Cell) position { return position{c.Shard(), c.Applied()} }

// encodeIndex encodes positions of different shards into the opaque text that clients pass back. It sorts at
// by shard.
func encodeIndex(at ...position) string {
	slices.SortFunc(at, func(a, b position) int { return int(a.shard) - int(b.shard) })
	var buf [1 + 2*binary.MaxVarintLen64]byte
	b := append(buf[:0], indexVersion)
	for _, p := range at {
		b = binary.AppendUvarint(b, uint64(p.shard))
		b = binary.AppendUvarint(b, uint64(p.index))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeIndex parses the text of encodeIndex for a namespace with the given number of shards. It refuses any
// other text with VALIDATION_ERROR.
func decodeIndex(given string, shards int) ([]position, error) {
	bad := api.Errorf(api.ValidationError, "min_index %s is not a position: pass on a "+indexHeader+" of an earlier answer", text.Quote(given))
	if len(given) > maxIndexText {
		return nil, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(given)
	if err != nil || len(b) < 2 || b[0] != indexVersion {
		return nil, bad
	}
	var all []position
	for b = b[1:]; len(b) > 0; {
		shard, n := binary.Uvarint(b)
		if n <= 0 || shard >= uint64(shards) || len(all) > 0 && uint32(shard) <= all[len(all)-1].shard {
			return nil, bad
		}
		index, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return nil, bad
		}
		all = append(all, position{uint32(shard), cell.Index(index)})
		b = b[n+m:]
	}
	return all, nil
}

// setIndex sets the positions in the header of an answer; w is nil for an answer without a header.
func setIndex(w http.ResponseWriter, at ...position) {
	if w != nil {
		w.Header().Set(indexHeader, encodeIndex(at...))
	}
}

// later adds a position to a list. Of two positions of one shard it keeps the later one.
func later(all []position, p position) []position {
	for i := range all {
		if all[i].shard == p.shard {
			all[i].index = max(all[i].index, p.index)
			return all
		}
	}
	return append(all, p)
}
