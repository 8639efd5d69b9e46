package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Restore replaces the whole content by an image and makes it durable before it
// returns. It is called by the applying goroutine, with no Tx open. A stream
// that is cut or corrupt is refused and leaves everything as it was; so does a
// crash at any moment, until the new content is whole. An error after that
// point makes the store fail, see Err. Readers see the new content as soon as
// Restore has it; a Snapshot keeps the old.
func (s *Store) Restore(r io.Reader) error {
	if err := s.usable(); err != nil {
		return err
	}
	old := s.gen
	number := old.number + 1
	dir := s.dbDir(number)
	gen, c, err := s.receive(r, number)
	if err != nil {
		return errors.Join(fmt.Errorf("restore: %w", err), s.fs.RemoveAll(dir))
	}
	if err := s.moveMarker(number); err != nil {
		// Whether the marker points to the old content or to the new one after
		// a crash is unknown, so neither may be written any more.
		return s.failure.set(errors.Join(fmt.Errorf("restore: %w", err), gen.release()))
	}
	s.publish.Lock()
	s.mu.Lock()
	s.install(gen, c)
	s.mu.Unlock()
	s.publish.Unlock()
	s.tx = Tx{}
	old.onLastRelease(func() error { return s.fs.RemoveAll(s.dbDir(old.number)) })
	err = old.release()
	if err == nil {
		err = s.announce()
	}
	if err != nil {
		return s.failure.set(fmt.Errorf("after a restore: %w", err))
	}
	return nil
}

// receive writes an image to disk and opens it.
func (s *Store) receive(r io.Reader, number uint64) (*generation, *caches, error) {
	dir := s.dbDir(number)
	if err := s.fs.RemoveAll(dir); err != nil {
		return nil, nil, err
	}
	if err := s.fs.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	in := &imageReader{fs: s.fs, dir: dir, r: r, crc: crc32.New(castagnoli)}
	announced, err := in.readAll()
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(syncDir(s.fs, dir), syncDir(s.fs, s.dir)); err != nil {
		return nil, nil, err
	}
	gen, err := s.openGeneration(number, true)
	if err != nil {
		return nil, nil, err
	}
	c, err := loadCaches(gen.db)
	if err == nil && c.head.applied() != announced.applied() {
		err = fmt.Errorf("the image holds entry %d and announced %d", c.head.Index, announced.Index)
	}
	if err != nil {
		return nil, nil, errors.Join(err, gen.release())
	}
	return gen, c, nil
}

// announce calls the hooks for all there is now.
func (s *Store) announce() error {
	for _, q := range s.queues {
		if n := q.fetchable(); n > 0 && s.hooks.OnReady != nil {
			s.hooks.OnReady(q.rec.Name, n)
		}
	}
	for class := TimerScheduled; class < timerClasses; class++ {
		due, ok, err := s.NextDue(class)
		if err != nil {
			return err
		}
		if ok && s.hooks.OnTimer != nil {
			s.hooks.OnTimer(class, due)
		}
	}
	if s.hooks.OnFeed != nil {
		s.hooks.OnFeed()
	}
	if s.hooks.OnUsage != nil {
		s.hooks.OnUsage()
	}
	return nil
}

// imageReader reads what Image.WriteTo wrote.
type imageReader struct {
	fs  vfs.FS
	dir string
	r   io.Reader
	crc hash.Hash32
}

// maxImageHead bounds what a corrupt length can make us allocate.
const maxImageHead = 1 << 16

// readAll writes the image's files and returns the head it announced.
func (in *imageReader) readAll() (*Head, error) {
	magic, err := in.read(len(imageMagic) + 4)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(magic[len(imageMagic):])
	if string(magic[:len(imageMagic)]) != imageMagic || size > maxImageHead {
		return nil, errors.New("the stream is not an image")
	}
	encoded, err := in.read(int(size))
	if err != nil {
		return nil, err
	}
	if err := in.sum("the head"); err != nil {
		return nil, err
	}
	head := &Head{}
	if err := head.UnmarshalVT(encoded); err != nil {
		return nil, fmt.Errorf("the image's head: %w", err)
	}
	files, total := uint32(0), uint64(0)
	for {
		tag, err := in.read(1)
		if err != nil {
			return nil, err
		}
		switch tag[0] {
		case tagFile:
			size, err := in.file()
			if err != nil {
				return nil, err
			}
			files++
			total += size
		case tagTrailer:
			return head, in.trailer(files, total)
		default:
			return nil, fmt.Errorf("the image has a record of unknown kind %#x", tag[0])
		}
	}
}

func (in *imageReader) trailer(files uint32, total uint64) error {
	b, err := in.read(12)
	if err != nil {
		return err
	}
	if err := in.sum("the trailer"); err != nil {
		return err
	}
	if f, t := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]); f != files || t != total {
		return fmt.Errorf("the image says it has %d files of %d bytes, it had %d of %d", f, t, files, total)
	}
	return nil
}

// file reads one file to disk, durably.
func (in *imageReader) file() (size uint64, err error) {
	b, err := in.read(10)
	if err != nil {
		return 0, err
	}
	nameLen := int(binary.LittleEndian.Uint16(b))
	size = binary.LittleEndian.Uint64(b[2:])
	if nameLen == 0 || nameLen > maxImageName || size > 1<<62 {
		return 0, fmt.Errorf("the image has a file of %d bytes with a name of %d", size, nameLen)
	}
	name, err := in.read(nameLen)
	if err != nil {
		return 0, err
	}
	if err := in.sum("a file's name"); err != nil {
		return 0, err
	}
	if !plainName(string(name)) {
		return 0, fmt.Errorf("the image has a file named %q", name)
	}
	f, err := in.fs.Create(in.fs.PathJoin(in.dir, string(name)), vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	// The sum first: a file may change the bytes it is given.
	if _, err = io.CopyN(io.MultiWriter(in.crc, f), in.r, int64(size)); errors.Is(err, io.EOF) {
		err = fmt.Errorf("the image is cut: %w", io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = in.sum(string(name))
	}
	if err == nil {
		err = f.Sync()
	}
	return size, errors.Join(err, f.Close())
}

// plainName says whether a name stays inside the directory it is put in.
func plainName(name string) bool {
	return name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00")
}

// read reads n bytes; the end of the stream is never expected.
func (in *imageReader) read(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(in.r, b); err != nil {
		return nil, fmt.Errorf("the image is cut: %w", err)
	}
	in.crc.Write(b)
	return b, nil
}

// sum checks all since the last sum.
func (in *imageReader) sum(what string) error {
	want := in.crc.Sum32()
	b, err := in.read(4)
	if err != nil {
		return err
	}
	in.crc.Reset()
	if got := binary.LittleEndian.Uint32(b); got != want {
		return fmt.Errorf("the image is corrupt at %s: checksum %08x, want %08x", what, got, want)
	}
	return nil
}
