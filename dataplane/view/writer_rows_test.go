package view

import (
	"database/sql"
	"errors"
	"testing"
)

// TestATransactionThatFails checks that a failed transaction also resets the writer's record of the rows in
// the file, so that the next transaction writes them again.
func TestATransactionThatFails(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.audit(3)
	h.settle()
	snap := h.store.Snapshot()
	defer func() { must(t, snap.Close()) }()
	s, err := newScratch()
	must(t, err)
	defer func() { must(t, s.close()) }()

	full := errors.New("the disk is full")
	follow := func(err error) func() error {
		return func() error { return errors.Join(s.writer.followAudit(snap), err) }
	}
	if err := s.writer.transact(follow(full)); !errors.Is(err, full) {
		t.Fatal(err)
	}
	must(t, s.writer.transact(follow(nil)))
	all, err := table(s.writer.conn, "SELECT seq FROM audit")
	must(t, err)
	if len(all) != 3 {
		t.Errorf("%d records of the audit log are in the file, there are 3", len(all))
	}
}

// TestAWriterOfNoTables checks that newWriter returns nil with an error, so that no caller closes the writer
// again.
func TestAWriterOfNoTables(t *testing.T) {
	t.Parallel()
	pool, err := sql.Open("sqlite", ":memory:")
	must(t, err)
	defer func() { must(t, pool.Close()) }()
	if w, err := newWriter(pool); w != nil || err == nil {
		t.Errorf("%v, %v", w, err)
	}
}

// TestNothingIsWrittenBehindATransaction checks that a writer executes nothing after SQLite has rolled back a
// transaction, as it does when the disk is full. Such a statement would run outside any transaction.
func TestNothingIsWrittenBehindATransaction(t *testing.T) {
	t.Parallel()
	s, err := newScratch()
	must(t, err)
	defer func() { must(t, s.close()) }()
	_, err = s.writer.conn.ExecContext(t.Context(), `INSERT INTO hot (number) VALUES (1); INSERT INTO work (number) VALUES (1);
		CREATE TRIGGER full BEFORE DELETE ON hot BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END`)
	must(t, err)
	if err := s.writer.transact(func() error { return s.writer.forget(1) }); err == nil {
		t.Fatal("a job is forgotten on a full disk")
	}
	if left, err := table(s.writer.conn, "SELECT number FROM work"); len(left) != 1 || err != nil {
		t.Errorf("the job has a row in hot, and in work %v: %v", left, err)
	}
}
