package agent

import (
	"errors"
	"testing"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/durable"
)

// TestTheHostReportsItsRoom checks that a report has the open cells with their bound and the size of the disk, with the
// default bound on its use.
func TestTheHostReportsItsRoom(t *testing.T) {
	t.Parallel()
	a := openAgent(t, t.TempDir(), fleettest.New(t))
	if err := a.applyDoc(doc(1, "ns_a", fleet.Open, 1)); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "the namespace is open", func() bool { return a.stateOf("ns_a") == fleet.Opened })
	c := a.report().Capacity
	if c == nil || !c.Valid() || c.OpenCells != 1 || c.MaxCells != host.DefaultMaxCells || c.MaxDiskPercent != fleet.DefaultMaxDiskPercent || c.Level != op.FeatureLevel {
		t.Fatalf("the report has %+v", c)
	}
	if _, _, err := durable.Space(a.cfg.DataDir); !errors.Is(err, errors.ErrUnsupported) && c.DiskTotal == 0 {
		t.Errorf("the disk is not measured: %+v", c)
	}
	fleettest.Eventually(t, "the report has the level of the group", func() bool { return a.report().Cells[0].Groups[0].Level == op.FeatureLevel })
	a.cfg.MaxDiskPercent = 95
	if c := a.report().Capacity; c.MaxDiskPercent != 95 {
		t.Errorf("the bound is %d, want 95", c.MaxDiskPercent)
	}
}
