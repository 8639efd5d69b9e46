package server

import (
	"net/http"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
)

// WriteHeader says what is spoken here where Connect's handler has only a number for a
// call that it has no protocol for. The caller is answered in the protocol it does speak.
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

// numbered keeps the number for those who look at it, which is not the one of the code;
// an answer that has its error inside stays 200.
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

// noProcedure answers calls of procedures that there are not.
func noProcedure(_ http.ResponseWriter, r *http.Request) error {
	return api.Errorf(api.Unsupported, "%s has no procedure %s", strings.Trim(rpc.Prefix, "/"), r.PathValue("procedure"))
}
