package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/engine/entry"
)

// Sender describes another shard of a namespace whose groups are refounded together.
type Sender struct {
	Incarnation entry.Incarnation // the new one
	First, Next uint64            // numbers of the ops that its outbox holds for this store: from First to before Next
}

// Refound makes the closed store in dir the beginning of the history with the given incarnation, at the store's
// position. As after a restore (see Rebirth), the feed and the leaders' terms are gone, and so are the membership and
// the list of members. senders holds the other shards of the namespace. A crash leaves the store as it was or
// refounded; a store of the new history is left as it is.
//
// The copies of two shards are not of one moment, because each group has lost its own last entries. So the number of the
// last op received from a sender is moved into the sender's outbox: an op that was received and is not known to the
// sender may come again, and one that the sender has forgotten does not come.
//
// Usage rows keep their numbers, and UsageHistories says which of them the earlier history has numbered.
func Refound(dir string, o Options, incarnation entry.Incarnation, senders map[uint32]Sender) error {
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	if s.Applied().Incarnation != incarnation {
		if err = s.refound(incarnation, senders); err == nil {
			err = s.Flush()
		}
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("refound the store in %s: %w", dir, err)
	}
	return nil
}

// refound writes the changes in one batch, so that a flush has all of them or none.
func (s *Store) refound(incarnation entry.Incarnation, senders map[uint32]Sender) error {
	batch := s.gen.db.NewBatch()
	defer batch.Close()
	for _, prefix := range []byte{prefixConfiguration, prefixTerms, prefixMembers, prefixFeed} {
		if err := batch.DeleteRange([]byte{prefix}, afterPrefix(prefix), nil); err != nil {
			return err
		}
	}
	head := s.head.Load().copy()
	head.UsageHistories = append(head.UsageHistories[:len(head.UsageHistories):len(head.UsageHistories)],
		&UsageHistory{Incarnation: head.Incarnation, NextSeq: head.UsageNextSeq})
	head.begin(incarnation)
	for shard, sender := range senders {
		in := s.inboxes[shard]
		if in == nil {
			if sender.First <= 1 {
				continue
			}
			in = &Inbox{}
			head.InboxRecords++
		}
		in.Incarnation, in.LastSeq = sender.Incarnation[:], min(max(in.LastSeq, sender.First-1), sender.Next-1)
		if err := put(batch, appendShardKey(nil, prefixInbox, shard), in); err != nil {
			return err
		}
	}
	if err := put(batch, headKey(), head); err != nil {
		return err
	}
	return s.gen.db.Apply(batch, pebble.NoSync)
}
