package server

import (
	"crypto/sha256"
	"io"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
)

const idempotencyHeader = "Idempotency-Key"

// idempotency is what makes a repeat of this request answer as the first did: its
// key, and the hash that tells a repeat from another request under the same key. It
// is nil when the client sent no key.
func idempotency(r *http.Request, body []byte) (*store.Idempotency, error) {
	values := r.Header.Values(idempotencyHeader)
	if len(values) == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil, nil
	}
	key := values[0]
	if len(values) > 1 || !validIdempotencyKey(key) {
		return nil, api.Errorf(api.ValidationError,
			"%s: send it once, with 1 to %d visible ASCII characters", idempotencyHeader, store.MaxIdempotencyKey)
	}
	return &store.Idempotency{Key: key, RequestHash: requestHash(r.Method, r.URL.RequestURI(), body)}, nil
}

func validIdempotencyKey(key string) bool {
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return false
		}
	}
	return key != "" && len(key) <= store.MaxIdempotencyKey
}

// requestHash is SHA-256 of the parts of a request that decide what it does. The
// first two cannot hold the line end that separates them.
func requestHash(method, uri string, body []byte) []byte {
	h := sha256.New()
	io.WriteString(h, method+"\n"+uri+"\n") // a hash never fails to write
	h.Write(body)
	return h.Sum(nil)
}
