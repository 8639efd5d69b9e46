package api

// Host is a data-plane process or a gateway, as those who run the cloud see it.
type Host struct {
	Resource
	Spec   HostSpec   `json:"spec"`
	Status HostStatus `json:"status"`
}

// HostSpec is what a host was registered as.
type HostSpec struct {
	Kind   string `json:"kind"` // host (default) or gateway
	Region string `json:"region"`
}

// HostStatus is what is known of a host; what it reports is forgotten when the
// control plane restarts, until it reports again.
type HostStatus struct {
	Address    string `json:"address"` // where gateways reach it
	Version    string `json:"version"`
	LastSeenAt *Time  `json:"last_seen_at"`
	Namespaces int    `json:"namespaces"` // placed on it
}

// CreateHostRequest makes the credential a host or a gateway joins with.
type CreateHostRequest struct {
	Name   string `json:"name"` // [a-z][a-z0-9-]{0,62}, unique
	Kind   string `json:"kind,omitempty"`
	Region string `json:"region,omitempty"`
}

// CreatedHost is the answer to a create: the only one that ever holds the
// credential.
type CreatedHost struct {
	Host
	Credential string `json:"credential"`
}
