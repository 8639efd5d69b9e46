package view

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corvo/corvo/api"
)

// queryLimit is the time limit of one read, including the wait for a connection. A search gets 2 * searchTime
// more. Readers share few connections, and a reader that runs for long keeps others out and keeps SQLite's log
// open.
const queryLimit = 300 * time.Millisecond

// errBuilding returns the error for queries that arrive while there is no file to query.
func errBuilding() error {
	return api.Errorf(api.ViewBehind, "the view is being built, or waits for the store to replay its log; try again in a moment")
}

// read runs f in a read transaction on one of the pool's connections, so that all of f's reads are of one
// moment. f returns *api.Error if the caller is at fault. Besides the errors of f, read returns VIEW_BEHIND while
// there is no file, OVERLOADED at the time limit, and UNHEALTHY if the file is damaged.
func (v *View) read(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	return v.readWithin(ctx, v.limits.query, f)
}

func (v *View) readWithin(ctx context.Context, limit time.Duration, f func(context.Context, *sql.Tx) error) error {
	v.swap.RLock()
	defer v.swap.RUnlock()
	if v.current == nil {
		return errBuilding()
	}
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := transaction(inner, v.current.readers, f)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case inner.Err() != nil || interrupted(err):
		// A search that had no time to examine even one job ends here, too. Its error does not mean that the
		// file is damaged.
		return api.Wrap(err, api.Overloaded, "the query took longer than "+limit.String()+": narrow it (name a queue and states), or try again")
	case broken(err):
		v.suspect(err)
		return api.Wrap(err, api.Unhealthy, "the view is damaged and is being built again; try again in a moment")
	}
	return err
}

func transaction(ctx context.Context, pool *sql.DB, f func(context.Context, *sql.Tx) error) (err error) {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() {
		// Nothing was written, so a rollback can only fail on a broken connection.
		if rollbackErr := tx.Rollback(); rollbackErr != nil && !errors.Is(rollbackErr, sql.ErrTxDone) {
			err = errors.Join(err, rollbackErr)
		}
	}()
	return f(ctx, tx)
}

// each scans all rows of a query.
func each(ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// interrupted reports whether a statement ended because its time was over.
func interrupted(err error) bool {
	var e *sqlite.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_INTERRUPT
}
