package host

// OpenCells returns the number of cells that are open, one for each shard of an open namespace, and the bound on it.
func (h *Host) OpenCells() (open, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.cells {
		open += len(t.cells)
	}
	return open, h.cfg.MaxCells
}
