package allinone

import (
	"context"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// The gateway passes each event on as it happens, and ends the stream when the key is revoked.
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
		// The next event happens only after this one has arrived, so that the test hangs if the gateway holds
		// an event back.
		if seen++; seen < 3 {
			if _, err := tenant.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
		} else if err := c.cloud(t).RevokeNamespaceKey(ctx, id, key.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
}
