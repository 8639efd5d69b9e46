package server

import (
	"net/http"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
)

// WriteHeader adds an explanation to the bare refusals of Connect's handler: of a call in an unknown
// protocol, and of a call without the HTTP/2 that its procedure needs. The explanation is in the protocol of
// the call if this server knows that protocol.
func (w *rpcWriter) WriteHeader(status int) {
	w.begin()
	why := ""
	switch status {
	case http.StatusUnsupportedMediaType:
		why = "this procedure is called with one of these content types: " + w.Header().Get("Accept-Post")
	case http.StatusHTTPVersionNotSupported:
		why = "this procedure needs HTTP/2, in TLS or by prior knowledge (h2c)"
	default:
		w.ResponseWriter.WriteHeader(status)
		return
	}
	rpc.Refuse(numbered{w.ResponseWriter, status}, w.r, api.Errorf(api.Unsupported, "%s", why))
}

// numbered keeps Connect's HTTP status, which differs from the status of the error code. In a protocol that
// answers errors with status 200, the status stays 200.
type numbered struct {
	http.ResponseWriter
	status int
}

func (w numbered) WriteHeader(status int) {
	if status != http.StatusOK {
		status = w.status
	}
	w.ResponseWriter.WriteHeader(status)
}

// noProcedure refuses calls of unknown procedures.
func noProcedure(_ http.ResponseWriter, r *http.Request) error {
	return api.Errorf(api.Unsupported, "%s has no procedure %s", strings.Trim(rpc.Prefix, "/"), r.PathValue("procedure"))
}
