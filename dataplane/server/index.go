package server

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// indexHeader is where a write answers its position and a client finds what to
// pass on as min_index.
const indexHeader = "Corvo-Index"

// indexVersion is the first byte of an encoded position. After it come pairs of
// shard and index, as unsigned varints: today always one pair, of shard 0.
const indexVersion = 1

// maxIndexText bounds an encoded position before it is looked at.
const maxIndexText = 64

// encodeIndex is a position as clients see it: opaque, for them to pass back.
func encodeIndex(at cell.Index) string {
	var buf [1 + 2*binary.MaxVarintLen64]byte
	b := append(buf[:0], indexVersion)
	b = binary.AppendUvarint(b, 0)
	b = binary.AppendUvarint(b, uint64(at))
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeIndex reads what encodeIndex made.
func decodeIndex(text string) (cell.Index, error) {
	bad := api.Errorf(api.ValidationError, "min_index %s is not a position: pass on a "+indexHeader+" of an earlier answer", convert.Excerpt(text))
	if len(text) > maxIndexText {
		return 0, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != indexVersion {
		return 0, bad
	}
	shard, n := binary.Uvarint(b[1:])
	if n <= 0 || shard != 0 {
		return 0, bad
	}
	index, m := binary.Uvarint(b[1+n:])
	if m <= 0 || 1+n+m != len(b) {
		return 0, bad
	}
	return cell.Index(index), nil
}

func setIndex(w http.ResponseWriter, at cell.Index) { w.Header().Set(indexHeader, encodeIndex(at)) }
