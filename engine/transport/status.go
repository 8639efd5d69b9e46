package transport

import "time"

// PeerStatus describes a peer.
type PeerStatus struct {
	Peer
	Info      []byte        // the peer's Config.Info, from its last connection
	Connected bool          // a connection is open, in either direction
	LastSeen  time.Time     // when something was last received from it, zero = never
	RTT       time.Duration // of the newest ping, zero = none yet
	// Offset is the peer's clock minus this node's, from the quickest of the newest pings. It is measured
	// every second while the peer is connected. Measured says that Offset is valid.
	Offset   time.Duration
	Measured bool
}
