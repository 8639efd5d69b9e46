package main

import (
	"net/http"
	"sync/atomic"

	"github.com/corvo/corvo/dataplane"
)

// startingServer serves HTTP while the node is still opening: a node that waits for others to form a cluster is
// alive but not ready. Otherwise an orchestrator that starts each node after the previous one is alive would
// never start the second.
type startingServer struct {
	node atomic.Pointer[dataplane.Node]
}

func (d *startingServer) open(n *dataplane.Node) { d.node.Store(n) }

func (d *startingServer) drain() {
	if n := d.node.Load(); n != nil {
		n.Drain()
	}
}

// startingRetry is the Retry-After of a node that is still opening.
const startingRetry = "1" // seconds

func (d *startingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := d.node.Load(); n != nil {
		n.Handler().ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	body := `{"error":"this node is starting or waits for its cluster: nothing was done, try again or ask another node","code":"LEADER_UNAVAILABLE","details":{"retry_after_ms":1000}}`
	if r.URL.Path == "/healthz" {
		body = `{"status":"ok","checks":{"cluster":"starting or waiting for others"}}`
	} else {
		w.Header().Set("Retry-After", startingRetry)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(body)) // an error means that the client is gone
}
