package state

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/raftlog/flushlag"
)

// A store's directory holds one Pebble store, db-N, and a marker file that names it. Restore writes db-N+1
// beside it and moves the marker once the new store is complete and durable, so a whole store exists at every
// moment. Open removes every db-N that the marker does not name, and every image-N, as left over from an
// earlier process.
const (
	currentMarker = "current"
	dbPrefix      = "db-"
	imagePrefix   = "image-"
)

// errClosed is returned by reads of a closed store.
var errClosed = errors.New("the store is closed")

// generation is one open Pebble store. A snapshot keeps its generation open even after Restore has replaced
// it.
type generation struct {
	db     *pebble.DB
	number uint64
	sums   sums // hashes of its tables
	lag    flushlag.Lag

	recentJobs, recentPayloads recent // its recently written records

	mu      sync.Mutex
	refs    int          // one of the Store, and one of each Snapshot, JobReader, and running Flush, Image, Verify or Held
	dropped func() error // set by Restore; removes the files after the last release
}

// recentBlob decodes a blob into b if memory holds it as of the entry asOf. Memory holds only payloads.
func (g *generation) recentBlob(id job.ID, kind job.BlobKind, asOf uint64, b *job.Blob) (found bool, err error) {
	if kind != job.Payload {
		return false, nil
	}
	return g.recentPayloads.load(id, asOf, b)
}

// release gives one reference back. The last release closes the Pebble store and calls the function of
// onLastRelease.
func (g *generation) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refs--
	if g.refs > 0 {
		return nil
	}
	err := g.db.Close()
	if g.dropped != nil {
		err = errors.Join(err, g.dropped())
	}
	return err
}

// held returns the number of references.
func (g *generation) held() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refs
}

// acquire references the current generation.
func (s *Store) acquire() (*generation, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	s.gen.mu.Lock()
	s.gen.refs++
	s.gen.mu.Unlock()
	return s.gen, nil
}

func (s *Store) dbDir(number uint64) string {
	return s.fs.PathJoin(s.dir, fmt.Sprintf("%s%06d", dbPrefix, number))
}

// openCurrent opens the generation that the marker names, or creates the first one, and removes the leftovers
// of Restore and Image.
func (s *Store) openCurrent() (*generation, error) {
	if err := makeDir(s.fs, s.dir); err != nil {
		return nil, err
	}
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, err
	}
	marker, current, err := atomicfs.LocateMarkerInListing(s.fs, s.dir, currentMarker, names)
	if err != nil {
		return nil, err
	}
	defer marker.Close()
	for _, name := range names {
		leftover := strings.HasPrefix(name, dbPrefix) || strings.HasPrefix(name, imagePrefix)
		if leftover && name != current {
			if err := s.fs.RemoveAll(s.fs.PathJoin(s.dir, name)); err != nil {
				return nil, err
			}
		}
	}
	if current == "" {
		gen, err := s.openGeneration(1, false)
		if err != nil {
			return nil, err
		}
		if err := s.moveMarker(1); err != nil {
			return nil, errors.Join(err, gen.db.Close())
		}
		return gen, nil
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(current, dbPrefix), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the marker names %q: %w", current, err)
	}
	return s.openGeneration(number, true)
}

// openGeneration opens a Pebble store. A store that must exist is never created, because an empty store in
// the place of a lost one would silently forget everything.
func (s *Store) openGeneration(number uint64, mustExist bool) (*generation, error) {
	o := s.pebbleOptions()
	o.ErrorIfNotExists = mustExist
	g := &generation{number: number, refs: 1}
	g.lag.Listen(o.EventListener)
	var err error
	g.db, err = pebble.Open(s.dbDir(number), o)
	switch {
	case err != nil && mustExist && damaged(err):
		return nil, fmt.Errorf("%s is damaged (%w): nothing was changed. Put back what is missing, or rebuild this replica in an empty directory, from the other members or a backup", s.dbDir(number), err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.dbDir(number), err)
	}
	return g, nil
}

// damaged reports whether an error of opening means that data is lost or corrupt, so that trying again cannot
// help.
func damaged(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, pebble.ErrDBDoesNotExist) || errors.Is(err, fs.ErrNotExist)
}

// moveMarker durably makes a generation the current one.
func (s *Store) moveMarker(number uint64) error {
	marker, _, err := atomicfs.LocateMarker(s.fs, s.dir, currentMarker)
	if err != nil {
		return err
	}
	return errors.Join(marker.Move(s.fs.PathBase(s.dbDir(number))), marker.Close())
}

// makeDir creates a directory and its missing parents and syncs each name, because a crash must not lose a
// store that has acknowledged a flush.
func makeDir(fs vfs.FS, dir string) error {
	var missing []string
	for d := dir; ; d = fs.PathDir(d) {
		if _, err := fs.Stat(d); err == nil || d == fs.PathDir(d) {
			break
		}
		missing = append(missing, d)
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range missing {
		if err := syncDir(fs, fs.PathDir(d)); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// onLastRelease registers a function that runs when the last reference is released and the Pebble store is
// closed.
func (g *generation) onLastRelease(done func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropped = done
}
