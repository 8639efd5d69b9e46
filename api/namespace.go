package api

// Namespace is an isolated set of queues with its own data, keys and usage.
type Namespace struct {
	Resource
	Org    string          `json:"org"` // id of the organisation
	Spec   NamespaceSpec   `json:"spec"`
	Status NamespaceStatus `json:"status"`
}

// NamespaceSpec is the configuration of a namespace.
type NamespaceSpec struct {
	Region   string `json:"region"`   // default: the first region of the cloud
	Tier     string `json:"tier"`     // shared; dedicated is not supported yet
	Replicas int    `json:"replicas"` // 1, 3 or 5
	Shards   int    `json:"shards"`   // 1; more are not supported yet; cannot change later
	// While DeletionProtection is set, a delete is refused with STATE_CONFLICT.
	DeletionProtection bool `json:"deletion_protection"`
}

// NamespaceStatus is the present state of a namespace.
type NamespaceStatus struct {
	Phase              string `json:"phase"` // provisioning, active or deleting
	Message            string `json:"message,omitempty"`
	ObservedGeneration int64  `json:"observed_generation"` // the generation in effect
	// Replicas is the number of copies in the list of members, which is in effect if ObservedGeneration is the generation. 0 =
	// the namespace is not placed yet.
	Replicas int `json:"replicas"`
	// Endpoint is the base URL of the cloud's data plane, the same for all namespaces.
	Endpoint  string `json:"endpoint"`
	Operation string `json:"operation_id,omitempty"` // the running operation
}

// The values of NamespaceStatus.Phase.
const (
	NamespaceProvisioning = "provisioning"
	NamespaceActive       = "active"
	NamespaceDeleting     = "deleting"
)

// CreateNamespaceRequest creates a namespace. An absent field of the spec gets its default.
type CreateNamespaceRequest struct {
	Name string            `json:"name"` // [a-z][a-z0-9-]{0,62}, unique in the organisation
	Spec *NewNamespaceSpec `json:"spec,omitempty"`
}

// NewNamespaceSpec is a NamespaceSpec with optional fields, for requests. In a create an absent field
// gets its default; in an update it stays unchanged.
type NewNamespaceSpec struct {
	Region             string `json:"region,omitempty"`
	Tier               string `json:"tier,omitempty"`
	Replicas           *int   `json:"replicas,omitempty"`
	Shards             *int   `json:"shards,omitempty"`
	DeletionProtection *bool  `json:"deletion_protection,omitempty"`
}

// UpdateNamespaceRequest changes a namespace. Only deletion_protection can change; other fields may be sent
// with their present values, and other values are refused with UNSUPPORTED.
type UpdateNamespaceRequest struct {
	Spec *NewNamespaceSpec `json:"spec,omitempty"`
}

// NamespaceHeader names the namespace, by id or name, in a data-plane request with a cloud token. An API
// key belongs to one namespace and needs no header.
const NamespaceHeader = "Corvo-Namespace"

// Endpoint is the base URL of the data plane of a namespace.
type Endpoint struct {
	Endpoint string `json:"endpoint"`
}
