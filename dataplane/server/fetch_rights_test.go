package server_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// A poll that is woken for a job has the rights that its key has then. If the key was narrowed in between,
// the poll gets nothing, even if it was not notified of the change.
func TestWokenPollHasTheRightsOfNow(t *testing.T) {
	t.Parallel()
	for what, narrowed := range map[string]*op.SetKey{
		"its queues": {Roles: []string{"worker"}, QueueScope: []string{"other"}, Enabled: true},
		"its roles":  {Roles: []string{"readonly"}, Enabled: true},
		"it, wholly": {Roles: []string{"worker"}},
		"nothing of": nil,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			// asked counts the checks of a key's expiry: by the poll when it came and when it began to wait,
			// by the enqueue, and by the woken poll, which the test releases.
			var asked, woken atomic.Int64
			held, on := make(chan struct{}), make(chan struct{})
			n := startNode(t, func(c *server.Config) {
				c.Now = func() time.Time {
					if asked.Add(1) == woken.Load() {
						held <- struct{}{}
						<-on
					}
					return time.Now()
				}
			})
			key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
			before := asked.Load()
			got := make(chan answer, 1)
			go func() { got <- n.ask("POST", "/api/v1/fetch", key, `{"queues":["q"],"timeout":60}`) }()
			eventually(t, "the poll waits, and has asked whether it may", func() bool { return asked.Load() == before+2 })
			woken.Store(before + 4)
			made, err := n.client(n.admin).Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"})
			if err != nil {
				t.Fatal(err)
			}
			<-held
			if narrowed != nil {
				narrowed.Id = keyID(key)
				if _, _, err := cell.Propose[*op.SetKeyResult](t.Context(), n.cell, narrowed); err != nil {
					t.Fatal(err)
				}
			}
			close(on)
			a, want := <-got, "pending"
			switch {
			case narrowed == nil:
				want = "active"
				if a.status != 200 {
					t.Errorf("a key that may: %d %s", a.status, a.body)
				}
			case a.status != 403 && a.status != 401:
				t.Errorf("the poll was answered %d %s", a.status, a.body)
			}
			doc, err := n.client(n.admin).Job(t.Context(), made.JobID, client.Read{})
			if err != nil || doc.State != want {
				t.Errorf("the job is %s, want %s: %v", doc.State, want, err)
			}
		})
	}
}
