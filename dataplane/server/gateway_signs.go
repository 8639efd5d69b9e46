package server

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/tenancy"
)

// markFor returns the function that adds a host's signs for gateways to a response; nil on a bare node, which has no
// gateways.
func (s *Server) markFor() func(context.Context, http.Header, api.Code, bool) {
	if !s.cloud() {
		return nil
	}
	return s.mark
}

// mark tells the gateway that this host shuts down, which store leads the namespace instead of this host's, and
// whether a request that was refused for lack of a leader or of an open namespace has changed something. While the
// host shuts down, each response ends its connection, so that a gateway does not send a request on a connection just
// as the host closes it.
func (s *Server) mark(ctx context.Context, h http.Header, refused api.Code, changed bool) {
	if s.draining.Err() != nil {
		h.Set(fleet.LeavingHeader, "true")
		h.Set("Connection", "close")
	}
	if leader := s.otherLeader(serve.Principal(ctx).Namespace); leader != "" {
		h.Set(fleet.LeaderHeader, leader)
	}
	if !fleet.Elsewhere(refused) {
		return
	}
	outcome := fleet.Unchanged
	if changed {
		outcome = fleet.Unknown
	}
	h.Set(fleet.OutcomeHeader, outcome)
}

// otherLeader returns the store that leads the home shard of a namespace, or "" if this host leads it, knows no
// leader or does not have the namespace open.
func (s *Server) otherLeader(ns tenancy.NamespaceID) string {
	if ns == "" { // a request without a credential
		return ""
	}
	shards, err := router.Open(s.cfg.Host, ns)
	if err != nil || shards.Home().Leader() {
		return ""
	}
	return shards.Home().Engine().LeaderID()
}
