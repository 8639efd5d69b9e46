package fleet

// DefaultMaxDiskPercent is the default of Capacity.MaxDiskPercent.
const DefaultMaxDiskPercent = 80

// Capacity says which namespaces a host can take: its room for them, as the host measures it, and its feature level.
type Capacity struct {
	OpenCells int `json:"open_cells"` // one for each shard of an open namespace
	MaxCells  int `json:"max_cells"`  // the most that OpenCells may be; at least 1
	// DiskTotal is the number of bytes that the host may use on the disk of its data directory. DiskFree is
	// the number of those that are free. If the host cannot measure its disk, DiskTotal is 0 and the disk
	// sets no limit.
	DiskTotal int64 `json:"disk_total,omitempty"`
	DiskFree  int64 `json:"disk_free,omitempty"`
	// MaxDiskPercent is the use of the disk from which on the host gets no new namespace: 1 to 100. It may be 0 if
	// DiskTotal is 0.
	MaxDiskPercent int `json:"max_disk_percent,omitempty"`
	// Level is the highest feature level that the host's binary knows. The host can apply no entry of a group with a
	// higher one.
	Level uint32 `json:"level,omitempty"`
}

// DiskPercent returns the use of the disk in percent, rounded down; 0 if the host cannot measure its disk.
func (c Capacity) DiskPercent() int {
	if c.DiskTotal <= 0 {
		return 0
	}
	return int(float64(c.DiskTotal-c.DiskFree) / float64(c.DiskTotal) * 100)
}

// Valid reports whether all values are within their bounds. The control plane refuses a report if they are
// not.
func (c Capacity) Valid() bool {
	disk := c.DiskTotal == 0 && c.DiskFree == 0 || c.DiskFree >= 0 && c.DiskTotal >= c.DiskFree && c.MaxDiskPercent >= 1
	return c.OpenCells >= 0 && c.MaxCells >= 1 && disk && c.MaxDiskPercent >= 0 && c.MaxDiskPercent <= 100
}
