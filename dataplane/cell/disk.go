package cell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
)

// How long a cell may take to open while the disk is full.
const (
	fullEvery = 500 * time.Millisecond
	fullLimit = 10 * time.Second
	// fullSpace is the free space, in bytes, below which the disk counts as full.
	fullSpace = 1 << 20
)

// FreeDisk is how many bytes this process may still write to the disk the cell
// lies on. The error is errors.ErrUnsupported where the system does not tell.
func (c *Cell) FreeDisk() (int64, error) {
	// FreeSpace looks above a directory that is missing; an open cell must have its own.
	if _, err := os.Stat(c.cfg.Dir); err != nil {
		return 0, err
	}
	return durable.FreeSpace(c.cfg.Dir)
}

// Open opens the cell in cfg.Dir, creating it as the sole member of a new group
// where there is none. When it returns without an error the cell is being
// elected; Ready waits for that. On a full disk it is refused, also if the disk
// gets full meanwhile: the store would try to write for ever.
func Open(cfg Config) (*Cell, error) {
	if err := engine.CheckSpace(cfg.Dir); err != nil {
		return nil, err
	}
	return unlessFull(cfg.Dir, func() (*Cell, error) { return open(cfg) })
}

// unlessFull gives an opening up once the disk has been full for fullLimit. An
// opening that ends after that is undone.
func unlessFull(dir string, open func() (*Cell, error)) (*Cell, error) {
	type outcome struct {
		cell *Cell
		err  error
	}
	opened := make(chan outcome, 1)
	go func() {
		c, err := open()
		opened <- outcome{c, err}
	}()
	look := time.NewTicker(fullEvery)
	defer look.Stop()
	var since time.Time
	for {
		select {
		case o := <-opened:
			return o.cell, durable.Explain(o.err, dir)
		case now := <-look.C:
			switch free, err := durable.FreeSpace(dir); {
			case err != nil || free >= fullSpace:
				since = time.Time{}
			case since.IsZero():
				since = now
			case now.Sub(since) >= fullLimit:
				go func() {
					if o := <-opened; o.err == nil {
						_ = o.cell.Close(context.Background()) // nobody has written to it
					}
				}()
				return nil, api.Errorf(api.Unhealthy, "%w: the data under %s could not be opened in %v; make room and start again", durable.ErrFull, dir, fullLimit)
			}
		}
	}
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
