package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/corvo/corvo/engine/durable"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/replica"
)

// An image's stream is imageMagic, the size of the database in eight bytes, the
// database, and the CRC-32C of all before in four; integers little-endian.
const (
	imageMagic  = "corvo control plane 1\n"
	imageHeader = len(imageMagic) + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// image is a copy of the state in a file of its own.
type image struct {
	path string
	size int64
	head head
}

// Image takes a copy of the state as of the last committed entry. Apply goes on
// meanwhile.
func (m *machine) Image() (replica.Image, error) {
	m.swap.RLock()
	defer m.swap.RUnlock()
	if m.db == nil {
		return nil, errClosed
	}
	i := &image{path: m.dir.newImage()}
	if err := i.take(m.db.path); err != nil {
		return nil, errors.Join(fmt.Errorf("image: %w", err), i.Close())
	}
	return i, nil
}

func (i *image) take(from string) error {
	if err := remove(i.path); err != nil {
		return err
	}
	source, err := sql.Open("sqlite", dsn(from, "rw"))
	if err != nil {
		return err
	}
	_, err = source.Exec("VACUUM INTO ?", i.path)
	if err := errors.Join(err, source.Close()); err != nil {
		return err
	}
	info, err := os.Stat(i.path)
	if err != nil {
		return err
	}
	i.size = info.Size()
	// The copy itself says how far it is.
	copied, err := sql.Open("sqlite", dsn(i.path, "ro"))
	if err != nil {
		return err
	}
	i.head, err = readHead(pool{copied})
	return errors.Join(err, copied.Close())
}

// pool asks a database outside of transactions.
type pool struct{ *sql.DB }

func (p pool) query(text string, args ...any) (*sql.Rows, error) {
	return p.QueryContext(context.Background(), text, args...)
}

// Applied is the last entry in the image.
func (i *image) Applied() entry.Applied { return i.head.applied }

// Configuration is the membership in the image and its index.
func (i *image) Configuration() ([]byte, uint64) {
	return i.head.configuration, i.head.configurationIndex
}

// Close removes the copy.
func (i *image) Close() error { return remove(i.path) }

// WriteTo streams the image.
func (i *image) WriteTo(w io.Writer) (n int64, err error) {
	f, err := os.Open(i.path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := crc32.New(castagnoli)
	header := binary.LittleEndian.AppendUint64([]byte(imageMagic), uint64(i.size))
	body := io.TeeReader(io.MultiReader(bytes.NewReader(header), io.LimitReader(f, i.size)), sum)
	if n, err = io.Copy(w, body); err != nil {
		return n, err
	}
	if n != int64(imageHeader)+i.size {
		return n, fmt.Errorf("the image %s was cut to %d bytes", i.path, n)
	}
	tail, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return n + int64(tail), err
}

// Restore replaces the state by an image's stream and makes it durable. Until
// the new state is whole, and after a stream that is cut or damaged, the old one
// counts.
func (m *machine) Restore(r io.Reader) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if m.broken != nil {
		return m.broken
	}
	number := m.dir.number + 1
	db, err := m.receive(r, m.dir.in(stateName(number)))
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	h, credentials, err := load(db)
	if err == nil {
		err = db.flush()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore: %w", err), db.close(), remove(db.path))
	}
	if err := m.dir.point(number); err != nil {
		// Which of the two counts after a crash is unknown: neither may be written.
		m.broken = fmt.Errorf("the state has failed: restore: %w", err)
		return errors.Join(m.broken, db.close())
	}
	m.swap.Lock()
	old := m.db
	m.db = db
	m.swap.Unlock()
	m.install(h, credentials)
	if err := errors.Join(old.close(), remove(old.path)); err != nil {
		m.broken = fmt.Errorf("the state has failed: after a restore: %w", err)
		return m.broken
	}
	return nil
}

// receive writes an image's database to a file, durably, and opens it.
func (m *machine) receive(r io.Reader, path string) (*database, error) {
	if err := remove(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	err = copyImage(f, r)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, remove(path))
	}
	if err := durable.SyncDir(m.dir.path); err != nil {
		return nil, err
	}
	db, err := openDatabase(path)
	if err != nil {
		return nil, errors.Join(err, remove(path))
	}
	return db, nil
}

// copyImage reads an image's stream and writes its database.
func copyImage(w io.Writer, r io.Reader) error {
	sum := crc32.New(castagnoli)
	in := io.TeeReader(r, sum)
	header := make([]byte, imageHeader)
	if _, err := io.ReadFull(in, header); err != nil {
		return fmt.Errorf("the image is cut: %w", err)
	}
	size := int64(binary.LittleEndian.Uint64(header[len(imageMagic):]))
	if string(header[:len(imageMagic)]) != imageMagic || size < 0 {
		return errors.New("the stream is no image of a control plane")
	}
	if n, err := io.CopyN(w, in, size); err != nil {
		return fmt.Errorf("the image is cut after %d of %d bytes: %w", n, size, err)
	}
	want := sum.Sum32()
	var tail [4]byte
	if _, err := io.ReadFull(r, tail[:]); err != nil {
		return fmt.Errorf("the image is cut before its checksum: %w", err)
	}
	if got := binary.LittleEndian.Uint32(tail[:]); got != want {
		return fmt.Errorf("the image is damaged: checksum %08x, want %08x", got, want)
	}
	return nil
}
