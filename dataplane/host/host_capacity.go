package host

// OpenCells returns the number of open cells and MaxCells, the bound on that number. An open namespace has
// one cell for each shard.
func (h *Host) OpenCells() (open, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.cells {
		open += len(t.cells)
	}
	return open, h.cfg.MaxCells
}
