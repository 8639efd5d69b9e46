package engine_test

import (
	"testing"
	"time"
)

// TestAPromotedMemberIsElectedByOneThatHasNotHeardOfIt lets a leader promote a learner and die before another voter has
// that configuration. The other voter must not lead, because it lacks the entry. The promoted one needs its vote.
func TestAPromotedMemberIsElectedByOneThatHasNotHeardOfIt(t *testing.T) {
	virtual(t, 2, func(t *testing.T, c *cluster) {
		leader := c.leader()
		behind := c.others(leader)[0]
		promoted := c.add()
		promoted.start()
		c.must(leader.AddLearner(soon(t), promoted.id, promoted.address))
		c.must(promoted.Ready(soon(t)))
		c.net.Cut(leader.id, behind.id)
		c.net.Cut(behind.id, leader.id)
		c.must(leader.Promote(soon(t), promoted.id))
		leader.kill()
		if got := voters(behind); got != 2 {
			t.Fatalf("a configuration of %d voters has arrived", got)
		}
		if next := c.leaderOf(behind, promoted); next != promoted {
			t.Errorf("%s leads, which lacks the configuration", next.id)
		}
		_, err := promoted.try(time.Minute, add("k"))
		c.must(err)
	})
}
