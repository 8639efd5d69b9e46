// Package fleet is the nouns of the control plane: organisations, namespaces,
// operations, hosts, credentials, as they are kept and planned with. It decides
// nothing and stores nothing; api has the wire's forms of the same.
package fleet

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Org is an organisation.
type Org struct {
	ID         tenancy.OrgID
	Name       string
	Version    int64 // changes with every write
	CreatedNs  int64
	Namespaces int // those not deleted
}

// Phase is where a namespace stands between its create and its end.
type Phase string

// The phases, in their order.
const (
	Provisioning Phase = "provisioning"
	Active       Phase = "active"
	Deleting     Phase = "deleting"
	Deleted      Phase = "deleted" // only its id, name and usage are left
)

// Spec is what was chosen of a namespace.
type Spec struct {
	Region             string
	Tier               string
	Replicas           int
	Shards             int
	DeletionProtection bool
}

// Namespace is a namespace.
type Namespace struct {
	ID         tenancy.NamespaceID
	Org        tenancy.OrgID
	Name       string
	Version    int64 // changes with every write
	Generation int64 // changes when what hosts must do changes: it fences them
	Observed   int64 // the generation that is in effect
	Spec       Spec
	Phase      Phase
	HostID     string // where it is placed; "" = nowhere yet
	Operation  string // id of the one under way; "" = none
	Trace      string // that operation's traceparent
	DocNumber  int64  // number of the newest document about it
	CreatedNs  int64
}

// OperationStatus is how far an operation is.
type OperationStatus string

// The statuses of an operation.
const (
	Running OperationStatus = "running"
	Done    OperationStatus = "done"
	Failed  OperationStatus = "failed" // see ErrorCode and ErrorText
)

// The kinds of operations.
const (
	CreateNamespace = "create-namespace"
	DeleteNamespace = "delete-namespace"
)

// Operation is work that takes its time.
type Operation struct {
	ID         string
	Kind       string // CreateNamespace or DeleteNamespace
	Org        tenancy.OrgID
	Namespace  tenancy.NamespaceID
	Name       string // the namespace's
	Status     OperationStatus
	CreatedNs  int64
	FinishedNs int64    // 0 while running
	ErrorCode  api.Code // why it failed; "" unless it did
	ErrorText  string
}

// Host is a registered data-plane process or gateway.
type Host struct {
	ID         string
	Name       string
	Kind       keyring.Kind // keyring.Host or keyring.Gateway
	Region     string
	Address    string // base URL; "" until it has joined, and for gateways
	Binary     string // version of its binary
	Version    int64  // changes with every write
	CreatedNs  int64
	Namespaces int // placed on it
}

// Credential is anything that opens a door: who holds it, and what it may do.
type Credential struct {
	tenancy.Key
	Kind  keyring.Kind
	Owner string // id of the namespace, organisation or host it belongs to; "" = an operator's

	Version int64 // rises with every change
}

// Role is a custom role of a namespace.
type Role struct {
	Name        string
	Permissions []tenancy.Permission
	CreatedNs   int64
	Version     int64 // rises with every change
}

// SigningKey is one of the keys that sign service tokens and documents.
type SigningKey struct {
	ID             string
	Seed           []byte // of an Ed25519 private key
	CreatedNs      int64
	TrustedUntilNs int64 // 0 for the newest, which signs
}
