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

// boltTimeout bounds bolt's wait for its own lock on a file. The directory is already locked by this process,
// so the lock can only be one that bolt has lost track of, and bolt would wait for it for ever.
const boltTimeout = time.Second

// guarded turns a crash of bbolt into an error. On an invalid page, or a file shorter than its mapping, bbolt
// panics or reads memory that is not mapped.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bolt stopped at %v: %w", p, errDamaged)
		}
	}()
	return f()
}

// checkBolt reads a whole bolt file before it is opened for writing. Opening counts free pages on a goroutine
// of the library, which panics if the tree is damaged; no caller can recover that panic, so the process would
// end. checkBolt calls visit for every pair, unless visit is nil. It accepts a missing file.
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
			// Iterating does not check the keys in the branch pages, by which Get finds a pair.
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
