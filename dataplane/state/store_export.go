package state

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/engine/entry"
)

// A backup holds every pair of the store that has a meaning in another history (see Rebirth). It leaves out
// the feed and the leaders' terms, because they serve followers of the history that was copied. It leaves out
// the membership and the list of members, because they belong to the old cluster: a copy that kept the list
// would try to add the old members.

// Export yields the pairs of a backup in the order of their keys, the head first. A pair is valid until the
// next one is yielded.
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
	return len(key) > 0 && key[0] != prefixConfiguration && key[0] != prefixTerms && key[0] != prefixMembers && key[0] != prefixFeed
}

// Crossing describes the ops exchanged between this shard and another.
type Crossing struct {
	First, Next uint64 // numbers of the ops sent there: those before First are trimmed, Next is not used yet
	Received    uint64 // number of the last op from there that was applied here; 0 if none was
	Incarnation []byte // incarnation of the other shard when it sent op Received; nil if none was applied
}

// Crossings returns the exchange with every shard that the snapshot's shard has sent ops to or received ops
// from.
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

// Rebirth turns a copy of a store into the beginning of another history. The original may go on beside the
// copy, so a follower must never take one of them for the other.
type Rebirth struct {
	Incarnation entry.Incarnation // incarnation of the copy
	// Renamed returns the new incarnation of another shard. ok reports whether that shard was copied at the
	// same moment, in the incarnation old: then the ops received from it stay received. If not, that shard
	// numbers its ops anew.
	Renamed func(shard uint32, old []byte) (incarnation entry.Incarnation, ok bool)
}

// feedLeap is added to the sequences of a copy's feed, so that every cursor of the old history lies before
// the copy's first event, although the original may go on after the copy. A follower with such a cursor gets
// ErrTrimmed and starts again. At 1,000 events a second, a shard takes 50 days for that many events.
const feedLeap = 1 << 32

// apply rewrites a pair for the copy.
func (b *Rebirth) apply(kv KV) (KV, error) {
	switch {
	case bytes.Equal(kv.Key, headKey()):
		head := &Head{}
		if err := decode(kv, head); err != nil {
			return kv, err
		}
		head.begin(b.Incarnation)
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

// begin makes the head the first one of a history that continues from the head's position.
func (h *Head) begin(incarnation entry.Incarnation) {
	h.Incarnation = incarnation[:]
	h.FeedNextSeq += feedLeap
	h.FeedFirstSeq, h.FeedTrimmedBytes = h.FeedNextSeq, h.FeedBytes
	h.MeteredNs = 0 // usage rows of the earlier history may have the quantities of the queues
}

// importBytes is the size of Import's write batches.
const importBytes = 1 << 20

// Import creates a store in dir from the pairs of Export, opens it once to verify it, and returns its
// position. It refuses a dir whose store has entries, and leaves that store as it is. After any other error
// the content of dir is useless.
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
