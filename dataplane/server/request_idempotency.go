package server

import (
	"crypto/sha256"
	"io"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

const idempotencyHeader = "Idempotency-Key"

// idempotency reads the idempotency key of a request and adds a hash that distinguishes a repeat from another
// request with the same key. It returns nil if the client sent no key.
func idempotency(r *http.Request, body []byte) (*op.Idempotency, error) {
	values := r.Header.Values(idempotencyHeader)
	if len(values) == 0 {
		return nil, nil
	}
	key := values[0]
	if len(values) > 1 || !validIdempotencyKey(key) {
		return nil, api.Errorf(api.ValidationError,
			"%s: send it once, with 1 to %d visible ASCII characters", idempotencyHeader, job.MaxIdempotencyKey)
	}
	return &op.Idempotency{Key: key, RequestHash: requestHash(r.Method, r.URL.RequestURI(), body)}, nil
}

func validIdempotencyKey(key string) bool {
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return false
		}
	}
	return key != "" && len(key) <= job.MaxIdempotencyKey
}

// requestHash hashes a request's method, URI and body with SHA-256, but none of its headers. Method and URI
// cannot contain the line end that separates them.
func requestHash(method, uri string, body []byte) []byte {
	h := sha256.New()
	io.WriteString(h, method+"\n"+uri+"\n") // writing to a hash never fails
	h.Write(body)
	return h.Sum(nil)
}
