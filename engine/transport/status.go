package transport

import "time"

// PeerStatus is what is known of a peer.
type PeerStatus struct {
	Peer
	Info      []byte        // its Config.Info, when we were connected last
	Connected bool          // there is a connection now, in either direction
	Heard     time.Time     // when it was heard of last, zero = never
	RTT       time.Duration // of the newest ping, zero = none yet
	// Offset is its clock less ours, as of the quickest of the newest pings; measured
	// anew every second while connected. Measured says that it is.
	Offset   time.Duration
	Measured bool
}
