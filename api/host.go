package api

// Host is a host or gateway as operators of the cloud see it.
type Host struct {
	Resource
	Spec   HostSpec   `json:"spec"`
	Status HostStatus `json:"status"`
}

// HostSpec is the registration of a host.
type HostSpec struct {
	Kind   string `json:"kind"` // host (default) or gateway
	Region string `json:"region"`
	// Zone is a word for hosts that may be lost together; the members of a namespace are spread over zones. It is the
	// id of a host that was registered without one, and absent for a gateway.
	Zone string `json:"zone,omitempty"`
}

// HostStatus is the state of a host. After the control plane has restarted, LastSeenAt is null and StoreState
// is silent until the host's next report.
type HostStatus struct {
	Address    string `json:"address"` // base URL at which gateways reach it
	Version    string `json:"version"`
	LastSeenAt *Time  `json:"last_seen_at"`
	Namespaces int    `json:"namespaces"`            // placed on it
	Store      string `json:"store,omitempty"`       // id of the host's data directory; absent for a gateway
	StoreState string `json:"store_state,omitempty"` // serving, or silent if the host has not reported lately
	// Capacity is what the host last reported; absent if it has not reported to this leader of the control plane.
	Capacity *HostCapacity `json:"capacity,omitempty"`
	Full     string        `json:"full,omitempty"` // why the host gets no new namespace; absent = it may get some
	// LostNamespaces counts the namespaces of the host whose data lies on a store that the host used before.
	LostNamespaces int `json:"lost_namespaces,omitempty"`
	// Drain is set while an operator empties the host. The host is empty when Namespaces is 0.
	Drain *HostDrain `json:"drain,omitempty"`
}

// HostDrain says who empties a host, and since when.
type HostDrain struct {
	By string `json:"by"` // id of the credential
	At Time   `json:"at"`
}

// The statuses in the response of a request that drains a host.
const (
	HostDraining = "draining" // namespaces are left on it
	HostDrained  = "drained"  // none is, so that it can be removed
)

// HostCapacity is the room of a host for namespaces.
type HostCapacity struct {
	OpenCells      int   `json:"open_cells"` // one for each shard of an open namespace
	MaxCells       int   `json:"max_cells"`
	DiskFreeBytes  int64 `json:"disk_free_bytes"`  // of the disk with the host's data directory
	DiskTotalBytes int64 `json:"disk_total_bytes"` // 0 = the host cannot measure its disk
}

// The values of HostStatus.StoreState.
const (
	StoreServing = "serving"
	StoreSilent  = "silent"
)

// CreateHostRequest creates a host or gateway and the credential with which it joins the cloud.
type CreateHostRequest struct {
	Name   string `json:"name"`             // [a-z][a-z0-9-]{0,62}, unique
	Kind   string `json:"kind,omitempty"`   // host (the default) or gateway
	Region string `json:"region,omitempty"` // default local
	Zone   string `json:"zone,omitempty"`   // of a host; default its id; cannot change
}

// CreatedHost is the response of a request that creates a host. No other response contains the credential.
type CreatedHost struct {
	Host
	Credential string `json:"credential"`
	FleetRoot  string `json:"fleet_root"` // SHA-256 of the root of the fleet's certificates, in hexadecimal
}
