package view

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
)

// dumped lists the tables of a dump and the order of their rows. It omits cursor and time_range, because views
// can reach equal rows by different ways; words, because its columns cannot be read; and namespace, because its
// row exists even in a view without jobs and settings.
var dumped = [...]struct{ table, order string }{
	{"hot", "number"}, {"document", "number"}, {"work", "number"}, {"extra", "number"}, {"job_error", "id"}, {"queue", "name"},
	{"batch", "id"}, {"schedule", "id"}, {"usage", "seq"}, {"audit", "seq"},
	{"job_iteration", "id"}, {"job_score", "id"},
	{"provider", "id"}, {"budget", "id"}, {"approval_policy", "id"}, {"webhook", "id"}, {"role", "id"}, {"api_key", "id"},
}

// Dump writes the rows of all tables in dumped as text, in a fixed order, so that equal rows give equal dumps. It
// is for tests and operators, not for requests. It opens its own connection, obeys no time limit but ctx's,
// and delays neither queries nor a rebuild. While there is no file to query, it returns VIEW_BEHIND.
func (v *View) Dump(ctx context.Context, w io.Writer) (err error) {
	v.swap.RLock()
	attached := sync.OnceFunc(v.swap.RUnlock)
	defer attached()
	if v.current == nil {
		return errBuilding()
	}
	pool, err := sql.Open("sqlite", dsn(v.path, "rw", "query_only(1)"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()

	out := bufio.NewWriter(w)
	err = transaction(ctx, pool, func(ctx context.Context, tx *sql.Tx) error {
		// The first read opens every file of the database. From then on a rebuild may replace them.
		if err := tx.QueryRowContext(ctx, "SELECT one FROM cursor").Scan(new(int)); err != nil {
			return err
		}
		attached()
		for _, d := range dumped {
			if err := dumpTable(ctx, tx, out, d.table, d.order); err != nil {
				return fmt.Errorf("dump %s: %w", d.table, err)
			}
		}
		return nil
	})
	return errors.Join(err, out.Flush())
}

func dumpTable(ctx context.Context, tx *sql.Tx, out *bufio.Writer, table, order string) error {
	return each(ctx, tx, func(rows *sql.Rows) error {
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		values := make([]any, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		out.WriteString(table)
		for i, name := range names {
			if text, ok := values[i].(string); ok {
				fmt.Fprintf(out, " %s=%q", name, text)
			} else {
				fmt.Fprintf(out, " %s=%v", name, values[i])
			}
		}
		return out.WriteByte('\n')
	}, "SELECT * FROM "+table+" ORDER BY "+order)
}
