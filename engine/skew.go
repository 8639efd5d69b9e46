package engine

import (
	"context"
	"time"

	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

const (
	// MaxSkew is the largest difference allowed between a leader's clock and the clocks of the other voters,
	// because leases and timers follow the leader's clock.
	MaxSkew = 2 * time.Second
	// skewPause is the wait before a skewed leader tries to transfer leadership again. Leadership returns
	// when no other member can take it, so a transfer each second would keep the group from working.
	skewPause = 30 * time.Second
)

// skew holds the time of the next attempt to transfer leadership.
type skew struct{ next time.Time }

// checkClock transfers leadership away if this host's clock is wrong. The transfer never makes the clocks of
// entries fall, because a term's clock starts no earlier than the newest entry's clock.
func (g *Group) checkClock(ctx context.Context, s *skew) {
	if time.Now().Before(s.next) {
		return
	}
	off, right := skewed(g.identity.NodeID, g.replica.Members(), g.config.Transport.Peers())
	if off == 0 {
		return
	}
	s.next = time.Now().Add(skewPause)
	log := g.config.Logger.With("group", g.identity.Group, "clock_offset", off)
	log.Error("this host's clock is wrong: the leader transfers its leadership; set the clock and keep it synchronised")
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	if err := g.transferToBest(ctx, func(id string) bool { return right[id] }); err != nil {
		log.Warn("no member with a correct clock took over leadership; this member stays leader for now", "error", err)
	}
}

// skewed returns off, the smallest offset of the right clocks from this node's clock, and the voters with
// right clocks; off is 0 if this node's clock is right. This node's clock is wrong if the clocks of more than
// half of all voters are ahead of it by more than MaxSkew, or if as many are behind it. So if one clock of
// three is wrong, only its own node finds itself wrong. A voter that was not measured counts as agreeing with
// this node.
func skewed(self string, members []replica.Peer, peers []transport.PeerStatus) (off time.Duration, right map[string]bool) {
	measured := map[string]time.Duration{}
	for _, p := range peers {
		if p.Measured {
			measured[p.ID] = p.Offset
		}
	}
	voters, ahead, behind := 0, map[string]bool{}, map[string]bool{}
	least := [2]time.Duration{}
	for _, p := range members {
		if !p.Voter {
			continue
		}
		voters++
		offset, ok := measured[p.ID]
		switch {
		case !ok || p.ID == self:
		case offset > MaxSkew:
			ahead[p.ID] = true
			least[0] = smaller(least[0], offset)
		case offset < -MaxSkew:
			behind[p.ID] = true
			least[1] = smaller(least[1], offset)
		}
	}
	switch {
	case len(ahead) > voters/2:
		return least[0], ahead
	case len(behind) > voters/2:
		return least[1], behind
	}
	return 0, nil
}

// smaller returns the smaller of two offsets; a is 0 if it is not set.
func smaller(a, b time.Duration) time.Duration {
	if a == 0 || b.Abs() < a.Abs() {
		return b
	}
	return a
}
