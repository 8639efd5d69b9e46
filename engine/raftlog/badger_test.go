package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestACrashInADeletionLeavesWholeEntries ends a deletion of entries of several parts after each of its keys, as a
// crash between two transactions would, and reads all entries.
func TestACrashInADeletionLeavesWholeEntries(t *testing.T) {
	t.Parallel()
	for _, upwards := range []bool{true, false} {
		t.Run(fmt.Sprintf("upwards=%v", upwards), func(t *testing.T) {
			t.Parallel()
			db, err := badger.Open(badger.DefaultOptions("").WithInMemory(true).WithLogger(nil))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			b := &badgerBackend{db: db}
			put := &badgerWrite{db: db, tx: db.NewTransaction(true)}
			for index := range uint64(3) {
				record := bytes.Repeat([]byte{byte(index)}, 2*badgerPart+1) // three parts
				if err := put.put(pair{entryKey(index + 1), record}); err != nil {
					t.Fatal(err)
				}
			}
			if err := put.tx.Commit(); err != nil {
				t.Fatal(err)
			}
			keys, err := b.keys(1, 3)
			if err != nil || len(keys) != 9 {
				t.Fatalf("%d keys: %v", len(keys), err)
			}
			orderDeletion(keys, upwards)
			for n, key := range keys {
				if err := db.Update(func(tx *badger.Txn) error { return tx.Delete(key) }); err != nil {
					t.Fatal(err)
				}
				var left []uint64
				err := b.entries(func(index uint64, _ []byte) error {
					if len(left) > 0 && index != left[len(left)-1]+1 {
						return errors.New("a hole")
					}
					left = append(left, index)
					return nil
				})
				if want := 2 - n/3; err != nil || len(left) != want {
					t.Fatalf("after %d of %d keys %v are left, want %d entries: %v", n+1, len(keys), left, want, err)
				}
			}
		})
	}
}
