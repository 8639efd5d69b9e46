package store

import (
	"database/sql"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// Tx is what an op applies to: one SQL transaction, that of its entry. Whatever
// an op does is undone when it answers an error, also what stands in memory
// here.
type Tx struct {
	db     *database
	limits limits
	kind   *kind // of the op that applies now
	pending
}

// pending is what an op changes besides rows.
type pending struct {
	head    head
	changes []credentialChange // of the cache, made once the entry is committed
	wake    bool               // documents have changed, or what the reconciler works from
}

// credentialChange is one change of the cache of credentials.
type credentialChange struct {
	id  string
	now *fleet.Credential // nil = it is gone
}

// clockNs is the time of the entry: the only one there is.
func (tx *Tx) clockNs() int64 { return tx.head.clockNs }

func (tx *Tx) query(text string, args ...any) (*sql.Rows, error) {
	return tx.db.query(text, args...)
}

func (db *database) query(text string, args ...any) (*sql.Rows, error) {
	stmt, err := db.stmt(text)
	if err != nil {
		return nil, err
	}
	return stmt.Query(args...)
}

// exec runs a statement and says how many rows it changed.
func (tx *Tx) exec(text string, args ...any) (changed int64, err error) {
	done, err := tx.db.exec(text, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// put runs a statement that must change exactly one row.
func (tx *Tx) put(text string, args ...any) error {
	n, err := tx.exec(text, args...)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows were changed where one was expected: %s", n, text)
	}
	return err
}

// attempt runs f so that it has either happened or not. A bare *api.Error of f
// is a refusal: f is undone and the refusal returned. Any other error is
// returned as the second, and nothing can be trusted any longer.
func (tx *Tx) attempt(f func() error) (refused *api.Error, err error) {
	before := tx.pending
	before.changes = tx.changes[:len(tx.changes):len(tx.changes)]
	if _, err := tx.exec("SAVEPOINT op"); err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		// Only a bare refusal is an answer. One that was wrapped on its way came
		// from where no refusal was expected.
		refused, ok := err.(*api.Error)
		if !ok {
			return nil, err
		}
		tx.pending = before
		if _, err := tx.exec("ROLLBACK TO op"); err != nil {
			return nil, err
		}
		_, err := tx.exec("RELEASE op")
		return refused, err
	}
	_, err = tx.exec("RELEASE op")
	return nil, err
}
