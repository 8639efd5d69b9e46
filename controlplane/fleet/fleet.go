// Package fleet defines the nouns of the control plane as it stores them and plans with them: organisations,
// namespaces, operations, hosts, credentials, roles, signing keys and roots. It decides nothing and stores
// nothing. Package api has their forms on the wire.
package fleet

import (
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Org is an organisation.
type Org struct {
	ID         tenancy.OrgID
	Name       string
	Version    int64 // rises with every write of it, and when Namespaces changes
	CreatedNs  int64
	Namespaces int // number of its namespaces that are not deleted
}

// Phase is the position of a namespace in its life.
type Phase string

// The phases, in order.
const (
	Provisioning Phase = "provisioning"
	Active       Phase = "active"
	Deleting     Phase = "deleting"
	Deleted      Phase = "deleted" // its keys and roles are gone; its record, usage and audit rows are left
)

// Spec holds the choices made for a namespace.
type Spec struct {
	Region             string
	Tier               string // shared or dedicated
	Replicas           int    // 1, 3 or 5
	Shards             int    // 1 to 64
	DeletionProtection bool
}

// Namespace is a namespace.
type Namespace struct {
	ID         tenancy.NamespaceID
	Org        tenancy.OrgID
	Name       string
	Version    int64 // rises with every write but that of DocNumber alone
	Generation int64 // number of the desired state; a host that acts on an older one is refused
	Observed   int64 // the generation that is in effect
	Spec       Spec
	Phase      Phase
	// Members holds the stores with the namespace: those of its list of members, in the order of their placement, and
	// then those that leave it; nil = not placed yet.
	Members []GroupMember
	// Incarnations holds, by shard, the incarnations of the groups; nil = not known, because
	// the namespace is of an earlier version.
	Incarnations []entry.Incarnation
	Founded      bool // the founding of the groups is recorded
	// Earlier holds, by shard, the incarnations of the groups that had lost their quorum, and RecoveredFrom is the store
	// whose copy the present groups continue. Both are zero unless the namespace was recovered and does not have
	// all its members yet.
	Earlier       []entry.Incarnation
	RecoveredFrom string
	// Configurations holds, by shard, the index of the last reported Raft configuration that had exactly the list of
	// members; nil = none was reported yet.
	Configurations []uint64
	PausedBy       string // principal that paused its reconciliation; "" = it is not paused
	PausedNs       int64  // when; 0 = it is not paused
	Operation      string // id of the operation under way; "" = none
	Trace          string // that operation's traceparent
	DocNumber      int64  // number of the newest document about it
	CreatedNs      int64
}

// GroupMember is a store that is a member of a namespace's groups.
type GroupMember struct {
	Store   string // id of the store
	Host    string // id of the store's host
	URL     string // base URL where gateways reach the host
	Raft    string // host:port where other members reach the host; "" = nowhere
	Lost    bool   // the host has joined with another store since
	Leaving bool   // it is not in the list of members any more, and serves on until the groups have removed it
}

// Listed returns the members in the list, in order: those that are not leaving.
func (n Namespace) Listed() []GroupMember {
	i := slices.IndexFunc(n.Members, func(m GroupMember) bool { return m.Leaving })
	if i < 0 {
		return n.Members
	}
	return n.Members[:i]
}

// Member returns the member of a store, which may be leaving.
func (n Namespace) Member(store string) (m GroupMember, ok bool) {
	for _, m := range n.Members {
		if m.Store == store {
			return m, true
		}
	}
	return GroupMember{}, false
}

// On reports whether a host has a member of the namespace, which may be lost or leaving.
func (n Namespace) On(host string) bool {
	return slices.ContainsFunc(n.Members, func(m GroupMember) bool { return m.Host == host })
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
	Zone       string // hosts with one zone may be lost together; its id if none was given, "" for a gateway
	Address    string // base URL; "" until it has joined, and for gateways
	Raft       string // host:port where other hosts reach its Raft members; "" = nowhere
	Binary     string // version of its binary; "" until it has joined
	Version    int64  // rises with every write of it, and when Namespaces changes
	CreatedNs  int64
	Namespaces int    // number of members of namespaces on its stores, but those of deleted ones
	Cells      int    // number of the shards of these members
	Store      string // id of its data directory; "" = it has named none
	Run        int64  // number of its newest process; 0 = it has named no store
	Lost       int    // number of its members on lost stores
	Draining   bool   // an operator empties it: it gets no namespaces, and loses those that it has
	DrainingBy string // principal that drains it
	DrainingNs int64  // since when
}

// Credential is the record of a key of any kind: its owner and its rights, without the secret.
type Credential struct {
	tenancy.Key
	Kind  keyring.Kind
	Owner string // id of its namespace, organisation, host or gateway; "" = an operator's

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
	TrustedUntilNs int64 // when its signatures stop being trusted; 0 = not known yet, for the newest key
}

// Root is a root of the fleet's certificates.
type Root struct {
	Fingerprint string // SHA-256 of the certificate, in hexadecimal
	Seed        []byte // of an Ed25519 private key
	Certificate []byte // in DER
	CreatedNs   int64
	NotBeforeNs int64 // end of its announcement
	SignsNs     int64 // since when it issues certificates; 0 = it is announced
}

// MemberRoots has the roots that a host or gateway with a certificate has reported.
type MemberRoots struct {
	ID, Name string
	Trusted  []string // fingerprints
	Issuer   string   // fingerprint of the root of its certificate
}

// Trusts reports whether the member trusts a root.
func (m MemberRoots) Trusts(fingerprint string) bool { return slices.Contains(m.Trusted, fingerprint) }
