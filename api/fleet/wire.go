package fleet

import (
	"encoding/json"
	"time"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/engine/entry"
)

// These are the routes. A member sends its fleet credential only to JoinPath, and to the other routes the
// service token that JoinPath returned. JWKSPath needs neither.
const (
	JoinPath   = "/fleet/v1/join"        // POST JoinRequest -> JoinAnswer
	DocsPath   = "/fleet/v1/docs"        // GET ?after=N -> a stream of Messages, one JSON value a line
	ReportPath = "/fleet/v1/report"      // POST Report -> ReportAnswer
	UsagePath  = "/fleet/v1/usage"       // GET ?namespace&stream&incarnation, POST billing.Frame -> UsageAnswer
	AsidePath  = "/fleet/v1/usage/aside" // POST billing.Frame -> UsageAnswer; from hosts, for a namespace that is being deleted
	JWKSPath   = "/.well-known/jwks.json"
)

// StorePrefix begins the id of a store, the data directory of a host.
const StorePrefix = "store_"

// ServiceHeader carries a gateway's service token to a host, beside the tenant's own credential.
const ServiceHeader = "Corvo-Service-Token"

// DrainTrailer follows the body of a stream that a gateway ends because the gateway shuts down. It
// distinguishes this from an end by the client, so that the host tells the client to open another stream.
const DrainTrailer = "Corvo-Service-Drain"

// LeavingHeader is part of each response that a host begins while it shuts down, so that gateways keep later
// requests back until the host has returned.
const LeavingHeader = "Corvo-Service-Leaving"

// LeaderHeader is part of a host's response for a namespace whose home shard another host leads. Its value is the id
// of that host's store, as far as the responding host knows it. The gateway sends the namespace's later requests
// there, because a follower forwards each write to the leader.
const LeaderHeader = "Corvo-Service-Leader"

// OutcomeHeader is part of a host's responses LEADER_UNAVAILABLE and UNHEALTHY, so that the gateway knows whether it
// may send the request again. Its values are Unchanged and Unknown.
const OutcomeHeader = "Corvo-Service-Outcome"

// The values of OutcomeHeader.
const (
	Unchanged = "unchanged" // the request changed nothing and never will
	Unknown   = "unknown"   // the request may have changed something, or still may
)

// HeartbeatEvery is the time between two heartbeats on a stream of documents.
const HeartbeatEvery = 500 * time.Millisecond

// SilenceLimit is the time without a message after which a follower connects again.
const SilenceLimit = 5 * time.Second

// JoinRequest is the request of a member that joins. Repeating it renews the token. The control plane refuses
// a wrong field with VALIDATION_ERROR, and a store or run that is not this member's any more with Superseded.
type JoinRequest struct {
	Address string `json:"address"`         // the host's base URL for gateways, at most 512 bytes; "" for a gateway
	Version string `json:"version"`         // of the binary, at most 128 bytes
	Store   string `json:"store,omitempty"` // id of the host's data directory, StorePrefix and 26 characters; "" for a gateway
	Run     int64  `json:"run,omitempty"`   // JoinAnswer.Run of the first join of this process; 0 = none yet, or a gateway
	CSR     []byte `json:"csr,omitempty"`   // in DER, while the member needs a certificate; nil = it needs none
	// Raft is the host:port where other hosts reach this host's Raft members, at most 255 bytes; "" = nowhere, so that it
	// gets only namespaces with one replica.
	Raft string `json:"raft,omitempty"`
	// Roots are the fingerprints of the roots that the member trusts, and Issuer that of the root of its certificate. They
	// are absent if the member has no certificate yet, and if it uses none.
	Roots  []string `json:"roots,omitempty"`
	Issuer string   `json:"issuer,omitempty"`
	// Format is the highest format of documents that the member reads, DocFormat of its version. The control plane refuses
	// a member that cannot read all of its documents.
	Format int `json:"format"`
}

// JoinAnswer has a service token. A gateway gets two, because a host that receives a gateway's HostToken must
// not be able to use it at the control plane.
type JoinAnswer struct {
	ID        string          `json:"id"`                   // of the host or gateway
	Run       int64           `json:"run,omitempty"`        // number of this process of a host; the newest has the highest; 0 for a gateway
	Token     string          `json:"token"`                // for the control plane
	HostToken string          `json:"host_token,omitempty"` // only for a gateway, for ServiceHeader; it lives as long as Token
	ExpiresAt time.Time       `json:"expires_at"`
	JWKS      json.RawMessage `json:"jwks"` // the keys that verify documents and the tokens of other members
	// Certificate is in DER, for the key of JoinRequest.CSR; nil without a CSR.
	Certificate []byte `json:"certificate,omitempty"`
	// Roots are the roots of the fleet's certificates.
	Roots certificate.Bundle `json:"roots"`
}

// Message is one line of a stream of documents. A follower that has handled Number N has handled every
// change up to N. A message without Doc and Signature is a heartbeat. The control plane sends one only
// when no document is left to send, so that a heartbeat proves that the follower has every document.
type Message struct {
	// Number is Doc's own, if there is a Doc. Documents come in the order of their numbers, but for one case: before the
	// placement of a namespace come its keys and its organisation's tokens, although they are older, because the follower
	// may not have them.
	Number    int64           `json:"number"`
	Doc       json.RawMessage `json:"doc,omitempty"`
	Signature string          `json:"signature,omitempty"` // token.SignDocument over the bytes of Doc in this line
	// JWKS comes with the first heartbeat, and with the next one after a change of the keys.
	JWKS json.RawMessage `json:"jwks,omitempty"`
	// Roots are the roots of the fleet's certificates. They come with every JWKS, and after a change.
	Roots *certificate.Bundle `json:"roots,omitempty"`
	// Signer comes with Roots and is the fingerprint of the root that issues certificates now.
	Signer string `json:"signer,omitempty"`
	// WithinMs comes with Roots. A member that must join because of the roots does so at a random time within this
	// many milliseconds, so that the members of a large fleet do not join together.
	WithinMs int64 `json:"within_ms,omitempty"`
}

// The values of Doc.Desired.
const (
	Open   = "open"   // the host serves the namespace
	Absent = "absent" // the host closes it, delivers its usage and deletes its data; gateways forget it
	// Leave means that another store serves the namespace, in the groups of Incarnations. The host closes the
	// namespace and deletes its own copy, unless that copy is of these groups.
	Leave = "leave"
)

// The values of GroupMember.Role.
const (
	Found   = "found"   // the store founds the namespace's groups unless it has them
	Join    = "join"    // the store has the namespace's groups or joins them, and founds none
	Leaving = "leaving" // the store serves on until the groups have removed it
	// Recover means that the store has the groups of Doc.Incarnations, or refounds them from its copy of Doc.Earlier. It
	// founds none from nothing.
	Recover = "recover"
)

// HoldSpendLimit is the value of Doc.Hold of an organisation that has reached its spend limit.
const HoldSpendLimit = "spend_limit"

// GroupMember is a store that is a member of a namespace's groups. The id of the store is the name of the Raft member.
type GroupMember struct {
	Store string `json:"store"`
	Host  string `json:"host"`           // id of the store's host
	URL   string `json:"url"`            // base URL where gateways reach the host
	Raft  string `json:"raft,omitempty"` // host:port where other members reach it: see JoinRequest.Raft
	Role  string `json:"role"`           // Found, Join, Leaving or Recover
}

// DocFormat is the highest format of documents that this version reads. A document in a form that an older follower would
// misread gets a higher one.
const DocFormat = 1

// The values of Doc.Kind. Each kind is a document of its own, so that a change of one kind does not send the others again.
// A further kind, such as the limits of an organisation, has a constant here, fields in Doc, a case in Directory.Put, and a
// row of the table documents in controlplane/store.
const (
	KindPlacement = "placement" // of a namespace: its stores and its state
	KindKeys      = "keys"      // of a namespace: its keys and custom roles
	KindTokens    = "tokens"    // of an organisation: its tokens
)

// Doc is a document: everything of one kind that hosts and gateways must know of a namespace or an organisation. The
// newest document replaces all earlier ones of its kind and subject. The documents of all kinds have one sequence of
// numbers, so that a follower's position in the stream is one number.
type Doc struct {
	Number int64  `json:"number"`           // of the change that made it; rises with every change of any document
	Format int    `json:"format,omitempty"` // at most DocFormat; 0 = of an earlier version
	Kind   string `json:"kind,omitempty"`   // "" = of an earlier version: see document_earlier.go
	// Epoch is the control plane's; it rises when its state is restored from a backup, because generations may then
	// repeat.
	Epoch     int64  `json:"epoch"`
	Org       string `json:"org"`                 // of the namespace, or the one with the tokens
	Namespace string `json:"namespace,omitempty"` // its id; "" for tokens
	// Generation is that of the namespace when the document was made. It fences the placement and the keys: a host refuses
	// a generation older than that of the placement it has.
	Generation int64 `json:"generation,omitempty"`

	// The fields of a placement.
	Name    string `json:"name,omitempty"`
	Desired string `json:"desired,omitempty"` // Open, Absent or Leave
	// Incarnations holds, by shard, the incarnations of the namespace's groups. If it is empty, the namespace is of an
	// earlier version and its host has not reported them yet.
	Incarnations []entry.Incarnation `json:"incarnations,omitempty"`
	// Earlier holds, by shard, the incarnations of the groups that had lost their quorum, until the groups of
	// Incarnations, which were refounded from one copy, have all members. A host keeps its copy of these groups aside
	// until then. nil = no group was refounded.
	Earlier []entry.Incarnation `json:"earlier,omitempty"`
	// Members holds the stores with the namespace: those of its list of members, in the order of their placement, and
	// then those that leave it. If it is empty, the namespace is not placed yet.
	Members []GroupMember `json:"members,omitempty"`
	// Configurations holds, by shard, the index of a Raft configuration that the leader has reported and that has
	// exactly the list of members of an earlier or this generation; nil = none was reported yet. A store that is in
	// no Members may delete its copy only if its own log has no later configuration with itself.
	Configurations []uint64 `json:"configurations,omitempty"`
	Ready          bool     `json:"ready,omitempty"` // it was open once, so that requests may be sent to its members
	Trace          string   `json:"trace,omitempty"` // traceparent of the operation under way
	// Hold is the reason why hosts start no job of the namespace, such as HoldSpendLimit; "" = they do. Leases, and requests
	// other than fetches, are not affected.
	Hold string `json:"hold,omitempty"`

	Keys  []Key  `json:"keys,omitempty"`  // of the kinds keys and tokens
	Roles []Role `json:"roles,omitempty"` // of the kind keys: the custom roles that keys name
}

// Key is the form of a key in a document: without the secret, only with its hash.
type Key struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Roles      []string `json:"roles"`
	QueueScope []string `json:"queue_scope,omitempty"` // globs; none = every queue
	Hash       []byte   `json:"hash"`                  // SHA-256 of the text of the key
	ExpiresNs  int64    `json:"expires_ns,omitempty"`  // 0 = never
	CreatedNs  int64    `json:"created_ns"`
}

// Role is a custom role of a namespace. Its permissions are of the data plane.
type Role struct {
	Name        string   `json:"name"`
	Permissions []string `json:"permissions"`
}

// MaxKeys is the largest number of a namespace's keys, and of an organisation's tokens.
const MaxKeys = 1000

// The values of CellReport.State.
const (
	Opening = "opening"
	Opened  = "open"
	Closing = "closing"
	Gone    = "absent" // closed, its data deleted
	Failed  = "failed" // see Error; the host retries
	// Waiting means that the namespace's data is not in the host's store and that the host must not begin
	// with empty data: see Error. A newer document ends this state.
	Waiting = "waiting"
)

// Report is the state of a host, or the part of it that has changed. A host sends one after each change and every
// ReportEvery. A full report holds all cells of the host, in one or more parts. A delta holds the cells that differ
// from those of the last report that the control plane has acknowledged. Reporter makes both.
type Report struct {
	Number int64 `json:"number"` // of the newest document it has handled
	// Sequence numbers the reports of a process of a host and the parts of full ones, from 1. A gateway sends none.
	Sequence int64 `json:"sequence,omitempty"`
	// Base is the Sequence of the report that this one continues, which the control plane has acknowledged; 0 = this
	// is a full report, or its first part.
	Base int64 `json:"base,omitempty"`
	// More says that another part of the same full report follows. The control plane uses the cells of a full report
	// once it has the last part.
	More  bool         `json:"more,omitempty"`
	Cells []CellReport `json:"cells,omitempty"`
	// Ended has the namespaces of earlier cells that the host does not have any more. Only a delta needs it.
	Ended []string `json:"ended,omitempty"`
	// Capacity is the host's room for namespaces; nil = not known.
	Capacity *Capacity `json:"capacity,omitempty"`
	// LastUsed has the times of last use, in Unix seconds, of the keys that were used since the last
	// report.
	LastUsed map[string]int64 `json:"last_used,omitempty"`
	// Usage is a gateway's claim that its usage of all namespaces is complete. A host's claims are in its cells.
	Usage *billing.Claim `json:"usage,omitempty"`
}

// ReportAnswer is the answer to a report.
type ReportAnswer struct {
	// Full says that the control plane has not taken the cells of the report, because it lacks the report that this
	// one continues. The host sends a full one at once.
	Full bool `json:"full,omitempty"`
}

// These constants bound the reports of a host.
const (
	MaxReportBody    = 4 << 20 // bytes of a report, or of a part of a full one
	MaxReportCells   = 100_000 // of a host
	MaxReportKeys    = 10_000  // of LastUsed
	MaxReportError   = 1 << 10 // bytes of CellReport.Error
	MaxReportMembers = 64      // voters and learners of a GroupReport
)

// CellReport is the state of one namespace on a host.
type CellReport struct {
	Namespace  string `json:"namespace"`
	Generation int64  `json:"generation"` // of the document that the state is about
	State      string `json:"state"`
	Error      string `json:"error,omitempty"`
	// Incarnations holds, by shard, the incarnations of the groups of a namespace that is Opened.
	Incarnations []entry.Incarnation `json:"incarnations,omitempty"`
	// Groups holds, by shard, the state of the members of this store in the groups of a namespace that is Opened.
	Groups []GroupReport `json:"groups,omitempty"`
}

// The values of GroupReport.Role.
const (
	Joining   = "joining"   // the member waits for the group's leader to add it, or for the first entries
	Following = "following" // the member has the group's log and does not lead
	Leading   = "leading"   // the member leads and serves
)

// GroupReport is the state of a store's member in the group of one shard. A member that does not lead reports its
// role, its level and its position only.
type GroupReport struct {
	Role string `json:"role"`
	// Level is the group's feature level, as far as this member has applied its log.
	Level uint32 `json:"level,omitempty"`
	// Last and Term are the index and the term of the newest entry that the member has, committed or not.
	Last uint64 `json:"last,omitempty"`
	Term uint64 `json:"term,omitempty"`
	// Epoch and Generation are those of the list of members in the group's state; 0 = it has none.
	Epoch      int64 `json:"epoch,omitempty"`
	Generation int64 `json:"generation,omitempty"`
	// Configuration is the index of the Raft configuration that the leader has applied; Voters and Learners are the
	// stores in it.
	Configuration uint64   `json:"configuration,omitempty"`
	Voters        []string `json:"voters,omitempty"`
	Learners      []string `json:"learners,omitempty"`
	// Usage is the leader's newest claim that the shard's usage is complete; nil = it has made none.
	Usage *billing.Claim `json:"usage,omitempty"`
}

// ReportEvery is the time between two reports without a change, and FullReportEvery the time between two full ones
// that the control plane has not asked for.
const (
	ReportEvery     = 2 * time.Second
	FullReportEvery = time.Minute
)

// UsageAnswer has the last number of a source's usage that was applied or set aside; 0 = none.
type UsageAnswer struct {
	Last uint64 `json:"last"`
}

// Frame is the form of a billing.Frame in the protocol.
type Frame = billing.Frame
