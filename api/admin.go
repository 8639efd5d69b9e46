package api

// MoveJobRequest is the body of POST /jobs/{id}/move.
type MoveJobRequest struct {
	Queue string `json:"queue"` // where the job goes
	// ResetAttempts gives the job all its attempts anew. Its history stays, and the numbers
	// of attempts go on.
	ResetAttempts bool `json:"reset_attempts,omitempty"`
	// KeepPriority is true by default. If it is false, the job takes the priority that its
	// new queue gives to jobs that say none.
	KeepPriority *bool `json:"keep_priority,omitempty"`
}

// Runtime is the answer of GET /debug/runtime: what the process uses.
type Runtime struct {
	Goroutines      int    `json:"goroutines"`
	GOMAXPROCS      int    `json:"gomaxprocs"`
	HeapInuseBytes  uint64 `json:"heap_inuse_bytes"`
	StackInuseBytes uint64 `json:"stack_inuse_bytes"`
	// GCPauseP99Ns is of the stops since the process started.
	GCPauseP99Ns int64 `json:"gc_pause_p99_ns"`
	// CPUUserNs and CPUSysNs are the processor time used; 0 where the system does not
	// tell.
	CPUUserNs int64 `json:"cpu_user_ns"`
	CPUSysNs  int64 `json:"cpu_sys_ns"`
}

// Verified is the answer of POST /admin/verify: the stores of the node that was
// asked are sound.
type Verified struct {
	Status string          `json:"status"`
	Shards []VerifiedShard `json:"shards"`
}

// VerifiedShard is what was read of one shard's store.
type VerifiedShard struct {
	Shard        int    `json:"shard"`
	AppliedIndex uint64 `json:"applied_index"` // as of which
	Files        int    `json:"files"`
	Bytes        int64  `json:"bytes"`
}
