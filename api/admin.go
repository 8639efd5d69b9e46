package api

// MoveJobRequest is the body of POST /jobs/{id}/move. An active or cancelled job cannot move. To a queue on
// another shard, neither can a job with iterations or scores, nor one that waits for other jobs or that other
// jobs wait for. The error is STATE_CONFLICT.
type MoveJobRequest struct {
	Queue string `json:"queue"` // the queue to move the job to
	// ResetAttempts gives the job all its attempts again. Its history stays, and the numbers of its
	// attempts continue.
	ResetAttempts bool `json:"reset_attempts,omitempty"`
	// KeepPriority is true by default. If it is false, the job gets the default priority of its new
	// queue.
	KeepPriority *bool `json:"keep_priority,omitempty"`
}

// Runtime is the response of GET /debug/runtime: the resources that the process uses.
type Runtime struct {
	Goroutines      int    `json:"goroutines"`
	GOMAXPROCS      int    `json:"gomaxprocs"`
	HeapInuseBytes  uint64 `json:"heap_inuse_bytes"`
	StackInuseBytes uint64 `json:"stack_inuse_bytes"`
	// GCPauseP99Ns is the 99th percentile of garbage collection pauses since the process started, in
	// nanoseconds.
	GCPauseP99Ns int64 `json:"gc_pause_p99_ns"`
	// CPUUserNs and CPUSysNs are the processor time in nanoseconds; 0 if the system does not report it.
	CPUUserNs int64 `json:"cpu_user_ns"`
	CPUSysNs  int64 `json:"cpu_sys_ns"`
}

// Verified is the response of POST /admin/verify if the stores of the node are sound. If one is damaged, the
// error is UNHEALTHY.
type Verified struct {
	Status string          `json:"status"`
	Shards []VerifiedShard `json:"shards"`
}

// VerifiedShard describes the sound store of one shard.
type VerifiedShard struct {
	Shard        int    `json:"shard"`
	AppliedIndex uint64 `json:"applied_index"` // the log index of the state that was read
	Files        int    `json:"files"`
	Bytes        int64  `json:"bytes"`
}
