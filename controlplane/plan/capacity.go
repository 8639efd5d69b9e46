package plan

import (
	"fmt"
	"strings"
)

// maxNamed is the greatest number of full hosts that allFull names.
const maxNamed = 3

// Full returns, for people, why a host has no room for the given number of further cells. It returns "" if
// the host has room or its capacity is not known.
func Full(h Host, cells int) string {
	c := h.Capacity
	switch {
	case c.MaxCells > 0 && h.Cells+cells > c.MaxCells:
		return fmt.Sprintf("it has %d of at most %d cells", h.Cells, c.MaxCells)
	case c.DiskTotal > 0 && c.DiskPercent() >= c.MaxDiskPercent:
		return fmt.Sprintf("%d %% of its disk is in use, and from %d %% on it gets no new namespace", c.DiskPercent(), c.MaxDiskPercent)
	}
	return ""
}

// allFull returns the reason to wait if no living host of a region has room. full has the reason of each of
// these hosts.
func allFull(region string, full []string) string {
	text := strings.Join(full[:min(len(full), maxNamed)], "; ")
	if more := len(full) - maxNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Sprintf("no host in region %s has room: %s: start another host there, or make room", region, text)
}
