package store

import (
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// The bounds of the control plane's state; package tenancy has those of keys and roles. The bounds that
// decide in Apply (limits below) belong to the feature level, because replicas must agree about them.
const (
	MaxOrgs               = 10_000
	MaxNamespaces         = 1_000 // of an organisation, those that are not deleted
	MaxHosts              = 1_000 // hosts and gateways
	MaxStores             = 100   // that a host has joined with, the lost ones included
	MaxKeys               = fleet.MaxKeys
	MaxSigningKeys        = 16
	MaxIdempotencyRecords = 100_000

	// IdempotencyPeriod is the time for which the result of a request with an idempotency key is stored.
	IdempotencyPeriod = 24 * time.Hour
	// ExpiredKept is the time for which an expired credential is kept before entries remove it. A new
	// credential of an owner that has the maximum removes the owner's expired ones earlier.
	ExpiredKept = 24 * time.Hour
	// RefusalsKept is the time for which rows of refused requests stay in the audit log. A data plane keeps
	// its rows for as long. Rows of changes stay for ever.
	RefusalsKept = 400 * 24 * time.Hour
	// An entry with n ops removes at most purgeRows + 2n expired idempotency records and as many expired
	// credentials. That is more than the entry can add.
	purgeRows = 32

	MaxID             = 64  // bytes of an id
	MaxName           = 63  // bytes of the name of an organisation, namespace or host
	MaxRegion         = 63  // bytes
	MaxZone           = 63  // bytes of the zone of a host
	MaxShards         = 64  // of a namespace
	MaxReplicas       = 5   // of a namespace
	MaxAddress        = 512 // bytes of a host's base URL
	MaxRaftAddress    = 255 // bytes of the host:port of a host's Raft members
	MaxVersion        = 128 // bytes of the version of a host's binary
	MaxUsageWord      = 128 // bytes of a usage row's queue, model and provider
	MaxStream         = 128 // bytes of a usage source's stream and incarnation
	MaxPrincipal      = 256 // bytes of a principal
	MaxTrace          = 64  // bytes of a traceparent
	MaxIdempotencyKey = 255 // bytes
	MaxRoles          = tenancy.MaxKeyRoles
	MaxPage           = 1_000 // rows of one page of a list
	MaxRefusals       = 256   // rows of the audit log that one RecordRefusals adds
	MaxAction         = 256   // bytes of a refused request's action
	MaxCode           = 64    // bytes of an error code
	MaxReason         = 256   // bytes of the reason of a credit or of its revocation
	MaxPriceVersion   = 128   // bytes of the name of a price version in a line of an invoice

	MaxCorrectionReason = 512 // bytes of the reason of a correction or of its rejection

	// MaxCorrections is the number of corrections of an organisation that wait for approval.
	MaxCorrections = 1_000

	// MaxCredit is the largest credit.
	MaxCredit = 1_000_000 * money.Dollar
	// MaxCredits is the number of credits of an organisation that wait for approval or have an unused rest.
	MaxCredits = 1_000
	// MaxSole is the amount that operators grant to an organisation in a calendar month without a second person.
	MaxSole = 1_000 * money.Dollar

	// MaxSpendLimit is the largest spend limit, and the largest raise of one.
	MaxSpendLimit = 1_000_000 * money.Dollar
	// MaxRaises is the number of raises of an organisation's spend limit in a calendar month.
	MaxRaises = 100
	// MaxRaisePeriod is the longest time until a raise expires.
	MaxRaisePeriod = 31 * 24 * time.Hour
	// OwnRaisePercent is the share of its spend limit by which an organisation may raise the limit at a time without an
	// operator, over all raises that have not expired.
	OwnRaisePercent = 100

	// Frames of refused usage that are set aside: at most MaxAsideFrames frames with MaxAsideBytes bytes
	// together in the whole cloud, and MaxNamespaceAsideFrames frames with MaxNamespaceAsideBytes bytes
	// together of one namespace.
	MaxAsideFrames          = 1_000
	MaxAsideBytes           = 256 << 20
	MaxNamespaceAsideFrames = 100
	MaxNamespaceAsideBytes  = 32 << 20
	MaxAsideFrame           = 4 << 20 // bytes of a frame

	// MaxUsageAhead is how far the hour of a usage row may begin after the clock of the entry that applies it. Rows
	// further ahead are set aside while the cloud has at most MaxAheadFrames frames with MaxAheadBytes bytes set aside, so
	// that a wrong clock leaves room to the deletions of namespaces.
	MaxUsageAhead  = time.Hour
	MaxAheadFrames = MaxAsideFrames / 2
	MaxAheadBytes  = MaxAsideBytes / 2

	MaxAsideReason = 1024 // bytes of the refusal's code, and as many of its message
)

// limits holds the bounds that decide in Apply.
type limits struct {
	orgs, namespaces, hosts, stores, keys, roles, signingKeys, idempotency int64
	credits, corrections, raises, ownRaisePercent                          int64
	sole                                                                   money.Nano
	aside, namespaceAside, ahead                                           AsideTotals
}

var defaultLimits = limits{
	orgs: MaxOrgs, namespaces: MaxNamespaces, hosts: MaxHosts, stores: MaxStores, keys: MaxKeys, roles: tenancy.MaxCustomRoles,
	signingKeys: MaxSigningKeys, idempotency: MaxIdempotencyRecords, credits: MaxCredits, corrections: MaxCorrections, sole: MaxSole,
	raises: MaxRaises, ownRaisePercent: OwnRaisePercent,
	aside:          AsideTotals{Frames: MaxAsideFrames, Bytes: MaxAsideBytes},
	namespaceAside: AsideTotals{Frames: MaxNamespaceAsideFrames, Bytes: MaxNamespaceAsideBytes},
	ahead:          AsideTotals{Frames: MaxAheadFrames, Bytes: MaxAheadBytes},
}
