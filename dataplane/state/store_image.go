package state

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// Image is a copy of the store on disk (a Pebble checkpoint: hard links) as of some applied entry; its parts
// are the checkpoint's files. It stays readable after Close of the store and after a Restore. The caller must
// close it before the store is opened again, because Open removes all images.
type Image struct {
	fs            vfs.FS
	dir           string
	parts         []image.Part
	head          *Head
	configuration *configuration
	failed        func(error) error // called with the error when a file has changed
}

// immutable reports whether a file of a store is a table: Pebble writes it once and, while the store is open,
// never uses its name again. All other files (manifest, options, markers) are small, and Pebble may write to
// them.
func immutable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// sums remembers the hashes of a generation's tables, so that an image of a large store reads only the tables
// that are new since the last image or restore.
//
// A remembered hash is valid for three reasons: an open Pebble store never reuses a file number; only the
// complete files of a checkpoint or of a restored image are hashed; and the memory ends with the generation,
// because a store opened after a crash may reuse a number that it had not recorded. If the disk changes a
// file nevertheless, its reader finds out (see Image.Open), and so does its receiver.
type sums struct {
	mu    sync.Mutex
	known map[string]image.Part
}

func (s *sums) get(name string, size int64) (image.Part, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.known[name]
	return p, ok && p.Size == size
}

// set keeps the hashes of the tables among the parts and forgets all others.
func (s *sums) set(parts []image.Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = make(map[string]image.Part, len(parts))
	for _, p := range parts {
		if immutable(p.Name) {
			s.known[p.Name] = p
		}
	}
}

// Image copies the store, including everything that was committed before the call. It may run beside apply
// and does not delay it.
func (s *Store) Image() (_ *Image, err error) {
	gen, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gen.release()) }()
	// A checkpoint links the existing files. Pebble's own log is off, so data in memory is in no file until
	// the flush. Commits between the flush and the checkpoint may or may not be in the copy; the copy's own
	// head says its position.
	if err := s.flush(gen); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	i := &Image{fs: s.fs, dir: s.fs.PathJoin(s.dir, fmt.Sprintf("%s%06d", imagePrefix, s.images.Add(1))), failed: s.failure.set}
	if err := gen.db.Checkpoint(i.dir); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	err = i.list(s.tableChecker(), &gen.sums)
	if err == nil {
		err = i.load(s.pebbleOptions())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image: %w", err), i.Close())
	}
	return i, nil
}

// list makes the checkpoint's files the image's parts. A table that is hashed for the first time is checked,
// so that damage is never sent on with a valid hash.
func (i *Image) list(check *tableChecker, known *sums) error {
	names, err := i.fs.List(i.dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		path := i.fs.PathJoin(i.dir, name)
		info, err := i.fs.Stat(path)
		if err != nil {
			return err
		}
		p, ok := known.get(name, info.Size())
		if !ok {
			if p, err = hashFile(i.fs, path); err != nil {
				return err
			}
			if err := check.table(path); err != nil {
				return i.failed(err)
			}
		}
		i.parts = append(i.parts, p)
	}
	known.set(i.parts)
	return nil
}

func hashFile(fs vfs.FS, path string) (image.Part, error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return image.Part{}, err
	}
	p, err := image.Sum(fs.PathBase(path), f)
	return p, errors.Join(err, f.Close())
}

// load reads the image's position and membership from the image itself, which also proves that it can be
// opened.
func (i *Image) load(o *pebble.Options) error {
	o.ReadOnly, o.ErrorIfNotExists = true, true
	db, err := pebble.Open(i.dir, o)
	if err != nil {
		return err
	}
	i.head = newHead()
	if _, err = get(db, headKey(), i.head); err == nil {
		i.configuration, err = loadConfiguration(db)
	}
	return errors.Join(err, db.Close())
}

// Applied returns the position of the last entry in the image.
func (i *Image) Applied() entry.Applied { return i.head.applied() }

// Configuration returns the membership recorded in the image and the index of its entry, or nil and 0 if
// there is none.
func (i *Image) Configuration() (encoded []byte, index uint64) { return i.configuration.get() }

// Parts returns the files of the image. The caller must not change the list.
func (i *Image) Parts() []image.Part { return i.parts }

// Open opens a part of the image for reading. If the file has changed, the disk cannot be trusted: the read
// returns an error and the store fails.
func (i *Image) Open(name string) (io.ReadCloser, error) {
	at := slices.IndexFunc(i.parts, func(p image.Part) bool { return p.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("the image of entry %d has no part %q", i.head.Index, name)
	}
	f, err := i.fs.Open(i.fs.PathJoin(i.dir, name), vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	return &partReader{Reader: image.Verify(i.parts[at], f), Closer: f, failed: i.failed}, nil
}

type partReader struct {
	io.Reader
	io.Closer
	failed func(error) error
}

func (r *partReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if errors.Is(err, image.ErrDiffers) {
		err = r.failed(fmt.Errorf("store on disk has changed by itself: %w", err))
	}
	return n, err
}

// Path returns the path of a table of the image. It returns "" for files that Pebble writes to, and for a
// store that is not on this machine's disk.
func (i *Image) Path(name string) string {
	if !immutable(name) || !onDisk(i.fs) {
		return ""
	}
	return filepath.Join(i.dir, name)
}

// onDisk reports whether paths of fs are paths of the operating system.
func onDisk(fs vfs.FS) bool { return fs == vfs.Default }

// Close removes the copy.
func (i *Image) Close() error { return i.fs.RemoveAll(i.dir) }

var _ image.Located = (*Image)(nil)
