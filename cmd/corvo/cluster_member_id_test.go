package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// TestAStrangerDoesNotTakeAMembersId starts a process under the id of a live member. The cluster refuses it
// and the process ends, whether the member follows or leads: no member is evicted, and followers go on
// forwarding writes.
//
// A busy machine may cause an election, during which writes fail. After an election the test tries again,
// because a stranger that evicts a member does so at each attempt.
func TestAStrangerDoesNotTakeAMembersId(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	for name, taken := range map[string]func(leader string) string{
		"a follower's id": func(leader string) string { return c.others(leader)[0] },
		"the leader's id": func(leader string) string { return leader },
	} {
		t.Run(name, func(t *testing.T) {
			const attempts = 3
			for n := 1; ; n++ {
				failed, elected := c.stranger(t, taken)
				if failed == nil {
					return
				}
				if !elected || n == attempts {
					t.Fatal(failed)
				}
				t.Logf("attempt %d met an election: %v", n, failed)
			}
		})
	}
}

// stranger starts a process under the id of a member, while another member forwards writes to the leader. It
// returns the error of a request to that member, and whether the members elected a leader meanwhile.
func (c *trio) stranger(t *testing.T, taken func(leader string) string) (failed error, elected bool) {
	t.Helper()
	leader := c.leader(t)
	id := taken(leader)
	follower := c.others(leader)[0]
	if follower == id {
		follower = c.others(leader)[1]
	}
	to := c.client(t, follower)
	before := c.term(t, to)

	ctx, stop := context.WithCancel(within(t))
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			if _, err := to.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil && ctx.Err() == nil {
				failed = fmt.Errorf("a forwarded write: %w", err)
				return
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	refused(t, []string{"--node-id", id, "--raft-bind", freePort(t), "--data-dir", filepath.Join(t.TempDir(), "stranger"),
		"--join", c.raft["node-0"] + "," + c.raft["node-1"] + "," + c.raft["node-2"], c.flags[0], c.flags[1]},
		`another process holds node id "`+id+`"`, "--node-id", "corvo cluster remove "+id)
	stop()
	writing.Wait()
	awaitVoters(t, within(t), c.client(t, leader), 3)
	if _, err := to.Enqueue(within(t), api.EnqueueRequest{Queue: "q"}); err != nil && failed == nil {
		failed = fmt.Errorf("a write after it: %w", err)
	}
	if _, err := to.Queue(within(t), "q", client.Read{Strong: true}); err != nil && failed == nil {
		failed = fmt.Errorf("a strong read after it: %w", err)
	}
	return failed, c.term(t, to) != before
}

// term returns the term of the first shard at a member, once the member's writes reach a leader.
func (c *trio) term(t *testing.T, at *client.Client) (term uint64) {
	t.Helper()
	ctx := within(t)
	eventually(t, ctx, "a write", func() bool {
		if _, err := at.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
			return false
		}
		status, err := at.ClusterStatus(ctx)
		term = status.Term
		return err == nil
	})
	return term
}
