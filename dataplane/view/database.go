package view

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corvo/corvo/api"
)

const (
	// busyTimeout is how long a connection waits for another process that has
	// the file locked, and a truncation of the log for readers to leave.
	busyTimeout = time.Second
	// maxWAL is the size of SQLite's log at which it is truncated by force.
	// Readers that overlap without a gap would else let it grow for ever.
	maxWAL = 64 << 20
)

// database is one open file of the view: the connection that writes it, used by
// the flusher only, and the pool that reads it.
type database struct {
	path    string
	pool    *sql.DB // of the one writing connection
	writer  *writer
	readers *sql.DB
	opened  []fs.FileInfo // the file and its log, as they were opened
}

// files are the names SQLite uses for the database at path.
func files(path string) []string {
	return []string{path, path + "-wal", path + "-shm", path + "-journal"}
}

// remove deletes a closed database. The main file goes first: what a crash
// leaves of the rest means nothing without it.
func remove(path string) error {
	for _, name := range files(path) {
		if err := ignoreMissing(os.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}

// dsn names the file with settings that every connection gets; set on one
// connection of a pool they would hold for that one only.
func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"foreign_keys(0)",
	}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
}

// open opens an existing file, for following the feed.
//
// synchronous is NORMAL: SQLite syncs when it moves its log into the file, not
// at a commit. OFF would be a little faster, but after a power failure it can
// leave a file that is wrong without looking it; a lost tail is only read again
// from the feed.
func open(path string, readers int) (_ *database, err error) {
	db := &database{path: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.close())
		}
	}()
	if db.pool, err = sql.Open("sqlite", dsn(path, "rw", "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-8000)")); err != nil {
		return nil, err
	}
	db.pool.SetMaxOpenConns(1)
	var version int
	if err = db.pool.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return nil, err
	}
	if version != schemaVersion {
		return nil, stale("its schema has version %d, this binary writes %d", version, schemaVersion)
	}
	if db.writer, err = newWriter(db.pool); err != nil {
		return nil, err
	}
	if db.readers, err = sql.Open("sqlite", dsn(path, "rw", "query_only(1)", "cache_size(-4000)")); err != nil {
		return nil, err
	}
	db.readers.SetMaxOpenConns(readers)
	db.readers.SetMaxIdleConns(readers)
	return db, db.remember()
}

// logged are the files that make a database together: the main file and its log.
func logged(path string) []string { return files(path)[:2] }

// openSuffix marks a database that is in use, or was when the process died.
const openSuffix = "-open"

// remember takes down which files were opened, and leaves a mark of it.
func (db *database) remember() error {
	for _, name := range logged(db.path) {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		db.opened = append(db.opened, info)
	}
	return os.WriteFile(db.path+openSuffix, nil, 0o600)
}

// present finds out that somebody has deleted a file that is in use. It can be
// written to for ever, and nobody would see it again.
func (db *database) present() error {
	for i, name := range logged(db.path) {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, db.opened[i]) {
			return stale("%s was deleted", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// whole finds out that a database lacks its log, which a crash leaves behind and
// nothing but a proper end removes. The main file may be half of what it was to
// become then, and SQLite cannot tell.
func whole(path string) error {
	if _, err := os.Stat(path + openSuffix); err != nil {
		return ignoreMissing(err)
	}
	_, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return stale("its log is missing")
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// create makes an empty database at path for a rebuild to load. It has no log
// and is never synced: until it is finished nobody misses it.
func create(path string) (_ *database, err error) {
	if err := remove(path); err != nil {
		return nil, err
	}
	db := &database{path: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.close())
		}
	}()
	if db.pool, err = sql.Open("sqlite", dsn(path, "rwc", "journal_mode(OFF)", "synchronous(OFF)", "locking_mode(EXCLUSIVE)", "cache_size(-8000)")); err != nil {
		return nil, err
	}
	db.pool.SetMaxOpenConns(1)
	if _, err = db.pool.Exec(fmt.Sprintf("%s; %s; PRAGMA user_version = %d", tablesSQL, contractSQL, schemaVersion)); err != nil {
		return nil, err
	}
	db.writer, err = newWriter(db.pool)
	return db, err
}

// close waits for queries under way and closes all connections.
func (db *database) close() error {
	var errs []error
	if db.readers != nil {
		errs = append(errs, db.readers.Close())
	}
	if db.writer != nil {
		errs = append(errs, db.writer.close())
	}
	if db.pool != nil {
		errs = append(errs, db.pool.Close())
	}
	if err := errors.Join(errs...); err != nil || db.opened == nil {
		return err
	}
	return ignoreMissing(os.Remove(db.path + openSuffix))
}

// boundLog truncates SQLite's log where it has grown beyond maxWAL.
func (db *database) boundLog() error {
	info, err := os.Stat(db.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() <= maxWAL {
		return nil
	}
	if err != nil {
		return err
	}
	// A reader that stays longer than the busy timeout makes this a partial
	// truncation, which is no error: the next flush tries again.
	_, err = db.writer.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// unusable says that the file must be built again, and whether it may be queried
// until that is done.
func unusable(err error) (must, serve bool) {
	var s *staleError
	if errors.As(err, &s) {
		return true, s.old
	}
	return damaged(err), false
}

// damaged says whether an error tells that the file cannot be used any more, as
// opposed to a disk that is full or a file that is locked: those pass.
func damaged(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT:
		return false
	}
	return true
}

// corrupt is the part of damaged that does not depend on what was asked.
func corrupt(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// broken says whether what a query met tells of the file: that it is damaged, that
// it is not there to be opened, or that a row cannot be what the view wrote, of which
// SQLite knows nothing.
func broken(err error) bool {
	if e := (*api.Error)(nil); errors.As(err, &e) {
		return false
	}
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return corrupt(err) || e.Code()&0xff == sqlite3.SQLITE_CANTOPEN
	}
	return true
}
