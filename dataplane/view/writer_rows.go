package view

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
)

// prepared is a statement of the writer at the level of the driver. database/sql is made for connections that
// many goroutines share: around each execution it looks the connection up, locks it, converts the values and
// prepares to retry on another connection. For one goroutine with one connection this overhead was a sixth of
// the cost of a row.
type prepared interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// prepare prepares a statement that close will close.
func (w *writer) prepare(text string) (prepared, error) {
	stmt, err := w.driver.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	w.stmts = append(w.stmts, stmt)
	p, ok := stmt.(prepared)
	if !ok {
		return nil, fmt.Errorf("a statement of the driver is a %T, which takes no context", stmt)
	}
	return p, nil
}

// bound converts values to the driver's arguments. They are valid until the next statement.
func (w *writer) bound(values []any) []driver.NamedValue {
	w.args = w.args[:0]
	for i, v := range values {
		w.args = append(w.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return w.args
}

// exec executes a statement. The values must have a type that the driver knows: int64, float64, bool, string,
// []byte or nil.
func (w *writer) exec(stmt prepared, values ...any) error {
	_, err := stmt.ExecContext(context.Background(), w.bound(values)) // a context that can end costs a goroutine per statement
	return err
}

// first reads the first row of a query; found is false if there is no row.
func (w *writer) first(stmt prepared, into []driver.Value, values ...any) (found bool, err error) {
	rows, err := stmt.QueryContext(context.Background(), w.bound(values))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if err := rows.Next(into); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return false, err
	}
	return true, nil
}

// transact runs f in one transaction. f must not use w.conn, because transact holds it and f would wait for
// ever.
func (w *writer) transact(f func() error) error {
	return w.conn.Raw(func(any) error {
		if err := w.exec(w.begin); err != nil {
			return err
		}
		err := f()
		if err == nil {
			if err = w.exec(w.commit); err == nil {
				return nil
			}
		}
		w.dropRows()
		w.usageFirst, w.usageNext, w.audited, w.keysShown = 0, 0, auditSeen{}, false // as after opening the file, because the rollback restores its rows
		return errors.Join(err, w.exec(w.rollback))
	})
}

const (
	// maxRows is the number of rows that one statement writes. More rows save little.
	maxRowsShift = 5
	maxRows      = 1 << maxRowsShift
	// maxRowsBytes limits the total length of the rows' texts, because SQLite copies them.
	maxRowsBytes = 256 << 10
)

// rows are rows of a table that wait to be written with others by one statement. Beginning and ending a
// statement costs as much as a row or two, and SQLite finds the position of a row next to the previous one
// faster.
type rows struct {
	table string
	forms []form // the shortest first
	bytes int
}

// form inserts a prefix of the columns, for rows whose other columns are NULL. Binding each value has a cost,
// and most jobs have few values.
type form struct {
	columns       int
	before, after string // the statement's text around the rows
	values        []any
	stmts         [maxRowsShift + 1]prepared // for 1, 2, 4... rows; prepared when needed
}

// newRows returns the rows of a table, with a form for each number of columns in short and one for all
// columns. verb is INSERT with a conflict clause.
//
// If the verb needs no other clause, it is INSERT OR FAIL. Without a clause SQLite keeps copies of all pages, so
// that it can undo the rows before a failed one. Here the rollback of the transaction undoes all of them.
func newRows(verb, table, columns, after string, short ...int) rows {
	names := strings.Split(columns, ",")
	r := rows{table: table}
	for _, n := range append(short, len(names)) {
		r.forms = append(r.forms, form{columns: n, after: after,
			before: fmt.Sprintf("%s INTO %s (%s) VALUES ", verb, table, strings.Join(names[:n], ","))})
	}
	return r
}

// replacing returns the end of an insert that replaces a row with the same number. INSERT OR REPLACE would
// also replace a row with another number that conflicts, and such a row must not exist.
func replacing(columns string) string {
	_, columns, _ = strings.Cut(columns, ",")
	var set []string
	for name := range strings.SplitSeq(columns, ",") {
		name = strings.TrimSpace(name)
		set = append(set, name+" = excluded."+name)
	}
	return " ON CONFLICT (number) DO UPDATE SET " + strings.Join(set, ", ")
}

// putDocumentSQL returns an insert that replaces the document of its number. It fails if another number has the
// id, which is impossible.
func putDocumentSQL() string {
	return fmt.Sprintf("INSERT INTO document (%s) VALUES (?%s)%s", documentColumns, strings.Repeat(", ?", strings.Count(documentColumns, ",")), replacing(documentColumns))
}

// add queues a row to be written with others. The first of the values is the row's number.
func (w *writer) add(r *rows, values ...any) error {
	used := len(values)
	for values[used-1] == nil {
		used--
	}
	f := &r.forms[0]
	for i := 1; f.columns < used; i++ {
		f = &r.forms[i]
	}
	f.values = append(f.values, values[:f.columns]...)
	for _, v := range values[:used] {
		switch v := v.(type) {
		case string:
			r.bytes += len(v)
		case []byte:
			r.bytes += len(v)
		}
	}
	if r.bytes >= maxRowsBytes {
		return w.put(r)
	}
	if len(f.values) == maxRows*f.columns {
		return w.putForm(r, f)
	}
	return nil
}

// put writes the rows that wait.
func (w *writer) put(r *rows) error {
	for i := range r.forms {
		if err := w.putForm(r, &r.forms[i]); err != nil {
			return err
		}
	}
	r.bytes = 0
	return nil
}

func (w *writer) putForm(r *rows, f *form) (err error) {
	for rest := f.values; len(rest) > 0; {
		shift := maxRowsShift
		for len(rest) < f.columns<<shift {
			shift--
		}
		n := f.columns << shift
		if f.stmts[shift] == nil {
			row := "(?" + strings.Repeat(", ?", f.columns-1) + ")"
			if f.stmts[shift], err = w.prepare(f.before + row + strings.Repeat(", "+row, 1<<shift-1) + f.after); err != nil {
				return err
			}
		}
		if err := w.exec(f.stmts[shift], rest[:n]...); err != nil {
			return fmt.Errorf("rows of %s, of jobs number %v to %v: %w", r.table, rest[0], rest[n-f.columns], err)
		}
		rest = rest[n:]
	}
	f.drop()
	return nil
}

// drop discards the rows that wait.
func (f *form) drop() {
	clear(f.values)
	f.values = f.values[:0]
}

// putRows writes all rows that wait. The caller must call it before it reads tables or ends a transaction.
func (w *writer) putRows() error {
	for _, r := range w.waitingRows() {
		if err := w.put(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) dropRows() {
	for _, r := range w.waitingRows() {
		for i := range r.forms {
			r.forms[i].drop()
		}
		r.bytes = 0
	}
}

func (w *writer) waitingRows() []*rows {
	return []*rows{&w.newHot, &w.putHot, &w.newDocument, &w.newWork, &w.putWork}
}
