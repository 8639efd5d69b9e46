package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
)

// A state directory holds one current database, state-<n>.db, which the file CURRENT names. A restored state
// is a new file, complete and durable before CURRENT names it. A crash therefore leaves either the old state
// or the new one. When the directory is opened, any other file with one of these prefixes is left over from
// an interrupted operation, except SQLite's own files of the current database.
const (
	currentName = "CURRENT"
	statePrefix = "state-"
	imagePrefix = "image-"
)

// directory is an open state directory.
type directory struct {
	path   string
	lock   io.Closer
	name   string       // of the current database
	number int          // of the current database
	images atomic.Int64 // created so far
}

// inUse converts the error of a lock for callers.
func inUse(path string, err error) error {
	if errors.Is(err, durable.ErrInUse) {
		return api.Errorf(api.Conflict, "the state in %s is %w", path, durable.ErrInUse)
	}
	return fmt.Errorf("the state in %s: %w", path, err)
}

// openDirectory locks the directory. It creates a missing directory with an empty state. Only its owner may
// read it, because the state holds signing keys.
func openDirectory(path string) (_ *directory, err error) {
	if err := durable.MakeDir(path, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return nil, err
	}
	d := &directory{path: path}
	if d.lock, err = durable.Lock(path); err != nil {
		return nil, inUse(path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	text, err := os.ReadFile(d.in(currentName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = d.found()
	case err == nil:
		err = d.read(string(text))
	}
	if err != nil {
		return nil, err
	}
	return d, d.sweep()
}

// found creates an empty state in a directory that has none. A single state without CURRENT becomes the
// current one: either its creation was interrupted or CURRENT was lost. found refuses to choose among several
// states.
func (d *directory) found() error {
	names, err := filepath.Glob(d.in(statePrefix + "*.db"))
	if err != nil {
		return err
	}
	switch len(names) {
	case 0:
	case 1:
		if err := d.read(filepath.Base(names[0]) + "\n"); err != nil {
			return err
		}
		return d.point(d.number)
	default:
		return unhealthy("%s holds %d states but no %s: put that file back, or restore from a backup", d.path, len(names), currentName)
	}
	unfinished := d.in(imagePrefix + "new.db")
	if err := createDatabase(unfinished); err != nil {
		return err
	}
	if err := os.Rename(unfinished, d.in(stateName(1))); err != nil {
		return err
	}
	return d.point(1)
}

func (d *directory) read(text string) error {
	if _, err := fmt.Sscanf(text, statePrefix+"%d.db\n", &d.number); err != nil || text != stateName(d.number)+"\n" {
		return unhealthy("%s is damaged: put it back from a backup", d.in(currentName))
	}
	d.name = stateName(d.number)
	// A missing file must not lead to a new, empty state.
	if _, err := os.Stat(d.current()); err != nil {
		return unhealthy("%s names a state that is not there (%v): put it back, or restore from a backup", d.in(currentName), err)
	}
	return nil
}

// sweep removes the states and images that do not belong to the current state.
func (d *directory) sweep() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		ours := strings.HasPrefix(name, statePrefix) || strings.HasPrefix(name, imagePrefix)
		if !ours || strings.HasPrefix(name, d.name) {
			continue
		}
		if err := os.Remove(d.in(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// point makes the numbered state the current one, durably.
func (d *directory) point(number int) error {
	if err := durable.SyncDir(d.path); err != nil {
		return err
	}
	if err := durable.WriteFile(d.in(currentName), []byte(stateName(number)+"\n"), 0o600); err != nil {
		return err
	}
	d.number, d.name = number, stateName(number)
	return nil
}

// newImage returns the path of a new image.
func (d *directory) newImage() string {
	return d.in(fmt.Sprintf("%s%06d.db", imagePrefix, d.images.Add(1)))
}

func (d *directory) current() string       { return d.in(d.name) }
func (d *directory) in(name string) string { return filepath.Join(d.path, name) }
func (d *directory) close() error          { return d.lock.Close() }
func stateName(number int) string          { return fmt.Sprintf("%s%06d.db", statePrefix, number) }
