package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
)

// TestProposeInTerm checks that an op of one term of leadership is committed in that term or not at all: a
// follower does not forward it, and a later term does not take it.
func TestProposeInTerm(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		propose := func(m *member, term uint64, key string) error {
			_, err := within(10*time.Second, func(ctx context.Context) (int64, error) {
				n, _, err := engine.ProposeInTerm[int64](ctx, m.Group, term, add(key))
				return n, err
			})
			return err
		}
		leader := c.leader()
		term, leads := leader.LeadingTerm()
		if !leads || propose(leader, term, "a") != nil {
			t.Fatalf("the leader of term %d (%v) cannot propose in it", term, leads)
		}
		for _, m := range c.others(leader) {
			if other, leads := m.LeadingTerm(); leads {
				t.Errorf("a follower leads term %d", other)
			}
			wantCode(t, propose(m, term, "b"), api.LeaderUnavailable)
		}
		wantCode(t, propose(leader, term-1, "b"), api.LeaderUnavailable)

		next := c.others(leader)[0]
		c.must(leader.Transfer(soon(t), next.id))
		c.until("the other leads", func() bool { _, leads := next.LeadingTerm(); return leads })
		wantCode(t, propose(leader, term, "b"), api.LeaderUnavailable)
		wantCode(t, propose(next, term, "b"), api.LeaderUnavailable)
		later, _ := next.LeadingTerm()
		if later <= term || propose(next, later, "a") != nil {
			t.Errorf("the leader of term %d cannot propose after term %d", later, term)
		}
		if n, err := next.try(10*time.Second, add("b")); err != nil || n != 1 {
			t.Errorf("a refused op was applied %d times, %v", n-1, err)
		}
	})
}
