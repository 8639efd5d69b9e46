package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// boltTimeout is how long bolt waits for its own lock on a file. The directory is
// locked by us before, so that lock can only be one that bolt has lost track of,
// and without a limit it waits for ever.
const boltTimeout = time.Second

// guarded turns what bbolt does with a page that makes no sense, or with a file
// that is shorter than it was mapped, into an error: it panics or reads memory
// that is not there.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bolt stopped at %v: %w", p, errDamaged)
		}
	}()
	return f()
}

// checkBolt reads a bolt file from end to end before it is opened to be written.
// Opening counts free pages on a goroutine of the library's own, and where the tree
// is damaged that one panics: nobody can guard it, and the process ends. visit sees
// every pair on the way; nil = nobody does.
func checkBolt(path string, visit func(bucket string, value []byte) error) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return guarded(func() error {
		db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: boltTimeout})
		if err != nil {
			return err
		}
		err = guarded(func() error { return db.View(func(tx *bbolt.Tx) error { return walkBolt(tx, visit) }) })
		return errors.Join(err, db.Close())
	})
}

func walkBolt(tx *bbolt.Tx, visit func(bucket string, value []byte) error) error {
	return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
		return bucket.ForEach(func(key, value []byte) error {
			// Going from page to page does not look at the keys above them.
			if found := bucket.Get(key); !bytes.Equal(found, value) {
				return fmt.Errorf("a key of %d bytes is not found where it lies: %w", len(key), errDamaged)
			}
			if visit == nil {
				return nil
			}
			return visit(string(name), value)
		})
	})
}
