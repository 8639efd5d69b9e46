package store

import (
	"database/sql"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// Tx is the SQL transaction of one entry's ops. If an op returns a refusal, all its changes are undone,
// including those in pending.
type Tx struct {
	db     *database
	limits limits
	kind   *kind // of the op being applied
	pending
}

// pending holds the changes that the ops of an entry make outside the database.
type pending struct {
	head    head
	changes []credentialChange // of the cache, applied once the entry is committed
	wake    bool               // documents or the reconciler's input have changed
}

// credentialChange is one change of the cache of credentials.
type credentialChange struct {
	id  string
	now *fleet.Credential // nil = removed
}

// clockNs returns the time of the entry. Ops use no other clock.
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

// exec runs a statement and returns the number of changed rows.
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

// attempt runs f completely or undoes it. If f returns a bare *api.Error, attempt undoes f and returns the
// refusal. It returns any other error as err, and the caller must then roll the whole transaction back.
func (tx *Tx) attempt(f func() error) (refused *api.Error, err error) {
	before := tx.pending
	before.changes = tx.changes[:len(tx.changes):len(tx.changes)]
	if _, err := tx.exec("SAVEPOINT op"); err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		// Only a bare *api.Error is a refusal. A wrapped one comes from a call that must not refuse.
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
