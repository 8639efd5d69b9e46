package allinone

import (
	"context"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// Events pass the gateway as they happen, each by itself, and end with the key.
func TestEventsPassTheGateway(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	id, key, tenant := c.namespace(t, "events")
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if _, err := tenant.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for e, err := range tenant.Events(ctx, client.EventQuery{After: "0", Queues: []string{"q"}, Types: []string{"enqueued"}}) {
		if err != nil {
			if seen != 3 || api.CodeOf(err) != api.Unauthorized {
				t.Errorf("after %d events: %v", seen, err)
			}
			return
		}
		if e.Queue != "q" || e.Type != "enqueued" {
			t.Errorf("%+v", e)
		}
		// What comes next happens only once this one has come: nothing holds it back.
		if seen++; seen < 3 {
			if _, err := tenant.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
		} else if err := c.cloud(t).RevokeNamespaceKey(ctx, id, key.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
}
