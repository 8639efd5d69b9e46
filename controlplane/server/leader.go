package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

const (
	// leaderWait is the longest time for which a request waits until the leader confirms that this process has every
	// acknowledged change. An election fits into it.
	leaderWait = 5 * time.Second
	// leaderRetryAfter is the Retry-After of a request that this process cannot serve without a leader.
	leaderRetryAfter = time.Second
)

// verify returns nil once this process has every change that any process acknowledged before the call. It
// returns LEADER_UNAVAILABLE if no leader confirms that within leaderWait. Callers check keys after verify,
// because a revocation takes effect at once.
func (s *Server) verify(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, leaderWait)
	defer cancel()
	err := s.store.Verify(limited)
	if err == nil || ctx.Err() != nil {
		return err
	}
	var e *api.Error
	if errors.As(err, &e) && e.Code == api.LeaderUnavailable {
		refused := api.Wrap(err, api.LeaderUnavailable, "this process of the control plane cannot reach a leader: nothing was done, try again, or ask another process")
		refused.RetryAfter = leaderRetryAfter
		return refused
	}
	return err
}

// memberChecks describes this process's place among the processes of the control plane, for operators. The map is
// empty if the process is the only one.
func (s *Server) memberChecks() map[string]string {
	if !s.store.Shared() {
		return map[string]string{}
	}
	role := "follower"
	if _, leads := s.store.LeadingTerm(); leads {
		role = "leader"
	}
	voters, learners := 0, 0
	for _, m := range s.store.Group().Members() {
		if m.Voter {
			voters++
		} else {
			learners++
		}
	}
	return map[string]string{"role": role, "voters": strconv.Itoa(voters), "learners": strconv.Itoa(learners)}
}

// leaderOnly wraps a handler whose answer depends on the reports of hosts. Only the leader has the reports,
// so every other process refuses the request with LEADER_UNAVAILABLE.
func (s *Server) leaderOnly(handle serve.Handler) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, leads := s.store.LeadingTerm(); !leads {
			return s.errNotLeader()
		}
		return handle(w, r)
	}
}

// errNotLeader refuses a request that only the leader serves.
func (s *Server) errNotLeader() error {
	refused := api.Errorf(api.LeaderUnavailable, "this process does not lead the control plane: nothing was done, ask another one")
	refused.RetryAfter = leaderRetryAfter
	if s.cfg.Cluster == nil {
		return refused
	}
	if url := s.cfg.Cluster.URL(s.store.Group().LeaderID()); url != "" {
		refused.Details = map[string]any{"leader_addr": url}
	}
	return refused
}
