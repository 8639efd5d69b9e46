package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/engine/entry"
)

// The stream of an image, integers little-endian:
//
//	magic    8 bytes
//	head     length 4, Head, crc 4
//	file     'F', name length 2, size 8, name, crc 4; the bytes, crc 4
//	...      as many files as there are, by name
//	trailer  'E', number of files 4, bytes of all files 8, crc 4
//
// A crc is CRC-32C of all since the last one. The trailer tells the end from a
// stream that was cut between two files.
const imageMagic = "CORVOIM1"

const (
	tagFile    = 'F'
	tagTrailer = 'E'

	maxImageName = 255
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Image is a copy of the store on disk (a Pebble checkpoint: hard links) as of
// some applied entry, to be streamed to a replica that needs it. It must be
// closed, and before the store is opened again. It outlives the store and any
// Restore.
type Image struct {
	fs            vfs.FS
	dir           string
	files         []imageFile
	head          *Head
	configuration *configuration
}

type imageFile struct {
	name string
	size int64
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
	dir := s.fs.PathJoin(s.dir, fmt.Sprintf("%s%06d", imagePrefix, s.images.Add(1)))
	if err := gen.db.Checkpoint(dir); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	i := &Image{fs: s.fs, dir: dir}
	if err := i.load(s.pebbleOptions()); err != nil {
		return nil, errors.Join(fmt.Errorf("image: %w", err), i.Close())
	}
	return i, nil
}

// load lists the image's files and reads how far it is from the image itself,
// which also shows that it can be opened.
func (i *Image) load(o *pebble.Options) (err error) {
	names, err := i.fs.List(i.dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		info, err := i.fs.Stat(i.fs.PathJoin(i.dir, name))
		if err != nil {
			return err
		}
		i.files = append(i.files, imageFile{name, info.Size()})
	}
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

// Close removes the copy.
func (i *Image) Close() error { return i.fs.RemoveAll(i.dir) }

// WriteTo streams the image, see imageMagic. It may be called more than once.
func (i *Image) WriteTo(w io.Writer) (int64, error) {
	s := &imageWriter{w: w, crc: crc32.New(castagnoli)}
	head, err := i.head.MarshalVT()
	if err != nil {
		return 0, fmt.Errorf("image: %w", err)
	}
	s.write([]byte(imageMagic))
	s.write(binary.LittleEndian.AppendUint32(nil, uint32(len(head))))
	s.write(head)
	s.sum()
	total := int64(0)
	for _, file := range i.files {
		b := binary.LittleEndian.AppendUint16([]byte{tagFile}, uint16(len(file.name)))
		b = binary.LittleEndian.AppendUint64(b, uint64(file.size))
		s.write(append(b, file.name...))
		s.sum()
		s.copy(i, file)
		s.sum()
		total += file.size
	}
	b := binary.LittleEndian.AppendUint32([]byte{tagTrailer}, uint32(len(i.files)))
	s.write(binary.LittleEndian.AppendUint64(b, uint64(total)))
	s.sum()
	if s.err != nil {
		return s.n, fmt.Errorf("write the image of entry %d: %w", i.head.Index, s.err)
	}
	return s.n, nil
}

// imageWriter writes and sums; after the first error it does nothing.
type imageWriter struct {
	w   io.Writer
	crc hash.Hash32
	n   int64
	err error
}

// Write makes the writer an io.Writer for copy.
func (s *imageWriter) Write(b []byte) (int, error) {
	s.write(b)
	if s.err != nil {
		return 0, s.err
	}
	return len(b), nil
}

func (s *imageWriter) write(b []byte) {
	if s.err != nil {
		return
	}
	s.crc.Write(b)
	n, err := s.w.Write(b)
	s.n += int64(n)
	s.err = err
}

// sum writes the checksum of all since the last one.
func (s *imageWriter) sum() {
	b := binary.LittleEndian.AppendUint32(nil, s.crc.Sum32())
	s.write(b)
	s.crc.Reset()
}

func (s *imageWriter) copy(i *Image, file imageFile) {
	if s.err != nil {
		return
	}
	f, err := i.fs.Open(i.fs.PathJoin(i.dir, file.name), vfs.SequentialReadsOption)
	if err != nil {
		s.err = err
		return
	}
	_, err = io.CopyN(s, f, file.size)
	s.err = errors.Join(s.err, err, f.Close())
}
