package view

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
)

// prepared is a statement of the writer's, as the driver has it. What database/sql does
// around each execution, it does for connections that many share: it looks the
// connection up, locks it, converts the values, is ready to try another one. Where one
// goroutine has one connection that was a sixth of what a row costs.
type prepared interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// prepare makes a statement that close will end.
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

// bound are values as the driver takes them, until the next statement.
func (w *writer) bound(values []any) []driver.NamedValue {
	w.args = w.args[:0]
	for i, v := range values {
		w.args = append(w.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return w.args
}

// exec executes a statement. Values are what the driver knows: int64, float64, bool,
// string, []byte or nil.
func (w *writer) exec(stmt prepared, values ...any) error {
	_, err := stmt.ExecContext(context.Background(), w.bound(values)) // a context that can end costs a goroutine per statement
	return err
}

// first reads the first row of a query; found is false where there is none.
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

// transact runs f in one transaction. The connection is f's meanwhile: who used
// w.conn in it would wait for ever.
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
		w.usageFirst, w.audited, w.keysShown = 0, auditSeen{}, false // as after opening the file: it has what it had before
		return errors.Join(err, w.exec(w.rollback))
	})
}

const (
	// maxRows is how many rows one statement writes: beyond that little is saved.
	maxRowsShift = 5
	maxRows      = 1 << maxRowsShift
	// maxRowsBytes is how long their texts may be together: SQLite has a copy of them.
	maxRowsBytes = 256 << 10
)

// rows are rows of a table that wait for others, to be written by one statement. To
// begin and end one costs as much as a row or two, and rows next to each other find
// their place from the one before.
type rows struct {
	table string
	forms []form // the shortest first
	bytes int
}

// form is for rows that are NULL from some column on: each value costs to be bound, and
// most jobs have few.
type form struct {
	columns       int
	before, after string // of the statement, around the rows
	values        []any
	stmts         [maxRowsShift + 1]prepared // of 1, 2, 4... rows; made when needed
}

// newRows makes rows of a table, in forms of so many columns. verb is INSERT and what to
// do about rows that are in the way.
//
// The verb should say OR FAIL, unless it says more: SQLite would else keep copies of all
// pages for the case that the rows before a wrong one have to be taken back. The
// transaction takes back all of them.
func newRows(verb, table, columns, after string, short ...int) rows {
	names := strings.Split(columns, ",")
	r := rows{table: table}
	for _, n := range append(short, len(names)) {
		r.forms = append(r.forms, form{columns: n, after: after,
			before: fmt.Sprintf("%s INTO %s (%s) VALUES ", verb, table, strings.Join(names[:n], ","))})
	}
	return r
}

// replacing is the end of an insert that has a row replaced which has its number already.
// INSERT OR REPLACE would do the same to a row with another number that must not be there.
func replacing(columns string) string {
	_, columns, _ = strings.Cut(columns, ",")
	var set []string
	for name := range strings.SplitSeq(columns, ",") {
		name = strings.TrimSpace(name)
		set = append(set, name+" = excluded."+name)
	}
	return " ON CONFLICT (number) DO UPDATE SET " + strings.Join(set, ", ")
}

// putDocumentSQL fails where another job has the id, which is impossible.
func putDocumentSQL() string {
	return fmt.Sprintf("INSERT INTO document (%s) VALUES (?%s)%s", documentColumns, strings.Repeat(", ?", strings.Count(documentColumns, ",")), replacing(documentColumns))
}

// add has a row written, with others; the first of its values is its number.
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

// drop forgets the rows that wait.
func (f *form) drop() {
	clear(f.values)
	f.values = f.values[:0]
}

// putRows writes all rows that wait. Whoever reads tables, or ends a transaction, must
// have done so before.
func (w *writer) putRows() error {
	for _, r := range w.waiting() {
		if err := w.put(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) dropRows() {
	for _, r := range w.waiting() {
		for i := range r.forms {
			r.forms[i].drop()
		}
		r.bytes = 0
	}
}

func (w *writer) waiting() []*rows {
	return []*rows{&w.newHot, &w.putHot, &w.newDocument, &w.newWork, &w.putWork}
}
