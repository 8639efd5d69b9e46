package api

// Status is the answer of writes that have nothing else to say.
type Status struct {
	Status string `json:"status"`
}

// ConcurrencyRequest limits how many jobs of a queue may run at once.
type ConcurrencyRequest struct {
	Max *int `json:"max"` // 0 = unlimited
}

// Info is what a server is and can do.
type Info struct {
	ServerVersion string   `json:"server_version"`
	APIVersion    string   `json:"api_version"`
	Capabilities  []string `json:"capabilities"`
}

// Health answers /healthz and /readyz.
type Health struct {
	Status string            `json:"status"` // ok, or what is wrong
	Checks map[string]string `json:"checks,omitempty"`
}

// ClusterStatus is what one node knows of its cluster.
type ClusterStatus struct {
	Mode          string        `json:"mode"` // single or cluster
	Cluster       string        `json:"cluster"`
	NodeID        string        `json:"node_id"`
	State         string        `json:"state"` // leader, follower, candidate or shutdown
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
	// ShardStatus is where each shard stands on this node; what is said of a shard
	// above is of the first.
	ShardStatus []ShardStatus `json:"shard_status"`
	// How long requests wait for their log entry, and entries from their append
	// until they are durable and applied, since the node's start.
	QueueTime Histogram  `json:"queue_time_hist"`
	ApplyTime Histogram  `json:"apply_time_hist"`
	Disk      DiskStatus `json:"disk"`
}

// Histogram is a distribution of durations.
type Histogram struct {
	Unit    string            `json:"unit"` // of all durations here: us
	Count   uint64            `json:"count"`
	P50     int64             `json:"p50"` // half took at most so long
	P90     int64             `json:"p90"`
	P99     int64             `json:"p99"`
	Avg     int64             `json:"avg"`
	Buckets []HistogramBucket `json:"buckets"` // ascending
}

// HistogramBucket is how many durations were up to a bound and above the bucket
// before it.
type HistogramBucket struct {
	UpTo  *int64 `json:"le,omitempty"` // absent: all longer ones
	Count uint64 `json:"count"`
}

// DiskStatus is the disk under a node's data, in bytes.
type DiskStatus struct {
	Data int64  `json:"data_bytes"`           // what the node's files take, preallocated bytes included
	Free *int64 `json:"free_bytes,omitempty"` // what is left to it; absent where the system does not tell
}

// ClusterNode is one member of the cluster as a node sees it.
type ClusterNode struct {
	ID            string `json:"id"`
	Address       string `json:"address"`
	Role          string `json:"role"`
	Self          bool   `json:"self"`
	Voter         bool   `json:"voter"`
	LastContactMs int64  `json:"last_contact_ms"` // since the leader heard of it; -1 = not known
	Lag           uint64 `json:"lag"`             // entries behind the leader
	// What the node that answers knows of it; "" and 0 = not heard of yet.
	URL           string `json:"url,omitempty"` // where clients reach it
	Version       string `json:"version,omitempty"`
	Connected     bool   `json:"connected"`
	ClockOffsetMs int64  `json:"clock_offset_ms"` // its clock less that of who answers
}

// ShardStatus is where one shard stands on a node.
type ShardStatus struct {
	Shard        int    `json:"shard"`
	State        string `json:"state"`
	Term         uint64 `json:"term"`
	LeaderID     string `json:"leader_id"`
	AppliedIndex uint64 `json:"applied_index"`
	CommitIndex  uint64 `json:"commit_index"`
}

// ClusterJoinRequest invites a node that waits for it.
type ClusterJoinRequest struct {
	Address string `json:"address"` // host:port of its raft listener
}

// ClusterTransferRequest hands leadership over.
type ClusterTransferRequest struct {
	To string `json:"to,omitempty"` // a node's id; "" = away from those who lead
}

// ViewStatus says how far the search view is.
type ViewStatus struct {
	Lag     uint64 `json:"lag"` // entries behind the store
	Applied uint64 `json:"applied"`
}
