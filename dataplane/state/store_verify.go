package state

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/engine/entry"
)

// Report describes a run of Verify.
type Report struct {
	Applied entry.Applied // last entry of the image that was read
	Tables  int
	Bytes   int64 // size of the tables
}

// Verify reads the whole store on disk. It checks the checksum of every block of every table, the order of
// the tables, and each derived key and counter (see Snapshot.Check). The error is the first damage found, or
// ctx's error if ctx ends before the last step, Check. A damaged table makes the store fail; see Err. After
// an error the Report covers the tables read before. Verify may run beside apply and holds an image while it
// runs.
func (s *Store) Verify(ctx context.Context) (_ Report, err error) {
	i, err := s.Image()
	if err != nil {
		return Report{}, fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	report := Report{Applied: i.Applied()}
	check := s.tableChecker()
	for _, p := range i.parts {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		if !immutable(p.Name) {
			continue
		}
		// Each table is read even if Image has just listed it, because Image does not read a table that it
		// knows.
		if err := check.table(i.fs.PathJoin(i.dir, p.Name)); err != nil {
			return report, s.failure.set(err)
		}
		report.Tables++
		report.Bytes += p.Size
	}
	return report, s.verifyContent(ctx)
}

func (s *Store) verifyContent(ctx context.Context) error {
	gen, err := s.acquire()
	if err != nil {
		return err
	}
	if err := errors.Join(gen.db.CheckLevels(nil), gen.release()); err != nil {
		return s.failure.set(fmt.Errorf("store on disk is corrupt: %w", err))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	v := s.Snapshot()
	return errors.Join(v.Check(), v.Close())
}

// tableChecker reads tables without any cache.
type tableChecker struct {
	fs      vfs.FS
	options sstable.ReaderOptions
}

func (s *Store) tableChecker() *tableChecker {
	o := s.pebbleOptions()
	o.EnsureDefaults()
	return &tableChecker{fs: s.fs, options: o.MakeReaderOptions()}
}

// table checks all blocks of the table at path. It ignores other files.
func (c *tableChecker) table(path string) (err error) {
	if !strings.HasSuffix(path, ".sst") {
		return nil
	}
	f, err := c.fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, c.options)
	if err != nil {
		return errors.Join(corrupt(path, err), readable.Close())
	}
	if err := errors.Join(r.ValidateBlockChecksums(), r.Close()); err != nil {
		return corrupt(path, err)
	}
	return nil
}

// corrupt turns an error of reading a table into one that tells damage from a failing disk.
func corrupt(path string, err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("store on disk is corrupt: %s: %w", path, err)
	}
	return fmt.Errorf("store on disk cannot be read: %s: %w", path, err)
}
