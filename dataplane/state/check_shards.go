package state

import (
	"errors"
	"fmt"
)

// outboxes checks that the ops to each shard are numbered without a gap from the first to the next, and that
// their bytes add up.
func (c *checker) outboxes() error {
	boxes, err := loadShards(c.v.snap, prefixOutbox, newOutbox)
	if err != nil {
		return err
	}
	if n := uint64(len(boxes)); n != c.v.head.OutboxRecords {
		c.report("there are %d outboxes, the head says %d", n, c.v.head.OutboxRecords)
	}
	type at struct{ next, bytes uint64 }
	seen := map[uint32]at{}
	for shard, box := range boxes {
		seen[shard] = at{box.FirstSeq, box.TrimmedBytes}
	}
	for row, err := range scanOutgoing(c.v.snap, []byte{prefixOutgoing}, afterPrefix(prefixOutgoing)) {
		if err != nil {
			return err
		}
		want := seen[row.shard]
		if row.Seq != want.next {
			c.report("there is op %d for shard %d where %d is next", row.Seq, row.shard, want.next)
		}
		want.bytes += uint64(len(row.Op.Op))
		if row.Op.EndBytes != want.bytes {
			c.report("op %d for shard %d ends at byte %d, the ops up to it at %d", row.Seq, row.shard, row.Op.EndBytes, want.bytes)
		}
		seen[row.shard] = at{row.Seq + 1, want.bytes}
	}
	for shard, box := range boxes {
		if got := seen[shard]; got.next != box.NextSeq || got.bytes != box.SentBytes {
			c.report("the ops for shard %d end before %d at byte %d, their outbox says %d at %d", shard, got.next, got.bytes, box.NextSeq, box.SentBytes)
		}
	}
	return nil
}

func (c *checker) inboxes() error {
	boxes, err := loadShards(c.v.snap, prefixInbox, func() *Inbox { return &Inbox{} })
	if err != nil {
		return err
	}
	if n := uint64(len(boxes)); n != c.v.head.InboxRecords {
		c.report("there are %d inboxes, the head says %d", n, c.v.head.InboxRecords)
	}
	for shard, box := range boxes {
		if shard == ShardOf(c.v.head.Group) || box.LastSeq == 0 {
			c.report("the inbox from shard %d has %d as its last, and this is shard %d", shard, box.LastSeq, ShardOf(c.v.head.Group))
		}
	}
	return nil
}

// forwards checks that no job both lies here and has a forward.
func (c *checker) forwards() error {
	n := uint64(0)
	for kv, err := range scanPairs(c.v.snap, []byte{prefixForward}, afterPrefix(prefixForward)) {
		if err != nil {
			return err
		}
		id, err := decodeForwardKey(kv.Key)
		if err != nil {
			return err
		}
		f := &Forward{}
		if err := decode(kv, f); err != nil {
			return err
		}
		n++
		if f.Shard == ShardOf(c.v.head.Group) || f.Move == 0 {
			c.report("job %s went to shard %d in its move %d, and this is shard %d", id, f.Shard, f.Move, ShardOf(c.v.head.Group))
		}
		j, err := c.v.Job(id)
		if err != nil {
			return errors.Join(fmt.Errorf("job %s, which has gone", id), err)
		}
		if j != nil {
			c.report("job %s is here and has gone to shard %d", id, f.Shard)
		}
	}
	if n != c.v.head.ForwardRecords {
		c.report("there are %d forwards, the head says %d", n, c.v.head.ForwardRecords)
	}
	return nil
}
