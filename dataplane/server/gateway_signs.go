package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
)

// markFor returns the function that adds a host's signs for gateways to a response; nil on a bare node, which has no
// gateways.
func (s *Server) markFor() func(http.Header, api.Code, bool) {
	if !s.cloud() {
		return nil
	}
	return s.mark
}

// mark tells the gateway that this host shuts down, and whether a request that was refused for lack of a leader or of
// an open namespace has changed something. While the host shuts down, each response ends its connection, so that a
// gateway does not send a request on a connection just as the host closes it.
func (s *Server) mark(h http.Header, refused api.Code, changed bool) {
	if s.draining.Err() != nil {
		h.Set(fleet.LeavingHeader, "true")
		h.Set("Connection", "close")
	}
	if refused != api.LeaderUnavailable {
		return
	}
	outcome := fleet.Unchanged
	if changed {
		outcome = fleet.Unknown
	}
	h.Set(fleet.OutcomeHeader, outcome)
}
