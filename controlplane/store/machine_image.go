package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/replica"
)

// imagePart is the name of an image's only part, the database.
const imagePart = "state.db"

// stateImage is a copy of the state in a file of its own.
type stateImage struct {
	path string
	part image.Part
	head head
}

// Image copies the state as of the last committed entry. Meanwhile Apply continues, and Restore waits.
func (m *machine) Image() (replica.Image, error) {
	m.swap.RLock()
	defer m.swap.RUnlock()
	if m.db == nil {
		return nil, errClosed
	}
	i := &stateImage{path: m.dir.newImage()}
	if err := i.take(m.db.path); err != nil {
		return nil, errors.Join(fmt.Errorf("image: %w", err), i.Close())
	}
	return i, nil
}

func (i *stateImage) take(from string) error {
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
	if err := i.sum(); err != nil {
		return err
	}
	// The position is read from the copy, because entries are applied while it is made.
	copied, err := sql.Open("sqlite", dsn(i.path, "ro"))
	if err != nil {
		return err
	}
	i.head, err = readHead(pool{copied})
	return errors.Join(err, copied.Close())
}

// pool queries a database outside of transactions.
type pool struct{ *sql.DB }

func (p pool) query(text string, args ...any) (*sql.Rows, error) {
	return p.QueryContext(context.Background(), text, args...)
}

// Applied returns the position of the last entry in the image.
func (i *stateImage) Applied() entry.Applied { return i.head.applied }

// Configuration returns the membership in the image and its index.
func (i *stateImage) Configuration() ([]byte, uint64) {
	return i.head.configuration, i.head.configurationIndex
}

// Close removes the copy.
func (i *stateImage) Close() error { return remove(i.path) }

func (i *stateImage) sum() error {
	f, err := os.Open(i.path)
	if err != nil {
		return err
	}
	i.part, err = image.Sum(imagePart, f)
	return errors.Join(err, f.Close())
}

// Parts lists the image's only part, the database.
func (i *stateImage) Parts() []image.Part { return []image.Part{i.part} }

// Open opens the database for reading.
func (i *stateImage) Open(name string) (io.ReadCloser, error) {
	if name != imagePart {
		return nil, fmt.Errorf("the image of entry %d has no part %q", i.head.applied.Index, name)
	}
	return os.Open(i.path)
}

// Restore replaces the state by an image and makes it durable. The old state stays the current one until the
// new one is complete. It also stays if Restore fails before that, for example because the part is truncated
// or damaged, or holds another entry than the source claims.
func (m *machine) Restore(from image.Source) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if m.broken != nil {
		return m.broken
	}
	number := m.dir.number + 1
	db, err := m.receive(from, m.dir.in(stateName(number)))
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	h, credentials, err := load(db)
	if err == nil {
		err = compareClaim(from, h)
	}
	if err == nil {
		err = m.known.CheckState(h.level)
	}
	if err == nil {
		err = db.flush()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore: %w", err), db.close(), remove(db.path))
	}
	if err := m.dir.point(number); err != nil {
		// After a crash either of the two may be the current one, so neither may be written.
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

// compareClaim refuses an image that holds another entry than it claims.
func compareClaim(from image.Source, h head) error {
	if claim, ok := from.(replica.Positioned); ok && claim.Applied() != h.applied {
		return fmt.Errorf("the image holds %+v, it claims %+v", h.applied, claim.Applied())
	}
	return nil
}

// receive copies an image's database to a file, durably, and opens it. It copies instead of linking, because
// SQLite writes to the file.
func (m *machine) receive(from image.Source, path string) (*database, error) {
	parts := from.Parts()
	if len(parts) != 1 || parts[0].Name != imagePart {
		return nil, fmt.Errorf("an image of %d parts is no control plane's", len(parts))
	}
	if err := remove(path); err != nil {
		return nil, err
	}
	if err := copyPart(from, parts[0], path); err != nil {
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

func copyPart(from image.Source, p image.Part, path string) (err error) {
	r, err := from.Open(p.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, image.Verify(p, r)); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
