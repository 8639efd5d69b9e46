package state

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/engine/entry"
)

// What leaves a store as a backup and comes back as another store: every pair but
// those that mean nothing in another history. The feed is left out, for whoever
// follows it has followed the history that ends (see Rebirth). So are the terms of its
// leaders, and the membership, which is that of the cluster the backup was taken of.

// Export yields the pairs of a backup in the order of their keys, the head first. A
// pair is valid until the next one.
func (v *Snapshot) Export() iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) {
		for kv, err := range scanPairs(v.snap, nil, nil) {
			if err == nil && !exported(kv.Key) {
				continue
			}
			if !yield(kv, err) {
				return
			}
		}
	}
}

func exported(key []byte) bool {
	return len(key) > 0 && key[0] != prefixConfiguration && key[0] != prefixTerms && key[0] != prefixFeed
}

// Crossing is what went between a shard and another.
type Crossing struct {
	First, Next uint64 // of the ops sent there: those before First are forgotten, none has Next yet
	Received    uint64 // the last op applied of those that came from there
	Incarnation []byte // of the other shard, which Received counts within
}

// Crossings is what went between the snapshot's shard and each other.
func (v *Snapshot) Crossings() (map[uint32]Crossing, error) {
	outboxes, err := loadShards(v.snap, prefixOutbox, newOutbox)
	if err != nil {
		return nil, err
	}
	inboxes, err := loadShards(v.snap, prefixInbox, func() *Inbox { return &Inbox{} })
	if err != nil {
		return nil, err
	}
	all := map[uint32]Crossing{}
	for shard, o := range outboxes {
		all[shard] = Crossing{First: o.FirstSeq, Next: o.NextSeq}
	}
	for shard, in := range inboxes {
		c, ok := all[shard]
		if !ok {
			c.First, c.Next = 1, 1
		}
		c.Received, c.Incarnation = in.LastSeq, in.Incarnation
		all[shard] = c
	}
	return all, nil
}

// Rebirth makes a copy of a store the beginning of another history: what it was a
// copy of may go on beside it, and nothing that knows the one may take the other for
// it.
type Rebirth struct {
	Incarnation entry.Incarnation // of the copy
	// Renamed says which incarnation another shard has, that had the given one: it
	// was copied at the same moment. What was received of it stays received. ok =
	// false: it was not copied, and what it sends begins anew.
	Renamed func(shard uint32, old []byte) (incarnation entry.Incarnation, ok bool)
}

// feedLeap is how far a copy's feed begins behind what it was copied from, so that a
// cursor of the old history, which may have gone on since, is before all there is: to
// such a one a follower is told that it has missed something. Nobody's sequence grows
// as far within a history.
const feedLeap = 1 << 32

// apply changes a pair as the copy has it.
func (b *Rebirth) apply(kv KV) (KV, error) {
	switch {
	case bytes.Equal(kv.Key, headKey()):
		head := &Head{}
		if err := decode(kv, head); err != nil {
			return kv, err
		}
		head.Incarnation = b.Incarnation[:]
		head.FeedNextSeq += feedLeap
		head.FeedFirstSeq, head.FeedTrimmedBytes = head.FeedNextSeq, head.FeedBytes
		value, err := head.MarshalVT()
		return KV{kv.Key, value}, err
	case kv.Key[0] == prefixInbox:
		shard, err := decodeShardKey(kv.Key, prefixInbox)
		if err != nil {
			return kv, err
		}
		in := &Inbox{}
		if err := decode(kv, in); err != nil {
			return kv, err
		}
		renamed, ok := b.Renamed(shard, in.Incarnation)
		if in.Incarnation = renamed[:]; !ok {
			in.LastSeq = 0
		}
		value, err := in.MarshalVT()
		return KV{kv.Key, value}, err
	}
	return kv, nil
}

// importBytes is how much Import writes at once.
const importBytes = 1 << 20

// Import makes a store in dir, which must hold none, of what Export yielded, and
// opens it once to see that it can be, and where it is. After an error what is in dir
// is worth nothing.
func Import(dir string, o Options, pairs iter.Seq2[KV, error], b Rebirth) (at entry.Applied, err error) {
	s, err := Open(dir, o)
	if err != nil {
		return at, err
	}
	if at = s.Applied(); at.Index > 0 {
		return at, errors.Join(fmt.Errorf("there is a store in %s, at entry %d", dir, at.Index), s.Close())
	}
	err = s.fill(pairs, b)
	if err = errors.Join(err, s.Close()); err != nil {
		return at, err
	}
	if s, err = Open(dir, o); err != nil {
		return at, err
	}
	return s.Applied(), s.Close()
}

func (s *Store) fill(pairs iter.Seq2[KV, error], b Rebirth) error {
	batch := s.gen.db.NewBatch()
	defer func() { batch.Close() }()
	write := func() error {
		if batch.Empty() {
			return nil
		}
		if err := s.gen.db.Apply(batch, pebble.NoSync); err != nil {
			return s.failure.set(fmt.Errorf("write: %w", err))
		}
		err := batch.Close()
		batch = s.gen.db.NewBatch()
		return errors.Join(err, s.Err())
	}
	for kv, err := range pairs {
		if err != nil {
			return err
		}
		if !exported(kv.Key) {
			return errKey(kv.Key, "does not belong into a backup")
		}
		if kv, err = b.apply(kv); err != nil {
			return err
		}
		if err := batch.Set(kv.Key, kv.Value, nil); err != nil {
			return err
		}
		if batch.Len() >= importBytes {
			if err := write(); err != nil {
				return err
			}
		}
	}
	return write()
}
