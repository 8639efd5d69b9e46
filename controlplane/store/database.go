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

// addedSQL creates tables that databases of earlier builds lack. They need no op that migrates, because an
// absent table and an empty one are the same state.
//
//go:embed schema_added.sql
var addedSQL string

// membersSQL carries over a database of before namespaces had lists of members.
//
//go:embed schema_members.sql
var membersSQL string

// metersSQL carries over a database whose rows of usage have a column for each meter.
//
//go:embed schema_meters.sql
var metersSQL string

const (
	// schemaVersion is stored in the file's user_version. Changed tables get a new version and an op that
	// migrates.
	schemaVersion = 1
	// busyTimeout bounds how long a truncation of SQLite's log waits for readers, and a reader for a
	// truncation.
	busyTimeout = time.Second
	// readers is the number of reads that run at the same time.
	readers = 4
	// After an entry that leaves SQLite's log above checkpointWAL bytes, the machine moves the log into the
	// file. Above truncateWAL bytes it also waits for readers, so that the log can be emptied.
	checkpointWAL = 8 << 20
	truncateWAL   = 64 << 20
)

// database is one open file. The writer is used under machine.writing; readers is the pool for reads.
type database struct {
	path    string
	pool    *sql.DB // of the writer alone
	writer  *sql.Conn
	stmts   map[string]*sql.Stmt // the writer's statements by text
	readers *sql.DB
}

// files lists the names that SQLite uses for the database at path.
func files(path string) []string {
	return []string{path, path + "-wal", path + "-shm", path + "-journal"}
}

// remove deletes a closed database. It deletes the main file first: if a crash interrupts remove, the files
// that are left mean nothing without the main one.
func remove(path string) error {
	for _, name := range files(path) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// dsn names the file with settings that every connection gets. A setting made on one connection of a pool
// would hold for that connection only.
func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"foreign_keys(0)",
	}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
}

// createDatabase creates an empty state at path in place of any file there, and makes its content durable.
// The caller makes its name durable.
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

// openDatabase opens an existing file and adds the tables of addedSQL. It refuses another schema version.
//
// synchronous is NORMAL: SQLite syncs when it moves its log into the file, not at a commit. A power cut takes
// only the newest entries, and raft's log has them. The machine starts each checkpoint itself, because SQLite
// ignores a disk error during an automatic checkpoint at a commit.
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
	if _, err = db.writer.ExecContext(context.Background(), addedSQL); err != nil {
		return nil, fmt.Errorf("%s: add the tables that earlier builds lack: %w", path, err)
	}
	if err = db.carryOver(); err != nil {
		return nil, fmt.Errorf("%s: carry over the state of an earlier build: %w", path, err)
	}
	if db.readers, err = sql.Open("sqlite", dsn(path, "rw", "query_only(1)", "wal_autocheckpoint(0)", "cache_size(-4000)")); err != nil {
		return nil, err
	}
	db.readers.SetMaxOpenConns(readers)
	db.readers.SetMaxIdleConns(readers)
	return db, nil
}

// carryOver converts a database of an earlier build. It refuses one with a namespace on a host that has named no store,
// because a member is a store.
func (db *database) carryOver() error {
	ctx := context.Background()
	if before, err := db.hasColumn("namespaces", "host"); err != nil {
		return err
	} else if before {
		var nameless sql.NullString
		err := db.writer.QueryRowContext(ctx, `SELECT MIN(host) FROM namespaces
			WHERE phase <> 'deleted' AND host <> '' AND id NOT IN (SELECT namespace FROM placements)`).Scan(&nameless)
		if err != nil {
			return err
		}
		if nameless.Valid {
			return fmt.Errorf("%s has namespaces and has named no store: start the earlier build until that host has joined", nameless.String)
		}
		if err := db.convert(membersSQL); err != nil {
			return err
		}
	}
	before, err := db.hasColumn("usage_journal", "reports")
	if err != nil || !before {
		return err
	}
	return db.convert(metersSQL)
}

// hasColumn reports whether a table has a column.
func (db *database) hasColumn(table, column string) (has bool, err error) {
	err = db.writer.QueryRowContext(context.Background(), "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?) WHERE name = ?)", table, column).Scan(&has)
	return has, err
}

// convert runs a text that is one transaction.
func (db *database) convert(text string) error {
	_, err := db.writer.ExecContext(context.Background(), text)
	if err == nil {
		return nil
	}
	_, rollbackErr := db.writer.ExecContext(context.Background(), "ROLLBACK")
	return errors.Join(err, rollbackErr)
}

// close closes all connections. The caller makes sure that no read runs.
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

// stmt returns the writer's prepared statement of a text. It keeps the statement until close, so a caller must
// not build texts from values.
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

// exec runs a statement on the writer's connection.
func (db *database) exec(text string, args ...any) (sql.Result, error) {
	stmt, err := db.stmt(text)
	if err != nil {
		return nil, err
	}
	// A cancellable context would cost a goroutine for each statement.
	return stmt.ExecContext(context.Background(), args...)
}

// walBytes returns the size of SQLite's log.
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

// boundWAL keeps SQLite's log from growing without bound.
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

// checkpoint moves SQLite's log into the file, as far as readers allow. mode is one of SQLite's: TRUNCATE waits for
// readers up to busyTimeout and empties the log, PASSIVE does neither. A reader that still needs the log is not an
// error; the log is then not emptied.
func (db *database) checkpoint(mode string) error {
	var busy, log, done int
	row := db.writer.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+mode+")")
	if err := row.Scan(&busy, &log, &done); err != nil {
		return fmt.Errorf("checkpoint %s: %w", db.path, err)
	}
	return nil
}

// flush makes every committed change durable: in the file or, while a reader still needs the older content,
// in the synced log. It waits for no reader.
func (db *database) flush() error {
	if err := syncFile(db.path + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(db.path)); err != nil {
		return err
	}
	return db.checkpoint("PASSIVE")
}

// syncFile makes a file's content durable. It must not be called on the main file of an open database,
// because closing the file would release SQLite's locks.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
