package cell

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// FreeDisk is how many bytes this process may still write to the disk the cell
// lies on. The error is errors.ErrUnsupported where the system does not tell.
func (c *Cell) FreeDisk() (int64, error) {
	free, err := freeDisk(c.cfg.Dir)
	if err != nil {
		return 0, fmt.Errorf("free space under %s: %w", c.cfg.Dir, err)
	}
	return free, nil
}

// DataBytes is the size of the cell's files, preallocated bytes included. It
// looks at every file.
func (c *Cell) DataBytes() (total int64, err error) {
	err = filepath.WalkDir(c.cfg.Dir, func(_ string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && d.Type().IsRegular() {
			info, err = d.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed since its directory was read, by a compaction or a trim
		case err != nil:
			return err
		case info != nil:
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("size of the data: %w", err)
	}
	return total, nil
}
