package server

import (
	"encoding/json"
	"net/http"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
)

// WriteHeader says what is spoken here where Connect's handler has only a number for a
// call that it has no protocol for. The answer is what an error is to a call with JSON.
func (w *rpcWriter) WriteHeader(status int) {
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
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(rpc.CodeHeader, string(api.Unsupported))
	w.ResponseWriter.WriteHeader(status)
	// Texts always encode, and that the client is gone is noted.
	body, _ := json.Marshal(map[string]string{"code": connect.CodeUnimplemented.String(), "message": why})
	_, _ = w.Write(body)
}
