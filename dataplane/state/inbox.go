package state

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/corvo/corvo/engine/entry"
)

// Inbox returns the incarnation of another shard and the number of its last op that was applied here; both
// are zero if none was.
func (tx *Tx) Inbox(from uint32) (incarnation entry.Incarnation, last uint64) {
	in := tx.s.inboxes[from]
	if in == nil {
		return incarnation, 0
	}
	copy(incarnation[:], in.Incarnation)
	return incarnation, in.LastSeq
}

// PutInbox records the number of the last applied op of another shard. Within one incarnation the number must
// not decrease.
func (tx *Tx) PutInbox(from uint32, incarnation entry.Incarnation, last uint64) error {
	in := tx.s.inboxes[from]
	switch {
	case from == tx.Shard():
		return tx.fail(fmt.Errorf("shard %d is this shard and sends itself nothing", from))
	case in != nil && bytes.Equal(in.Incarnation, incarnation[:]) && last < in.LastSeq:
		return tx.fail(fmt.Errorf("op %d of shard %d was applied, and now it should be %d", in.LastSeq, from, last))
	case in == nil:
		in = &Inbox{}
		tx.s.inboxes[from] = in
		tx.head.InboxRecords++
	}
	in.Incarnation, in.LastSeq = incarnation[:], last
	if tx.inboxes == nil {
		tx.inboxes = map[uint32]bool{}
	}
	tx.inboxes[from] = true
	return nil
}

// outgoingRow is a stored row and its destination.
type outgoingRow struct {
	shard uint32
	OutgoingRow
}

func scanOutgoing(r source, lower, upper []byte) iter.Seq2[outgoingRow, error] {
	return func(yield func(outgoingRow, error) bool) {
		for kv, err := range scanPairs(r, lower, upper) {
			row := outgoingRow{OutgoingRow: OutgoingRow{Op: &Outgoing{}}}
			if err == nil {
				row.shard, row.Seq, err = decodeOutgoingKey(kv.Key)
			}
			if err == nil {
				err = decode(kv, row.Op)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// loadShards reads the outboxes or inboxes, by shard.
func loadShards[R record](r source, prefix byte, empty func() R) (map[uint32]R, error) {
	all := map[uint32]R{}
	for kv, err := range scanPairs(r, []byte{prefix}, afterPrefix(prefix)) {
		if err != nil {
			return nil, err
		}
		shard, err := decodeShardKey(kv.Key, prefix)
		if err != nil {
			return nil, err
		}
		rec := empty()
		if err := decode(kv, rec); err != nil {
			return nil, err
		}
		all[shard] = rec
	}
	return all, nil
}
