package client

import (
	"net/http"
	"testing"

	"github.com/corvo/corvo/api"
)

// The calls for a node use the right routes.
func TestNodeRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, body string
		ask        func(c *Client) error
	}{
		{"GET /api/v1/cluster/status", "", func(c *Client) error { _, err := c.ClusterStatus(t.Context()); return err }},
		{"POST /api/v1/cluster/join", `{"address":"n4:9400"}`, func(c *Client) error { return c.AddNode(t.Context(), "n4:9400") }},
		{"POST /api/v1/cluster/transfer", `{"to":"n2"}`, func(c *Client) error { return c.TransferLeadership(t.Context(), "n2") }},
		{"DELETE /api/v1/cluster/servers/a%2Fb", "", func(c *Client) error { return c.RemoveNode(t.Context(), "a/b") }},
		{"POST /api/v1/admin/snapshot", "", func(c *Client) error { _, err := c.TakeSnapshot(t.Context()); return err }},
		{"POST /api/v1/admin/verify", "", func(c *Client) error { _, err := c.VerifyStore(t.Context()); return err }},
		{"POST /api/v1/admin/rebuild-view", "", func(c *Client) error { _, err := c.RebuildView(t.Context()); return err }},
	} {
		client, server, _ := against(t, says(http.StatusOK, `{}`))
		if err := c.ask(client); err != nil {
			t.Errorf("%s: %v", c.want, err)
		}
		requests, bodies := server.requests()
		if got := requests[0].Method + " " + requests[0].URL.EscapedPath(); got != c.want || bodies[0] != c.body {
			t.Errorf("%s %s, want %s %s", got, bodies[0], c.want, c.body)
		}
	}
}

// A transfer of leadership is not repeated, because leadership may have moved although the response was
// lost, and a repeat would move it again.
func TestATransferIsNotRepeatedBlindly(t *testing.T) {
	t.Parallel()
	client, server, _ := against(t, hangsUp, says(http.StatusOK, `{}`))
	if err := client.TransferLeadership(t.Context(), ""); err == nil {
		t.Error("an answer that was lost counts as one")
	}
	if requests, _ := server.requests(); len(requests) != 1 {
		t.Errorf("%d requests", len(requests))
	}
	refused := `{"error":"too many at once","code":"` + string(api.Overloaded) + `"}`
	client, server, _ = against(t, says(api.Overloaded.Status(), refused), says(http.StatusOK, `{}`))
	if err := client.TransferLeadership(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if requests, _ := server.requests(); len(requests) != 2 {
		t.Errorf("%d requests", len(requests))
	}
}
