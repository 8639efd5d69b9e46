package api

// Status is the response of a write that has no other result.
type Status struct {
	Status string `json:"status"`
}

// ConcurrencyRequest limits the active jobs of a queue.
type ConcurrencyRequest struct {
	Max *int `json:"max"` // required; at most 1,000,000; 0 = unlimited
}

// Info describes a server and its capabilities.
type Info struct {
	ServerVersion string   `json:"server_version"`
	APIVersion    string   `json:"api_version"`
	Capabilities  []string `json:"capabilities"`
}

// Health is the response of /healthz and /readyz.
type Health struct {
	Status string            `json:"status"` // "ok", or the fault
	Checks map[string]string `json:"checks,omitempty"`
}

// ClusterStatus is the state of a cluster as one node knows it.
type ClusterStatus struct {
	Mode          string        `json:"mode"` // single or cluster
	Cluster       string        `json:"cluster"`
	NodeID        string        `json:"node_id"`
	State         string        `json:"state"` // leader, follower, candidate, removed or shutdown
	Term          uint64        `json:"term"`
	LeaderID      string        `json:"leader_id"`
	LeaderAddr    string        `json:"leader_addr"`
	AppliedIndex  uint64        `json:"applied_index"`
	CommitIndex   uint64        `json:"commit_index"`
	SnapshotIndex uint64        `json:"snapshot_index"`
	Nodes         []ClusterNode `json:"nodes"`
	ApplyPending  int           `json:"apply_pending"` // proposals waiting
	View          ViewStatus    `json:"view"`
	RaftStore     string        `json:"raft_store"`
	RaftNoSync    bool          `json:"raft_nosync"`
	Shards        int           `json:"shards"`
	// ShardStatus is the state of each shard on this node. The other fields describe the first shard, except
	// Nodes and Disk, which cover all shards.
	ShardStatus []ShardStatus `json:"shard_status"`
	// QueueTime is the time that requests wait for their log entry. ApplyTime is the time from the append of
	// an entry until it is durable and applied. Both cover the time since the start of the node.
	QueueTime Histogram  `json:"queue_time_hist"`
	ApplyTime Histogram  `json:"apply_time_hist"`
	Disk      DiskStatus `json:"disk"`
}

// Histogram is a distribution of durations.
type Histogram struct {
	Unit    string            `json:"unit"` // of all durations: us (microseconds)
	Count   uint64            `json:"count"`
	P50     int64             `json:"p50"` // half of the durations are at most that long
	P90     int64             `json:"p90"`
	P99     int64             `json:"p99"`
	Avg     int64             `json:"avg"`
	Buckets []HistogramBucket `json:"buckets"` // ascending
}

// HistogramBucket counts the durations up to its bound and above the bound of the bucket before it.
type HistogramBucket struct {
	UpTo  *int64 `json:"le,omitempty"` // absent = no bound
	Count uint64 `json:"count"`
}

// DiskStatus is the disk with a node's data, in bytes.
type DiskStatus struct {
	Data int64  `json:"data_bytes"`           // size of the node's files, preallocated bytes included
	Free *int64 `json:"free_bytes,omitempty"` // absent if the system does not report it
}

// ClusterNode is one member of the cluster as a node knows it. If the cluster has several shards,
// LastContactMs and Lag are the largest values of all shards, and Voter means that the member votes in each.
type ClusterNode struct {
	ID            string `json:"id"`
	Address       string `json:"address"`
	Role          string `json:"role"`
	Self          bool   `json:"self"`
	Voter         bool   `json:"voter"`
	LastContactMs int64  `json:"last_contact_ms"` // time since its last contact with the leader; -1 = unknown
	Lag           uint64 `json:"lag"`             // entries behind the leader
	// The remaining fields are what the responding node has learned of the member; "" and 0 = nothing yet.
	URL           string `json:"url,omitempty"` // base URL for clients
	Version       string `json:"version,omitempty"`
	Connected     bool   `json:"connected"`
	ClockOffsetMs int64  `json:"clock_offset_ms"` // its clock minus the clock of the responding node
}

// ShardStatus is the state of one shard on a node.
type ShardStatus struct {
	Shard        int    `json:"shard"`
	State        string `json:"state"`
	Term         uint64 `json:"term"`
	LeaderID     string `json:"leader_id"`
	AppliedIndex uint64 `json:"applied_index"`
	CommitIndex  uint64 `json:"commit_index"`
}

// ClusterJoinRequest adds a node that waits to join.
type ClusterJoinRequest struct {
	Address string `json:"address"` // host:port of its raft listener
}

// ClusterTransferRequest transfers leadership.
type ClusterTransferRequest struct {
	To string `json:"to,omitempty"` // id of a node; "" = any node other than the present leaders
}

// ViewStatus is the progress of the search view.
type ViewStatus struct {
	Lag     uint64 `json:"lag"` // entries behind the state
	Applied uint64 `json:"applied"`
}
