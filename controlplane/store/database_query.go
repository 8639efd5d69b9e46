package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/corvo/corvo/api"
)

// querier queries the database: for an op within its entry, for a reader, or when a state or an image is
// opened.
type querier interface {
	query(text string, args ...any) (*sql.Rows, error)
}

// reader is a consistent view of the committed state.
type reader struct {
	ctx context.Context
	tx  *sql.Tx
}

func (r reader) query(text string, args ...any) (*sql.Rows, error) {
	return r.tx.QueryContext(r.ctx, text, args...)
}

// list reads all rows of a query.
func list[T any](q querier, scan func(*sql.Rows) (T, error), text string, args ...any) (all []T, err error) {
	rows, err := q.query(text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// first reads the first row of a query.
func first[T any](q querier, scan func(*sql.Rows) (T, error), text string, args ...any) (one T, found bool, err error) {
	all, err := list(q, scan, text, args...)
	if err != nil || len(all) == 0 {
		return one, false, err
	}
	return all[0], true, nil
}

// scalar scans rows of one column.
func scalar[T any](rows *sql.Rows) (v T, err error) {
	err = rows.Scan(&v)
	return v, err
}

// number returns the one integer that a query selects; 0 = no row.
func number(q querier, text string, args ...any) (int64, error) {
	n, _, err := first(q, scalar[int64], text, args...)
	return n, err
}

// read runs f on the state as of the last committed entry. Every error is an *api.Error.
func read[T any](ctx context.Context, s *Store, f func(reader) (T, error)) (answer T, err error) {
	err = s.machine.read(ctx, func(r reader) (err error) {
		answer, err = f(r)
		return err
	})
	if err != nil {
		var none T
		return none, outward(ctx, err)
	}
	return answer, nil
}

// outward converts any error of a read to an *api.Error.
func outward(ctx context.Context, err error) error {
	var e *api.Error
	switch {
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return api.Wrap(errors.Join(context.Cause(ctx), err), api.LeaderUnavailable, "the request ended before it was answered")
	}
	return api.Wrap(err, api.Internal, "the control plane's state cannot be read")
}

// unhealthy returns an error that reports a damaged state.
func unhealthy(format string, args ...any) error { return api.Errorf(api.Unhealthy, format, args...) }

// page returns the limit that a caller gives for a list, but at least 0 and at most MaxPage.
func page(limit int) int { return max(0, min(limit, MaxPage)) }
