package raftlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// boltBackend keeps a log in one file, a B+tree. An append writes every page on the path from the root and
// syncs twice. The file never shrinks: freed space is reused, so the file keeps the largest size that the log
// had, plus at most 16 MiB.
//
// It uses bbolt directly. raft-boltdb was rejected because it is as thin as this and has no checksums; bbolt
// checks only its two meta pages.
type boltBackend struct{ db *bbolt.DB }

const boltFile = "log.bolt"

var boltBucket = []byte("log")

func openBolt(f *Factory, h *logDir) (_ Store, err error) {
	b, path := &boltBackend{}, filepath.Join(h.dir, boltFile)
	if err := checkBolt(path, nil); err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", h.dir, err)
	}
	err = guarded(func() (err error) {
		b.db, err = bbolt.Open(path, 0o644, &bbolt.Options{
			Timeout: boltTimeout,
			NoSync:  f.NoSync,
			// bbolt rebuilds the free list from the tree, which openBolt reads anyway. A free list in the
			// file would be written with every append.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		})
		if err != nil {
			return err
		}
		return b.db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(boltBucket)
			return err
		})
	})
	if err != nil {
		err = fmt.Errorf("open the log in %s: %w", h.dir, err)
		if b.db != nil {
			err = errors.Join(err, b.db.Close())
		}
		return nil, err
	}
	return keyed(h, b)
}

func (b *boltBackend) write(w *batch) error {
	return guarded(func() error {
		return b.db.Update(func(tx *bbolt.Tx) error {
			bucket := tx.Bucket(boltBucket)
			bucket.FillPercent = 1 // keys only grow, so a page that a split leaves half full is never filled
			if w.from != 0 {
				for index := w.from; index <= w.to; index++ {
					if err := bucket.Delete(entryKey(index)); err != nil {
						return err
					}
				}
			}
			for _, put := range w.puts {
				if err := bucket.Put(put.key, put.value); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (b *boltBackend) get(key []byte) (value []byte, err error) {
	err = guarded(func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			if found := tx.Bucket(boltBucket).Get(key); found != nil {
				value = append([]byte{}, found...)
			}
			return nil
		})
	})
	return value, err
}

func (b *boltBackend) entries(visit func(uint64, []byte) error) error {
	return guarded(func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			c := tx.Bucket(boltBucket).Cursor()
			for key, record := c.Seek([]byte{entryPrefix}); key != nil; key, record = c.Next() {
				if len(key) != entryKeyBytes {
					return fmt.Errorf("a key of %d bytes among the entries: %w", len(key), errDamaged)
				}
				if err := visit(entryIndex(key), record); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (*boltBackend) reclaim() error { return nil }

func (b *boltBackend) close() error { return b.db.Close() }
