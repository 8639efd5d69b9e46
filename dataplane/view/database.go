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
	// busyTimeout is the longest time that a connection waits for another process to unlock the file, and
	// that a truncation of the log waits for readers to end.
	busyTimeout = time.Second
	// maxWAL is the size of SQLite's log beyond which the flusher truncates it by force, because SQLite itself
	// never truncates it while readers overlap without a gap.
	maxWAL = 64 << 20
)

// database is one open file of the view: the connection that writes it, which only the flusher uses, and the
// pool of connections that read it.
type database struct {
	path    string
	pool    *sql.DB // holds the one writing connection
	writer  *writer
	readers *sql.DB
	opened  []fs.FileInfo // the main file and its log, as remember found them
}

// files returns the names of all files that SQLite uses for the database at path.
func files(path string) []string {
	return []string{path, path + "-wal", path + "-shm", path + "-journal"}
}

// remove deletes a closed database. It deletes the main file first, because a crash may then leave only files
// that mean nothing without it.
func remove(path string) error {
	for _, name := range files(path) {
		if err := ignoreMissing(os.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}

// dsn returns the address of the file, with the settings in it so that every connection of a pool gets them.
// A PRAGMA executed on a pool would change one connection only.
func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"foreign_keys(0)",
	}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
}

// open opens an existing file so that the flusher can follow the feed.
//
// It sets synchronous to NORMAL: SQLite syncs when it moves its log into the file, not at a commit. OFF would
// be a little faster, but a power failure could then leave a file that is wrong without looking wrong. With
// NORMAL a power failure only loses the last commits, and the flusher reads them from the feed again.
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

// logged returns the names of the two files that together are the database: the main file and its log.
func logged(path string) []string { return files(path)[:2] }

// openSuffix ends the name of the marker file. The marker exists while a database is open, and remains if the
// process dies.
const openSuffix = "-open"

// remember records which files the process has opened, and creates the marker file.
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

// present returns a staleError if somebody has deleted or replaced a file that is open. The process could
// write to such a file for ever, but nobody could open it again.
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

// whole returns a staleError if the log is missing after a crash. The marker file shows the crash, because
// only a proper close removes it. Without the log the main file may be the half of an unfinished checkpoint,
// and SQLite cannot tell.
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

// create makes an empty database for a rebuild to load, and deletes a database that is at path already. The
// new one has no log and SQLite never syncs it, because an unfinished rebuild can be repeated.
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

// close waits for running queries and closes all connections.
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

// boundLog truncates SQLite's log if it is larger than maxWAL.
func (db *database) boundLog() error {
	info, err := os.Stat(db.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() <= maxWAL {
		return nil
	}
	if err != nil {
		return err
	}
	// If a reader stays longer than busyTimeout, SQLite completes only a part of the checkpoint and reports
	// no error. The next flush tries again.
	_, err = db.writer.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// unusable reports whether the view must build the file again, and whether the old file may serve queries
// meanwhile.
func unusable(err error) (must, serve bool) {
	var s *staleError
	if errors.As(err, &s) {
		return true, s.old
	}
	return damaged(err), false
}

// damaged reports whether an error means that the file cannot be used any more. A full disk or a locked file
// is no damage, because such an error passes.
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

// corrupt reports whether SQLite found damage in the file itself. Unlike damaged, it ignores errors that a
// faulty query can cause.
func corrupt(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// broken reports whether an error of a query proves that the file is damaged, that it cannot be opened, or
// that a row holds values that the view cannot have written, which SQLite does not notice.
func broken(err error) bool {
	if e := (*api.Error)(nil); errors.As(err, &e) {
		return false
	}
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return corrupt(err) || e.Code()&0xff == sqlite3.SQLITE_CANTOPEN
	}
	return true
}
