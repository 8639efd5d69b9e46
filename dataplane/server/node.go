package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

// apiVersion is the version of the wire contract.
const apiVersion = "v1"

// fieldCapabilities name the features that are fields or headers of a route, not routes.
var fieldCapabilities = []string{"enqueue.delayed", "enqueue.idempotency"}

// nodeCapabilities are prefixes of the capabilities that a host of the cloud lacks, because it refuses their
// routes.
var nodeCapabilities = []string{"admin.backup", "auth.keys", "auth.roles", "debug.runtime"}

func (s *Server) info(w http.ResponseWriter, r *http.Request) error {
	return serve.WriteJSON(w, http.StatusOK, api.Info{ServerVersion: s.cfg.Version, APIVersion: apiVersion, Capabilities: s.capabilities()})
}

// capabilities returns the names of this server's features, for clients that support several versions. Most
// names derive from the table of routes: POST /jobs/{id}/move is jobs.move. Unimplemented routes are left
// out, and so are nodeCapabilities on a host of the cloud. fieldCapabilities and the names of the RPC are
// added.
func (s *Server) capabilities() []string {
	all := slices.Clone(fieldCapabilities)
	for _, r := range s.routes() {
		name, ok := capability(r)
		onlyNodes := slices.ContainsFunc(nodeCapabilities, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if ok && !(onlyNodes && s.cloud()) {
			all = append(all, name)
		}
	}
	for _, r := range s.procedures() {
		if all = append(all, "rpc"); strings.HasSuffix(r.Path, "StreamLifecycle") {
			all = append(all, "rpc.stream")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// capability returns the name of a route's feature; ok is false for a route without one.
func capability(r serve.Route) (name string, ok bool) {
	path, ok := strings.CutPrefix(r.Path, "/api/v1/")
	if !ok || r.Unbuilt || path == "admin/restore" { // every node refuses to restore itself
		return "", false
	}
	var words []string
	for word := range strings.SplitSeq(path, "/") {
		if !strings.HasPrefix(word, "{") {
			words = append(words, word)
		}
	}
	if r.Method == http.MethodGet && strings.HasSuffix(path, "}") {
		words = append(words, "get")
	}
	return strings.Join(words, "."), true
}

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.openapi) // an error means that the connection failed, so nobody can be told
	return nil
}
