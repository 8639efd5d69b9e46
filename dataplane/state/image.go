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

// Image is a copy of the store on disk (a Pebble checkpoint: hard links) as of
// some applied entry; its parts are the checkpoint's files. It must be closed,
// and before the store is opened again. It outlives the store and any Restore.
type Image struct {
	fs            vfs.FS
	dir           string
	parts         []image.Part
	head          *Head
	configuration *configuration
	failed        func(error) error // what to do where a file has changed
}

// immutable says whether a file of a store is a table: written once, under a name
// that is not given again. All others (manifest, options, markers) are small, and
// Pebble may write to them.
func immutable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// sums remembers the hashes of a generation's tables, so that an image of a large
// store reads only what is new since the last one.
//
// A hash that is remembered is that of the file, because an open Pebble store
// gives no file number twice; because only files of a checkpoint are hashed, which
// are complete; and because the memory ends with the generation: a store opened
// after a crash may use a number again that it had not recorded. Should the disk
// change a file nevertheless, whoever reads it from an image finds out (see
// Image.Open), and so does whoever gets it.
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

// set forgets all but the tables among the parts.
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

// Image copies the store, everything included that was committed before the
// call. It may be called beside apply and does not hold it up.
func (s *Store) Image() (_ *Image, err error) {
	gen, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gen.release()) }()
	// A checkpoint links the files there are, and without Pebble's log what is
	// in memory is in none: hence the flush. Commits between it and the
	// checkpoint may be in or not; the copy itself says how far it is.
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

// list makes the checkpoint's files the image's parts. A table that is hashed for
// the first time is looked through, so that no damage is handed on with a hash
// that vouches for it.
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

// load reads how far the image is from the image itself, which also shows that it
// can be opened.
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

// Applied is the last entry in the image.
func (i *Image) Applied() entry.Applied { return i.head.applied() }

// Configuration is the membership recorded in the image and its index; nil for
// none.
func (i *Image) Configuration() (encoded []byte, index uint64) { return i.configuration.get() }

// Parts are the files of the image.
func (i *Image) Parts() []image.Part { return i.parts }

// Open reads a file of the image. One that is no longer what it was is a disk
// that cannot be trusted: reading it ends in an error, and the store fails.
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

// Path is where a table of the image lies; "" for the files that Pebble writes to,
// and where the store is not on this machine's disk.
func (i *Image) Path(name string) string {
	if !immutable(name) || !onDisk(i.fs) {
		return ""
	}
	return filepath.Join(i.dir, name)
}

// onDisk says whether paths of fs mean the same to everybody.
func onDisk(fs vfs.FS) bool { return fs == vfs.Default }

// Close removes the copy.
func (i *Image) Close() error { return i.fs.RemoveAll(i.dir) }

var _ image.Located = (*Image)(nil)
