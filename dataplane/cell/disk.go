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

// These constants bound the opening of a cell while the disk is full.
const (
	fullCheckInterval = 500 * time.Millisecond
	fullLimit         = 10 * time.Second
	// fullSpace is the free space, in bytes, below which the disk counts as full.
	fullSpace = 1 << 20
)

// FreeDisk returns the bytes that this process may still write to the cell's disk. The error is
// errors.ErrUnsupported if the system does not report it.
func (c *Cell) FreeDisk() (int64, error) {
	// FreeSpace looks above a directory that is missing; an open cell must have its own.
	if _, err := os.Stat(c.cfg.Dir); err != nil {
		return 0, err
	}
	return durable.FreeSpace(c.cfg.Dir)
}

// Open opens the cell in cfg.Dir. If necessary, it creates the cell, as the only member of a new group or,
// with cfg.Join, as a future member of an existing one. When Open returns, the group may have no leader yet;
// Ready waits until the cell takes writes. Open refuses a full disk, and a disk that becomes full during the
// opening, because the store would retry its writes for ever.
func Open(cfg Config) (*Cell, error) {
	if err := engine.CheckSpace(cfg.Dir); err != nil {
		return nil, err
	}
	return unlessFull(cfg, open, durable.FreeSpace)
}

// unlessFull gives up an opening after the disk has been full for fullLimit. If the opening completes after
// that, unlessFull closes the cell. It logs the errors of a late opening, because its caller has returned.
func unlessFull[C interface{ Close(context.Context) error }](cfg Config, open func(Config) (C, error), freeSpace func(dir string) (int64, error)) (C, error) {
	type outcome struct {
		cell C
		err  error
	}
	opened := make(chan outcome, 1)
	go func() {
		c, err := open(cfg)
		opened <- outcome{c, err}
	}()
	look := time.NewTicker(fullCheckInterval)
	defer look.Stop()
	var since time.Time
	for {
		select {
		case o := <-opened:
			return o.cell, durable.Explain(o.err, cfg.Dir)
		case now := <-look.C:
			switch free, err := freeSpace(cfg.Dir); {
			case err != nil || free >= fullSpace:
				since = time.Time{}
			case since.IsZero():
				since = now
			case now.Sub(since) >= fullLimit:
				go func() {
					o := <-opened
					if o.err == nil {
						o.err = o.cell.Close(context.Background()) // no request has used it
					}
					if o.err != nil {
						cfg.Logger.Error("a cell failed after its opening was given up on a full disk", "group", cfg.Group, "error", o.err)
					}
				}()
				var none C
				return none, api.Errorf(api.Unhealthy, "%w: the data under %s could not be opened in %v; make room and start again", durable.ErrFull, cfg.Dir, fullLimit)
			}
		}
	}
}

// DataBytes returns the size of the cell's files, preallocated bytes included. It reads the size of every
// file.
func (c *Cell) DataBytes() (total int64, err error) {
	err = filepath.WalkDir(c.cfg.Dir, func(_ string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && d.Type().IsRegular() {
			info, err = d.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed in the meantime, by a compaction or a truncation
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
