package plan

import "fmt"

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
