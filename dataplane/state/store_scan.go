package state

import (
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// KV is one stored pair.
type KV struct{ Key, Value []byte }

// scanPairs yields the pairs with lower <= key < upper; a nil bound is open. A pair is valid until the next
// one is yielded. An error is yielded once and ends the scan.
func scanPairs(r source, lower, upper []byte) iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) {
		it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			yield(KV{}, fmt.Errorf("scan from key %x: %w", lower, err))
			return
		}
		for ok := it.First(); ok; ok = it.Next() {
			kv := KV{Key: it.Key()}
			if kv.Value, err = it.ValueAndErr(); err != nil {
				break
			}
			if !yield(kv, nil) {
				// Close repeats the error of the last step, which had none.
				_ = it.Close()
				return
			}
		}
		if err = errors.Join(err, it.Close()); err != nil {
			yield(KV{}, fmt.Errorf("scan from key %x: %w", lower, err))
		}
	}
}

// scanKeys yields the keys of scanPairs.
func scanKeys(r source, lower, upper []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for kv, err := range scanPairs(r, lower, upper) {
			if !yield(kv.Key, err) {
				return
			}
		}
	}
}

// record is a generated message that can be decoded.
type record interface{ UnmarshalVT([]byte) error }

// scan yields the decoded records of one prefix in key order.
func scan[R record](r source, prefix byte, empty func() R) iter.Seq2[R, error] {
	return scanRange(r, []byte{prefix}, afterPrefix(prefix), empty)
}

func scanRange[R record](r source, lower, upper []byte, empty func() R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for kv, err := range scanPairs(r, lower, upper) {
			rec := empty()
			if err == nil {
				err = decode(kv, rec)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

func decode(kv KV, rec record) error {
	if err := rec.UnmarshalVT(kv.Value); err != nil {
		return fmt.Errorf("key %x: %w", kv.Key, err)
	}
	return nil
}

// scanAttempts yields the attempts of a job that have an error record.
func scanAttempts(r source, id job.ID) iter.Seq2[uint32, error] {
	return func(yield func(uint32, error) bool) {
		for key, err := range scanKeys(r, appendErrorKey(nil, id, 0), errorsEnd(id)) {
			var attempt uint32
			if err == nil {
				_, attempt, err = decodeErrorKey(key)
			}
			if !yield(attempt, err) || err != nil {
				return
			}
		}
	}
}

// errorsEnd returns a key after every error key of a job and before those of the next job.
func errorsEnd(id job.ID) []byte {
	return append(appendErrorKey(nil, id, 1<<32-1), 0)
}
