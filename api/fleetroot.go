package api

// FleetRoot is a root of the certificates of hosts, gateways and the control plane, as operators of the cloud see it.
type FleetRoot struct {
	Fingerprint string `json:"fingerprint"` // SHA-256 of the certificate, in hexadecimal: the value of --fleet-root
	State       string `json:"state"`       // announced, signing or retiring
	CreatedAt   Time   `json:"created_at"`
	// AnnouncedUntil is the time until which an announced root signs nothing, also if every member trusts it.
	AnnouncedUntil *Time `json:"announced_until,omitempty"`
	// SignsAt is the time since which the root has signed; absent while it is announced.
	SignsAt *Time `json:"signs_at,omitempty"`
	// WaitsFor names the hosts and gateways that hold back the next step: members that have not reported that they trust
	// an announced root, and members with a certificate of a retiring root.
	WaitsFor    []string `json:"waits_for"`
	Certificate string   `json:"certificate"` // in PEM
}

// The values of FleetRoot.State.
const (
	RootAnnounced = "announced" // members learn to trust it
	RootSigning   = "signing"   // it issues all certificates
	RootRetiring  = "retiring"  // it issued certificates that may still be in use
)

// RotateFleetRootRequest starts the rotation of the fleet's root.
type RotateFleetRootRequest struct {
	// Announce is the least time between the start and the first certificate of the new root, in which operators give the
	// root to their programs: default 24h, at most 720h, 0s = none.
	Announce Duration `json:"announce,omitempty"`
}

// SwitchFleetRootRequest lets an announced root sign before its announcement ends.
type SwitchFleetRootRequest struct {
	Without []string `json:"without,omitempty"` // ids or names of hosts and gateways that need not trust the root
}
