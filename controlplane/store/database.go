package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/corvo/corvo/durable"
)

//go:embed schema.sql
var schemaSQL string

const (
	// schemaVersion stands in the file's user_version. A change of the tables is a
	// new version and an op that migrates.
	schemaVersion = 1
	// busyTimeout is how long a truncation of SQLite's log waits for readers, and a
	// reader for a truncation.
	busyTimeout = time.Second
	// readers is how many reads run at a time.
	readers = 4
	// checkpointWAL is the size of SQLite's log at which an entry moves it into the
	// file, truncateWAL that at which it waits for readers to have it empty after.
	checkpointWAL = 8 << 20
	truncateWAL   = 64 << 20
)

// database is one open file: the connection that writes it, used under the
// machine's lock, and the pool that reads it.
type database struct {
	path    string
	pool    *sql.DB // of the one writing connection
	writer  *sql.Conn
	stmts   map[string]*sql.Stmt // of the writer, by their text
	readers *sql.DB
}

// files are the names SQLite uses for the database at path.
func files(path string) []string {
	return []string{path, path + "-wal", path + "-shm", path + "-journal"}
}

// remove deletes a closed database. The main file goes first: what a crash
// leaves of the rest means nothing without it.
func remove(path string) error {
	for _, name := range files(path) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// createDatabase makes an empty state at path, durably.
func createDatabase(path string) error {
	if err := remove(path); err != nil {
		return err
	}
	pool, err := sql.Open("sqlite", dsn(path, "rwc", "journal_mode(DELETE)", "synchronous(FULL)"))
	if err != nil {
		return err
	}
	_, err = pool.Exec(fmt.Sprintf("BEGIN; %s; PRAGMA user_version = %d; COMMIT", schemaSQL, schemaVersion))
	if err == nil {
		_, err = pool.Exec("INSERT INTO meta VALUES (1, '', zeroblob(16), 0, 0, 0, NULL, 0, 0, 0, zeroblob(32), zeroblob(32), zeroblob(32), 0, 0)")
	}
	if err := errors.Join(err, pool.Close()); err != nil {
		return err
	}
	return syncFile(path)
}

// openDatabase opens an existing file.
//
// synchronous is NORMAL: SQLite syncs when it moves its log into the file, not
// at a commit. What a power cut takes is the newest entries, and raft's log has
// them. It moves its log when it is told to, so that an error of the disk is
// seen: done at a commit by SQLite itself, it would be passed over.
func openDatabase(path string) (_ *database, err error) {
	db := &database{path: path, stmts: map[string]*sql.Stmt{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.close())
		}
	}()
	db.pool, err = sql.Open("sqlite", dsn(path, "rw", "journal_mode(WAL)", "synchronous(NORMAL)", "wal_autocheckpoint(0)", "cache_size(-8000)"))
	if err != nil {
		return nil, err
	}
	db.pool.SetMaxOpenConns(1)
	if db.writer, err = db.pool.Conn(context.Background()); err != nil {
		return nil, err
	}
	var version int
	if err = db.writer.QueryRowContext(context.Background(), "PRAGMA user_version").Scan(&version); err != nil {
		return nil, err
	}
	if version != schemaVersion {
		return nil, fmt.Errorf("%s has schema version %d, this binary knows %d: use the binary that wrote it, or a newer one", path, version, schemaVersion)
	}
	if db.readers, err = sql.Open("sqlite", dsn(path, "rw", "query_only(1)", "wal_autocheckpoint(0)", "cache_size(-4000)")); err != nil {
		return nil, err
	}
	db.readers.SetMaxOpenConns(readers)
	db.readers.SetMaxIdleConns(readers)
	return db, nil
}

// close waits for reads under way and closes all connections.
func (db *database) close() error {
	var errs []error
	if db.readers != nil {
		errs = append(errs, db.readers.Close())
	}
	for _, stmt := range db.stmts {
		errs = append(errs, stmt.Close())
	}
	if db.writer != nil {
		errs = append(errs, db.writer.Close())
	}
	if db.pool != nil {
		errs = append(errs, db.pool.Close())
	}
	return errors.Join(errs...)
}

// stmt is the writer's prepared statement of a text.
func (db *database) stmt(text string) (*sql.Stmt, error) {
	if stmt, ok := db.stmts[text]; ok {
		return stmt, nil
	}
	stmt, err := db.writer.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}
	db.stmts[text] = stmt
	return stmt, nil
}

// exec runs a statement of the writer.
func (db *database) exec(text string, args ...any) (sql.Result, error) {
	stmt, err := db.stmt(text)
	if err != nil {
		return nil, err
	}
	// A context that can end would cost a goroutine for each statement.
	return stmt.ExecContext(context.Background(), args...)
}

// walBytes is the size of SQLite's log.
func (db *database) walBytes() (int64, error) {
	info, err := os.Stat(db.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// boundWAL keeps SQLite's log from growing for ever.
func (db *database) boundWAL() error {
	size, err := db.walBytes()
	switch {
	case err != nil:
		return err
	case size > truncateWAL:
		return db.checkpoint("TRUNCATE")
	case size > checkpointWAL:
		return db.checkpoint("PASSIVE")
	}
	return nil
}

// checkpoint moves SQLite's log into the file, as far as readers let it: that
// one stays behind is no error, it only is not emptied then.
func (db *database) checkpoint(mode string) error {
	var busy, log, done int
	row := db.writer.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+mode+")")
	if err := row.Scan(&busy, &log, &done); err != nil {
		return fmt.Errorf("checkpoint %s: %w", db.path, err)
	}
	return nil
}

// flush makes all that was committed durable: in the file, or, where a reader
// still looks at what was before, in a synced log. It waits for no reader.
func (db *database) flush() error {
	if err := syncFile(db.path + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(db.path)); err != nil {
		return err
	}
	return db.checkpoint("PASSIVE")
}

// syncFile makes a file's content durable. It must not be used on the main file
// of an open database: closing it would drop SQLite's locks.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
