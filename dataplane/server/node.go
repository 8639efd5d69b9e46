package server

import (
	"net/http"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

// apiVersion is the version of the wire contract.
const apiVersion = "v1"

// capabilities are the parts of the contract that this server has, for clients
// that find out what they may use.
var capabilities = []string{
	"enqueue", "enqueue.batch", "enqueue.delayed", "enqueue.idempotency",
	"fetch", "fetch.batch", "ack", "ack.batch", "fail", "heartbeat",
	"jobs.get", "jobs.search", "jobs.move", "queues", "queues.pause", "queues.concurrency",
	"rpc", "rpc.stream",
}

// ownKeysCapability is that of a server that makes its keys itself.
const ownKeysCapability = "auth.keys"

func (s *Server) info(w http.ResponseWriter, r *http.Request) error {
	return serve.WriteJSON(w, http.StatusOK, api.Info{ServerVersion: s.cfg.Version, APIVersion: apiVersion, Capabilities: s.capabilities()})
}

// capabilities are those of this server.
func (s *Server) capabilities() []string {
	if s.cloud() {
		return capabilities
	}
	return append(slices.Clip(capabilities), ownKeysCapability)
}

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.openapi) // an error means that the client is gone
	return nil
}
