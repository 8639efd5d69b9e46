package controlplane

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// measures makes the host report so many percent of use of its disk, and at most so many cells.
func (h *host) measures(percent int64, cells int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.room = &wire.Capacity{MaxCells: cells, DiskTotal: 100, DiskFree: 100 - percent, MaxDiskPercent: wire.DefaultMaxDiskPercent}
	h.nudge()
}

// A namespace is placed on a host with room. If there is none, its operation says what each host lacks, and goes on once
// a host has room.
func TestPlacementNeedsRoom(t *testing.T) {
	t.Parallel()
	p := startPlane(t, nil)
	one, two := p.startHost("one", keyring.Host), p.startHost("two", keyring.Host)
	_, admin := p.org("acme")
	c, ops, ctx := p.cloud(admin), p.cloud(p.operator), t.Context()
	one.measures(80, 1000)
	two.measures(10, 1)
	shows := func(name, full string) {
		t.Helper()
		until(t, name+" shows that it is full: "+full, func() bool {
			h, err := ops.Host(ctx, name)
			return err == nil && h.Status.Capacity != nil && h.Status.Full == full
		})
	}
	shows("one", "80 % of its disk is in use, and from 80 % on it gets no new namespace")
	shows("two", "")
	placed := p.namespace(c, "acme", "orders")
	if found, err := ops.Cluster(ctx, placed.ID); err != nil || found.Status.Members[0].HostName != "two" {
		t.Errorf("the namespace is on %+v, %v, want the host with room", found.Status.Members, err)
	}
	shows("two", "it has 1 of at most 1 cells")

	op, err := c.CreateNamespace(ctx, "acme", api.CreateNamespaceRequest{Name: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the operation says what the hosts lack", func() bool {
		o, err := c.Operation(ctx, op.ID)
		return err == nil && strings.HasPrefix(o.Message, "no host in region local has room: ") &&
			strings.Contains(o.Message, "80 % of its disk") && strings.Contains(o.Message, "1 of at most 1 cells")
	})
	one.measures(79, 1000)
	if op, err = c.WaitOperation(ctx, op.ID); err != nil || op.Status != api.OperationDone {
		t.Fatalf("with room again: %+v, %v", op, err)
	}
	shows("one", "")
}
