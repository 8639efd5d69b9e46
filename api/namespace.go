package api

// Namespace is the unit of tenancy: its own data, queues, keys and usage.
type Namespace struct {
	Resource
	Org    string          `json:"org"` // the organisation's id
	Spec   NamespaceSpec   `json:"spec"`
	Status NamespaceStatus `json:"status"`
}

// NamespaceSpec is what can be chosen of a namespace.
type NamespaceSpec struct {
	Region   string `json:"region"`   // default: the cloud's first
	Tier     string `json:"tier"`     // shared (default) or dedicated
	Replicas int    `json:"replicas"` // 1 (default), 3 or 5
	Shards   int    `json:"shards"`   // default 1, fixed at creation
	// DeletionProtection refuses a delete until it is switched off.
	DeletionProtection bool `json:"deletion_protection"`
}

// NamespaceStatus is where a namespace stands.
type NamespaceStatus struct {
	Phase              string `json:"phase"` // provisioning, active or deleting
	Message            string `json:"message,omitempty"`
	ObservedGeneration int64  `json:"observed_generation"` // the generation that is in effect
	// Endpoint is where its data plane answers; the same for all of a cloud.
	Endpoint  string `json:"endpoint"`
	Operation string `json:"operation_id,omitempty"` // the one under way
}

// The words of NamespaceStatus.Phase.
const (
	NamespaceProvisioning = "provisioning"
	NamespaceActive       = "active"
	NamespaceDeleting     = "deleting"
)

// CreateNamespaceRequest makes a namespace. Absent fields of the spec get their
// defaults.
type CreateNamespaceRequest struct {
	Name string            `json:"name"` // [a-z][a-z0-9-]{0,62}, unique in the organisation
	Spec *NewNamespaceSpec `json:"spec,omitempty"`
}

// NewNamespaceSpec is a NamespaceSpec for requests: fields may be left out. A create
// fills in their defaults, an update leaves them as they are.
type NewNamespaceSpec struct {
	Region             string `json:"region,omitempty"`
	Tier               string `json:"tier,omitempty"`
	Replicas           *int   `json:"replicas,omitempty"`
	Shards             *int   `json:"shards,omitempty"`
	DeletionProtection *bool  `json:"deletion_protection,omitempty"`
}

// UpdateNamespaceRequest changes a namespace. Only deletion_protection can change; the
// other fields may be sent as they are, such as those of an answer.
type UpdateNamespaceRequest struct {
	Spec *NewNamespaceSpec `json:"spec,omitempty"`
}

// NamespaceHeader names the namespace of a data-plane request that is made with a
// cloud token, by id or name; an API key has one already.
const NamespaceHeader = "Corvo-Namespace"

// Endpoint is where a namespace's data plane answers.
type Endpoint struct {
	Endpoint string `json:"endpoint"`
}
