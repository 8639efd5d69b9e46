package main

import (
	"context"
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
func TestAStrangerDoesNotTakeAMembersId(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	leader := c.leader(t)
	follower := c.others(leader)[0]
	for name, id := range map[string]string{"a follower's id": follower, "the leader's id": leader} {
		t.Run(name, func(t *testing.T) {
			asked := c.others(id)[0]
			if asked == leader {
				asked = c.others(id)[1]
			}
			to := c.client(t, asked) // a follower that forwards
			ctx, stop := context.WithCancel(within(t))
			var writing sync.WaitGroup
			var failed error
			writing.Go(func() {
				for ctx.Err() == nil {
					_, err := to.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
					if err != nil && ctx.Err() == nil {
						failed = err
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
			if failed != nil {
				t.Errorf("a forwarded write: %v", failed)
			}
			awaitVoters(t, within(t), c.client(t, leader), 3)
			if _, err := to.Enqueue(within(t), api.EnqueueRequest{Queue: "q"}); err != nil {
				t.Errorf("after it: %v", err)
			}
			if _, err := to.Queue(within(t), "q", client.Read{Strong: true}); err != nil {
				t.Errorf("a strong read: %v", err)
			}
		})
	}
}
