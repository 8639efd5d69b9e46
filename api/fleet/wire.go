package fleet

import (
	"encoding/json"
	"time"

	"github.com/corvo/corvo/billing"
)

// The routes. Hosts and gateways present a fleet credential to JoinPath and the
// service token they get there to the others.
const (
	JoinPath   = "/fleet/v1/join"        // POST JoinRequest -> JoinAnswer
	DocsPath   = "/fleet/v1/docs"        // GET ?after=N -> a stream of Messages, one JSON a line
	ReportPath = "/fleet/v1/report"      // POST Report -> {}
	UsagePath  = "/fleet/v1/usage"       // GET ?namespace&stream&incarnation, POST billing.Frame -> UsageAnswer
	AsidePath  = "/fleet/v1/usage/aside" // POST billing.Frame -> UsageAnswer; of a namespace that is being deleted
	JWKSPath   = "/.well-known/jwks.json"
)

// ServiceHeader carries a gateway's service token to a host, beside the tenant's
// own credential.
const ServiceHeader = "Corvo-Service-Token"

// DrainTrailer is behind the body of a stream that a gateway has ended because it shuts
// down, not its client: the host tells the client to open another.
const DrainTrailer = "Corvo-Service-Drain"

// HeartbeatEvery is how often a stream of documents says that it lives.
const HeartbeatEvery = 500 * time.Millisecond

// SilenceLimit is after how long without a message a follower connects again.
const SilenceLimit = 5 * time.Second

// JoinRequest says who joins. It is repeated to renew the token.
type JoinRequest struct {
	Address string `json:"address"` // base URL where gateways reach it; "" for a gateway
	Version string `json:"version"`
}

// JoinAnswer is a service token; to a gateway two, for what it shows to hosts must
// not open the control plane to them.
type JoinAnswer struct {
	ID        string          `json:"id"`                   // of the host or gateway
	Token     string          `json:"token"`                // for the control plane
	HostToken string          `json:"host_token,omitempty"` // a gateway's, for ServiceHeader; as long-lived as Token
	ExpiresAt time.Time       `json:"expires_at"`
	JWKS      json.RawMessage `json:"jwks"` // to check documents and other members' tokens with
}

// Message is one line of a stream of documents. A follower that has seen Number N
// has seen every change up to N. Doc and Signature are empty in a heartbeat, which
// is sent only when there is no document left to send: who has seen one has seen
// all there was.
type Message struct {
	Number    int64           `json:"number"` // Doc's own, where there is one
	Doc       json.RawMessage `json:"doc,omitempty"`
	Signature string          `json:"signature,omitempty"` // token.SignDocument over Doc's bytes as they stand in the line
	// JWKS comes with a heartbeat after the keys have changed, and with the first.
	JWKS json.RawMessage `json:"jwks,omitempty"`
}

// The words of Doc.Desired.
const (
	Open   = "open"   // the host serves the namespace
	Absent = "absent" // the host closes it and deletes its data; gateways forget it
)

// Doc is all that hosts and gateways need to know of a namespace, whole: whoever
// has the newest one needs no other.
type Doc struct {
	Number     int64  `json:"number"`    // of the change it was made at; rises with every change of any namespace
	Namespace  string `json:"namespace"` // its id
	Name       string `json:"name"`
	Org        string `json:"org"`
	Generation int64  `json:"generation"` // fences placement: a host refuses one older than it has seen
	Desired    string `json:"desired"`
	Host       string `json:"host"`            // id of the host it is placed on; "" = on none yet
	Address    string `json:"address"`         // that host's base URL
	Ready      bool   `json:"ready"`           // that host has it open: requests may be sent
	Keys       []Key  `json:"keys"`            // who may enter: the namespace's keys and its organisation's tokens
	Roles      []Role `json:"roles,omitempty"` // custom ones that keys name
	Trace      string `json:"trace,omitempty"` // traceparent of the operation under way
}

// Key is a key as hosts and gateways keep it: no secret, only its hash.
type Key struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Roles      []string `json:"roles"`
	QueueScope []string `json:"queue_scope,omitempty"`
	Hash       []byte   `json:"hash"`                 // SHA-256 of the key's text
	ExpiresNs  int64    `json:"expires_ns,omitempty"` // 0 = never
	CreatedNs  int64    `json:"created_ns"`
}

// Role is a custom role of a namespace.
type Role struct {
	Name        string   `json:"name"`
	Permissions []string `json:"permissions"`
}

// MaxKeys is the most keys of a namespace, and of an organisation's tokens.
const MaxKeys = 1000

// The words of CellReport.State.
const (
	Opening = "opening"
	Opened  = "open"
	Closing = "closing"
	Gone    = "absent" // closed, its data deleted
	Failed  = "failed" // see Error; the host goes on trying
)

// Report is where a host stands: all its cells, each time. A host reports when
// something has changed and every few seconds.
type Report struct {
	Number int64        `json:"number"` // of the newest document it has acted on
	Cells  []CellReport `json:"cells"`
	// LastUsed is when keys were last used, Unix seconds, those used since the
	// last report.
	LastUsed map[string]int64 `json:"last_used,omitempty"`
}

// CellReport is one namespace on a host.
type CellReport struct {
	Namespace  string `json:"namespace"`
	Generation int64  `json:"generation"` // of the document it acts on
	State      string `json:"state"`
	Error      string `json:"error,omitempty"`
}

// ReportEvery is how often a host reports when nothing changes.
const ReportEvery = 2 * time.Second

// UsageAnswer is how far a source's usage has been applied; 0 = not at all.
type UsageAnswer struct {
	Last uint64 `json:"last"`
}

// Frame is billing's frame on the wire.
type Frame = billing.Frame
