package fleet

// DefaultMaxDiskPercent is the use of its disk from which on a host gets no new namespace.
const DefaultMaxDiskPercent = 80

// Capacity is the room of a host for namespaces, as the host measures it.
type Capacity struct {
	OpenCells int `json:"open_cells"` // one for each shard of an open namespace
	MaxCells  int `json:"max_cells"`
	// Bytes of the disk with the host's data directory that the host may use in all, and that are free of them. A total
	// of 0 means that the host cannot measure its disk, so that the disk bounds nothing.
	DiskTotal      int64 `json:"disk_total,omitempty"`
	DiskFree       int64 `json:"disk_free,omitempty"`
	MaxDiskPercent int   `json:"max_disk_percent,omitempty"` // from this use on the host gets no new namespace
}

// DiskPercent returns the use of the disk in percent, rounded down; 0 if it is not known.
func (c Capacity) DiskPercent() int {
	if c.DiskTotal <= 0 {
		return 0
	}
	return int(float64(c.DiskTotal-c.DiskFree) / float64(c.DiskTotal) * 100)
}

// Valid reports whether a host can have this capacity.
func (c Capacity) Valid() bool {
	return c.OpenCells >= 0 && c.MaxCells > 0 && c.DiskFree >= 0 && c.DiskTotal >= c.DiskFree && c.MaxDiskPercent >= 0 && c.MaxDiskPercent <= 100
}
