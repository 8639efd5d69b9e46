package server

import (
	"time"

	"github.com/corvo/corvo/api"
)

// leaderRetryAfter is the wait that a client is told if no leader serves its request at the moment. An election
// takes about that long.
const leaderRetryAfter = time.Second

// errNotLeader refuses a request that only the leader serves.
func (s *Server) errNotLeader() error {
	refused := api.Errorf(api.LeaderUnavailable, "this process does not lead the control plane: nothing was done, ask another one")
	refused.RetryAfter = leaderRetryAfter
	return refused
}
