package api

// Process is one process of the control plane as operators of the cloud see it.
type Process struct {
	ID      string `json:"id"`
	Role    string `json:"role"`          // leader, voter or learner
	Self    bool   `json:"self"`          // the process that answers
	Address string `json:"address"`       // for the other processes; empty if it is the only one
	URL     string `json:"url,omitempty"` // base URL for clients
	// LastContactMs is the time since the process last answered the leader; -1 = it has not answered this leader.
	LastContactMs int64  `json:"last_contact_ms"`
	Lag           uint64 `json:"lag"` // entries behind the leader
	// Version and Level are those of the program; absent if the process that answers has not heard of it since its start.
	Version string `json:"version,omitempty"`
	Level   uint32 `json:"level,omitempty"` // highest feature level that the program knows
}

// The values of Process.Role. A learner has no vote yet.
const (
	ProcessLeader  = "leader"
	ProcessVoter   = "voter"
	ProcessLearner = "learner"
)
