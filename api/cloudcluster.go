package api

// CloudCluster is the set of data-plane cells of one namespace, as operators of the cloud see it. Its ID and Name
// are those of the namespace.
type CloudCluster struct {
	Resource
	Org    string             `json:"org"` // id of the organisation
	Spec   NamespaceSpec      `json:"spec"`
	Status CloudClusterStatus `json:"status"`
}

// CloudClusterStatus is the state of the cells, and of the reconciliation that brings them to the spec.
type CloudClusterStatus struct {
	Phase              string               `json:"phase"`               // as in NamespaceStatus
	ObservedGeneration int64                `json:"observed_generation"` // the generation in effect
	Members            []CloudClusterMember `json:"members"`             // [] until the namespace is placed
	Groups             []CloudClusterGroup  `json:"groups"`              // one for each shard
	Operation          string               `json:"operation_id,omitempty"`
	Waiting            string               `json:"waiting,omitempty"` // why the operation waits
	Fault              string               `json:"fault,omitempty"`   // why an active namespace is not served
	Pause              *ReconcilePause      `json:"pause,omitempty"`   // absent = reconciliation is not paused
}

// MoveClusterRequest moves the member of a namespace on one host to another host.
type MoveClusterRequest struct {
	From string `json:"from"` // id or name of the host that the member leaves
	To   string `json:"to"`   // id or name of the host that gets the member
}

// The statuses in the response of a request that moves a member of a namespace.
const (
	ClusterMoving = "moving" // the groups follow the new list of members
	ClusterMoved  = "moved"  // the new list is in effect
)

// RecoverClusterRequest refounds the groups of a namespace that has lost its quorum from the copy on one host.
type RecoverClusterRequest struct {
	From        string `json:"from"`                   // id or name of the host
	AcceptLoss  bool   `json:"accept_loss"`            // must be true: acknowledged writes that the copy lacks are lost
	AcceptOlder bool   `json:"accept_older,omitempty"` // recover although another host reports a copy that is further
}

// The statuses of a RecoverCluster.
const (
	ClusterRecovering = "recovering" // the host refounds the groups
	ClusterRecovered  = "recovered"  // the refounded groups take writes
)

// RecoverCluster says what a recovery kept and what may be lost.
type RecoverCluster struct {
	Status  string            `json:"status"`
	Host    string            `json:"host"`  // id of the host whose copy is kept
	Store   string            `json:"store"` // that has the copy
	Kept    []ClusterPosition `json:"kept"`  // by shard, the end of the copy; [] for a repeat
	GivenUp []ClusterGivenUp  `json:"given_up"`
}

// ClusterGivenUp is a member whose copy a recovery gives up. Entries that only such copies had are lost.
type ClusterGivenUp struct {
	Host     string            `json:"host"`
	HostName string            `json:"host_name,omitempty"`
	Store    string            `json:"store"`
	Last     []ClusterPosition `json:"last"` // by shard, the end of its copy in its last report; [] = the control plane has no report
}

// ClusterPosition is the end of a copy of a shard: the newest entry that it has, committed or not.
type ClusterPosition struct {
	Shard int    `json:"shard"`
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// CloudClusterMember is a host with cells of the namespace.
type CloudClusterMember struct {
	Host       string `json:"host"`                 // its id
	HostName   string `json:"host_name,omitempty"`  // its name
	HostState  string `json:"host_state"`           // serving, or silent if the host has not reported lately
	Store      string `json:"store,omitempty"`      // with the namespace's data
	StoreLost  bool   `json:"store_lost,omitempty"` // the host has joined with another store since
	Leaving    bool   `json:"leaving,omitempty"`    // not in the list of members any more, and serving until its groups have removed it
	State      string `json:"state,omitempty"`      // of the cells, in the host's last report: opening, open, closing, absent, failed or waiting
	Generation int64  `json:"generation,omitempty"` // on which the host acts
	Error      string `json:"error,omitempty"`
	// Last holds, by shard, the end of the member's copy in its host's last report; absent = not reported.
	Last []ClusterPosition `json:"last,omitempty"`
}

// CloudClusterGroup is the Raft group of a shard, as its leader has reported it. Leader is empty if no member reports that it
// leads.
type CloudClusterGroup struct {
	Shard          int      `json:"shard"`
	Leader         string   `json:"leader,omitempty"`          // store that leads
	LeaderHost     string   `json:"leader_host,omitempty"`     // name of its host
	ListGeneration int64    `json:"list_generation,omitempty"` // generation of the list of members in the group's log; 0 = it has none
	Configuration  uint64   `json:"configuration,omitempty"`   // index of the applied Raft configuration
	Voters         []string `json:"voters"`                    // stores in that configuration
	Learners       []string `json:"learners"`
}

// ReconcilePause says who paused the reconciliation of a namespace, and when.
type ReconcilePause struct {
	By string `json:"by"` // id of the credential
	At Time   `json:"at"`
}
