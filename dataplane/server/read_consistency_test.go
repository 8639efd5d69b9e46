package server

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/host"
)

func TestIndexText(t *testing.T) {
	t.Parallel()
	const most = 1<<64 - 1
	every := make([]position, host.MaxShards)
	for i := range every {
		every[i] = position{uint32(i), most}
	}
	for _, at := range [][]position{{{0, 0}}, {{0, 1}}, {{1, 127}}, {{0, 128}, {3, 1 << 40}}, {{63, most}}, every} {
		text := encodeIndex(at...)
		if back, err := decodeIndex(text, host.MaxShards); err != nil || !slices.Equal(back, at) {
			t.Errorf("%v is %q is %v, %v", at, text, back, err)
		}
		if len(text) > maxIndexText {
			t.Errorf("%v takes %d characters, the bound is %d", at, len(text), maxIndexText)
		}
	}
	if encodeIndex(position{2, 7}, position{1, 9}) != encodeIndex(position{1, 9}, position{2, 7}) {
		t.Error("the order of positions shows")
	}
	good := encodeIndex(position{0, 300})
	twice := encodeIndex(position{1, 1}, position{1, 2})
	for _, bad := range []string{"", "7", "=", good[:len(good)-1], "AgAB", "AQ", twice, encodeIndex(position{2, 1}), strings.Repeat("A", maxIndexText+1), good + "="} {
		if at, err := decodeIndex(bad, 2); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%q is %v, %v", bad, at, err)
		}
	}
}

// A search shows every write that was answered before it, by each way to ask for that, such as the write's
// position.
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
			got, err := c.Search(ctx, api.SearchRequest{SearchFilter: api.SearchFilter{Queue: "q"}}, read)
			if err != nil || got.Total != i+1 {
				t.Fatalf("%+v after %d writes: %d, %v", read, i+1, got.Total, err)
			}
		}
	}
}

// A read that waits in vain for a position answers VIEW_BEHIND.
func TestViewBehind(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *Config) { c.ReadWait = 10 * time.Millisecond })
	for _, path := range []string{"/api/v1/queues", "/api/v1/auth/keys"} {
		a := n.send("GET", path+"?min_index="+encodeIndex(position{0, n.cell.Applied() + 1000}), n.admin, "")
		p := a.problem(t)
		if a.status != 503 || p.Code != api.ViewBehind || p.Details["retryable"] != true {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
