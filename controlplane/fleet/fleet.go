// Package fleet defines the nouns of the control plane as it keeps them and plans with them: organisations,
// namespaces, operations, hosts, credentials. It decides nothing and stores nothing. Package api has their
// forms on the wire.
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
	Namespaces int // without the deleted ones
}

// Phase is the position of a namespace between its create and its end.
type Phase string

// The phases, in order.
const (
	Provisioning Phase = "provisioning"
	Active       Phase = "active"
	Deleting     Phase = "deleting"
	Deleted      Phase = "deleted" // only its id, name and usage are left
)

// Spec holds the choices made for a namespace.
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
	Generation int64 // changes with the task of hosts, and fences them
	Observed   int64 // the generation that is in effect
	Spec       Spec
	Phase      Phase
	HostID     string // of its placement; "" = not placed yet
	Operation  string // id of the operation under way; "" = none
	Trace      string // that operation's traceparent
	DocNumber  int64  // number of the newest document about it
	CreatedNs  int64
}

// OperationStatus is the progress of an operation.
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

// Operation is a request that completes in the background.
type Operation struct {
	ID         string
	Kind       string // CreateNamespace or DeleteNamespace
	Org        tenancy.OrgID
	Namespace  tenancy.NamespaceID
	Name       string // the namespace's
	Status     OperationStatus
	CreatedNs  int64
	FinishedNs int64    // 0 while running
	ErrorCode  api.Code // cause of a failure; "" = not failed
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

// Credential is a secret's record: its owner and its rights.
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
