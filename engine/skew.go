package engine

import (
	"context"
	"time"

	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

const (
	// MaxSkew is how far a leader's clock may be off those of the other voters.
	// Leases and timers follow it.
	MaxSkew = 2 * time.Second
	// skewPause is how long a leader that could not be rid of leads on before it
	// tries again. Leadership that came back came because nobody else could take it;
	// to hand it out each second would keep the group from working at all.
	skewPause = 30 * time.Second
)

// skew is what a leader has done about its clock.
type skew struct{ next time.Time }

// checkClock gives leadership up when this host's clock is wrong. Entries' clocks
// never fall by that: a term begins no earlier than the newest entry.
func (g *Group) checkClock(ctx context.Context, s *skew) {
	if time.Now().Before(s.next) {
		return
	}
	off, right := skewed(g.identity.NodeID, g.replica.Members(), g.config.Transport.Peers())
	if off == 0 {
		return
	}
	s.next = time.Now().Add(skewPause)
	log := g.config.Logger.With("group", g.identity.Group, "off by", off)
	log.Error("this host's clock is wrong: it gives up leadership; set the clock, see that it is kept right")
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	if err := g.handOver(ctx, func(id string) bool { return right[id] }); err != nil {
		log.Warn("nobody with a better clock takes leadership over: it stays here for now", "error", err)
	}
}

// skewed is how far this node's clock is off, and who has the time. More than half
// of all voters must say so, all in one direction: one wrong clock among three is
// then known for which it is, and what could not be measured speaks for nobody.
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
			least[0] = nearer(least[0], offset)
		case offset < -MaxSkew:
			behind[p.ID] = true
			least[1] = nearer(least[1], offset)
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

// nearer is the smaller of two offsets, of which the first may not be set.
func nearer(a, b time.Duration) time.Duration {
	if a == 0 || b.Abs() < a.Abs() {
		return b
	}
	return a
}
