package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/cell"
)

func TestIndexText(t *testing.T) {
	t.Parallel()
	for _, at := range []cell.Index{0, 1, 127, 128, 1 << 40, 1<<64 - 1} {
		text := encodeIndex(at)
		if back, err := decodeIndex(text); err != nil || back != at {
			t.Errorf("%d is %q is %d, %v", at, text, back, err)
		}
	}
	good := encodeIndex(300)
	for _, bad := range []string{"", "7", "=", good + "AA", good[:len(good)-1], "AgAB", "AQEB", strings.Repeat("A", 65), good + "="} {
		if at, err := decodeIndex(bad); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%q is %d, %v", bad, at, err)
		}
	}
}

// A search shows every write that was answered before it, by whatever means it
// asks for that; the write's own position is one.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	for i := range int64(20) {
		a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"}`)
		index := a.header.Get("Corvo-Index")
		if a.status != 201 || index == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for _, read := range []client.Read{{}, {Strong: true}, {MinIndex: index}, {MinIndex: index, Eventual: true}} {
			got, err := c.Search(ctx, api.SearchRequest{Queue: "q"}, read)
			if err != nil || got.Total != i+1 {
				t.Fatalf("%+v after %d writes: %d, %v", read, i+1, got.Total, err)
			}
		}
	}
}

// A read that waits for a position that never comes says so.
func TestViewBehind(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *Config) { c.ReadWait = 10 * time.Millisecond })
	for _, path := range []string{"/api/v1/queues", "/api/v1/auth/keys"} {
		a := n.send("GET", path+"?min_index="+encodeIndex(n.cell.Applied()+1000), n.admin, "")
		p := a.problem(t)
		if a.status != 503 || p.Code != api.ViewBehind || p.Details["retryable"] != true {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
