package server

import (
	"crypto/sha256"
	"io"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
)

const idempotencyHeader = "Idempotency-Key"

// idempotency returns the idempotency key of a request with a hash of the request. The hash tells a repeat
// from another request under the same key. idempotency returns nil for a read, and if the client sent no key.
// It refuses a key that is not valid or is sent twice.
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

// requestHash returns the SHA-256 of the method, the URI and the body of a request. The hash leaves out the
// headers, If-Match among them. The method and the URI cannot contain the newline that separates them.
func requestHash(method, uri string, body []byte) []byte {
	h := sha256.New()
	io.WriteString(h, method+"\n"+uri+"\n") // a hash never fails to write
	h.Write(body)
	return h.Sum(nil)
}
