package store

import (
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy"
)

// Every bound of the control plane's state. Those that decide in Apply (limits
// below) are part of the feature level: replicas must agree about them.
const (
	MaxOrgs               = 10_000
	MaxNamespaces         = 1_000 // of an organisation, those that are not deleted
	MaxHosts              = 1_000 // hosts and gateways
	MaxKeys               = fleet.MaxKeys
	MaxSigningKeys        = 16
	MaxIdempotencyRecords = 100_000

	// IdempotencyPeriod is how long the answer to a request with a key is
	// remembered.
	IdempotencyPeriod = 24 * time.Hour
	// ExpiredKept is how long a credential stays listed after its end.
	ExpiredKept = 24 * time.Hour
	// RefusalsKept is how long rows of refused requests stay in the audit log, as long as
	// the records of a data plane do. Rows of changes stay for ever.
	RefusalsKept = 400 * 24 * time.Hour
	// purgeRows is how many rows of each kind whose time is over go with an entry,
	// and two more with each of its ops: more than can be added.
	purgeRows = 32

	MaxID             = 64  // bytes of an id
	MaxName           = 63  // bytes of the name of an organisation, namespace or host
	MaxRegion         = 63  // bytes
	MaxShards         = 64  // of a namespace
	MaxAddress        = 512 // bytes of a host's base URL
	MaxVersion        = 128 // bytes of the version of a host's binary
	MaxUsageWord      = 128 // bytes of a usage row's queue, model and provider
	MaxStream         = 128 // bytes of a usage source's stream and incarnation
	MaxPrincipal      = 256 // bytes of who acts
	MaxTrace          = 64  // bytes of a traceparent
	MaxIdempotencyKey = 255 // bytes
	MaxRoles          = tenancy.MaxKeyRoles
	MaxPage           = 1_000 // rows of one page of a list
	MaxRefusals       = 256   // rows of the audit log that one RecordRefusals adds
	MaxAction         = 256   // bytes of what a refused request asked for
	MaxCode           = 64    // bytes of an error code
)

// limits are the bounds that decide in Apply.
type limits struct {
	orgs, namespaces, hosts, keys, roles, signingKeys, idempotency int64
}

var defaultLimits = limits{
	orgs: MaxOrgs, namespaces: MaxNamespaces, hosts: MaxHosts, keys: MaxKeys, roles: tenancy.MaxCustomRoles,
	signingKeys: MaxSigningKeys, idempotency: MaxIdempotencyRecords,
}
