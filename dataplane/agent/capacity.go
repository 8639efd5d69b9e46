package agent

import (
	"cmp"
	"errors"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/durable"
)

// capacity measures the host's room for namespaces, and adds its feature level. If the disk cannot be measured, its sizes are 0 and bound
// nothing. Of several failures in a row only the first is logged, and none if the system does not support the
// measurement.
func (a *Agent) capacity() *fleet.Capacity {
	c := &fleet.Capacity{MaxDiskPercent: cmp.Or(a.cfg.MaxDiskPercent, fleet.DefaultMaxDiskPercent), Level: op.FeatureLevel}
	c.OpenCells, c.MaxCells = a.host.OpenCells()
	free, total, err := durable.Space(a.cfg.DataDir)
	switch {
	case err == nil:
		c.DiskFree, c.DiskTotal = free, total
	case !errors.Is(err, errors.ErrUnsupported) && !a.diskUnknown.Load():
		a.cfg.Logger.Warn("the host cannot measure its disk, and reports no size of it", "error", err)
	}
	a.diskUnknown.Store(err != nil)
	return c
}
