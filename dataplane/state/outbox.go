package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
)

// MaxOutboxOps and MaxOutboxBytes bound the ops that wait for another shard before CanSend reports that there
// is no room. An op that may be refused asks CanSend. So while a shard is unreachable, only ops of that kind
// are refused, and only those that would send there. CanSend accepts an op while both numbers are below their
// bounds, so these ops exceed MaxOutboxBytes by at most one op.
//
// Send itself never refuses an op for lack of room, because the consequences of a settled job cannot wait:
// its worker is done, and a refused ack would make the work run again. These consequences are bounded too, by
// the jobs of this shard. Each job sends, once in its life, at most the next step of its chain or the two
// jobs that follow the chain's end, one count to its batch, and one message to each job that waits for it.
// All of these were admitted before. For each budget that shards share, each shard has at most one request in
// transit, and each request has its answers; other messages about budgets wait for room. A bound inside Send,
// with room reserved for the ops that must go, was rejected: the size of the reserve depends on every job of
// the shard and would have to be counted.
const (
	MaxOutboxOps   = 10_000
	MaxOutboxBytes = 64 << 20
)

// OutboxState describes the ops that wait for another shard: those numbered from First to before Next.
type OutboxState struct {
	Shard       uint32
	First, Next uint64
	Bytes       uint64
}

// Ops returns the number of waiting ops.
func (o OutboxState) Ops() uint64 { return o.Next - o.First }

// OutgoingRow is an op for another shard and its number. The numbers start at 1 and have no gap. A restored
// backup gives the numbers after its last op again, in its new incarnation.
type OutgoingRow struct {
	Seq uint64
	Op  *Outgoing
}

// newOutbox returns an outbox without any ops.
func newOutbox() *Outbox { return &Outbox{NextSeq: 1, FirstSeq: 1} }

func (o *Outbox) bytes() uint64 { return o.SentBytes - o.TrimmedBytes }

// ShardOf returns the number of the shard whose group has the name "<namespace>/<shard>". A group with
// another form of name is the only shard of its namespace, number 0.
func ShardOf(group string) uint32 {
	_, number, ok := strings.Cut(group, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return 0
	}
	return uint32(n)
}

// Shard returns the number of this store's shard, or 0 before its first entry.
func (s *Store) Shard() uint32 { return ShardOf(s.head.Load().Group) }

// Shard returns the number of this store's shard.
func (tx *Tx) Shard() uint32 { return ShardOf(tx.head.Group) }

// CanSend reports whether an op that may be refused may send one more op to a shard; see MaxOutboxOps.
func (tx *Tx) CanSend(shard uint32) bool {
	o := tx.s.outboxes[shard]
	if o == nil {
		return true
	}
	return o.NextSeq-o.FirstSeq < tx.s.options.outboxOps && o.bytes() < tx.s.options.outboxBytes
}

// Send makes another shard apply an op, given by the number of its type and its encoding, once and after all
// ops sent there before. The op goes out after the entry is committed. The caller must not send an op that
// the other shard would refuse. Send accepts the op even if the outbox is full; MaxOutboxOps says which
// callers must ask CanSend first.
func (tx *Tx) Send(shard, number uint32, op []byte) error {
	if err := tx.send(shard, number, op); err != nil {
		return tx.fail(fmt.Errorf("send op %d to shard %d: %w", number, shard, err))
	}
	return nil
}

func (tx *Tx) send(shard, number uint32, op []byte) error {
	switch {
	case shard == tx.Shard():
		return fmt.Errorf("it is this shard")
	case shard >= job.Slots:
		return fmt.Errorf("shards are below %d", job.Slots)
	}
	o := tx.outbox(shard)
	row := &Outgoing{Number: number, Op: op, EndBytes: o.SentBytes + uint64(len(op))}
	tx.key = appendOutgoingKey(tx.key[:0], shard, o.NextSeq)
	if err := put(tx.batch, tx.key, row); err != nil {
		return err
	}
	o.NextSeq++
	o.SentBytes = row.EndBytes
	tx.documents += uint64(len(op))
	tx.outboxes[shard] = true
	return nil
}

// outbox returns the outbox of a shard and marks it as changed.
func (tx *Tx) outbox(shard uint32) *Outbox {
	if tx.outboxes == nil {
		tx.outboxes = map[uint32]bool{}
	}
	if _, touched := tx.outboxes[shard]; !touched {
		tx.outboxes[shard] = false
	}
	o := tx.s.outboxes[shard]
	if o == nil {
		o = newOutbox()
		tx.s.outboxes[shard] = o
		tx.head.OutboxRecords++
	}
	return o
}

// Outbox describes the ops that wait for a shard, as the entry's earlier ops left them.
func (tx *Tx) Outbox(shard uint32) OutboxState {
	o := tx.s.outboxes[shard]
	if o == nil {
		o = newOutbox()
	}
	return stateOf(shard, o)
}

func stateOf(shard uint32, o *Outbox) OutboxState {
	return OutboxState{Shard: shard, First: o.FirstSeq, Next: o.NextSeq, Bytes: o.bytes()}
}

// TrimOutbox removes the ops to a shard up to and including the given number, which an earlier entry must
// have sent. It does nothing if they are removed already.
func (tx *Tx) TrimOutbox(shard uint32, upTo uint64) error {
	if err := tx.trimOutbox(shard, upTo); err != nil {
		return tx.fail(fmt.Errorf("trim the outbox to shard %d up to %d: %w", shard, upTo, err))
	}
	return nil
}

func (tx *Tx) trimOutbox(shard uint32, upTo uint64) error {
	has := tx.Outbox(shard)
	if upTo < has.First {
		return nil
	}
	last := &Outgoing{}
	found, err := get(tx.s.gen.db, appendOutgoingKey(nil, shard, upTo), last)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("no earlier entry has sent it: there are those from %d to before %d", has.First, has.Next)
	}
	// One range tombstone covers them, as in the feed.
	if err := tx.batch.DeleteRange(appendOutgoingKey(nil, shard, has.First), appendOutgoingKey(nil, shard, upTo+1), nil); err != nil {
		return err
	}
	o := tx.outbox(shard)
	o.FirstSeq, o.TrimmedBytes = upTo+1, last.EndBytes
	return nil
}

// encodeOutboxes writes the records of the outboxes and inboxes that the entry changed.
func (tx *Tx) encodeOutboxes() error {
	for shard := range tx.outboxes {
		tx.key = appendShardKey(tx.key[:0], prefixOutbox, shard)
		if err := put(tx.batch, tx.key, tx.s.outboxes[shard]); err != nil {
			return err
		}
	}
	for shard := range tx.inboxes {
		tx.key = appendShardKey(tx.key[:0], prefixInbox, shard)
		if err := put(tx.batch, tx.key, tx.s.inboxes[shard]); err != nil {
			return err
		}
	}
	return nil
}

// Outboxes returns the outboxes as of the last commit by shard, including empty ones. The caller must not
// change them.
func (s *Store) Outboxes() []OutboxState { return *s.outboxesRead.Load() }

// publishOutboxes makes the current outboxes visible to readers.
func (s *Store) publishOutboxes() {
	all := make([]OutboxState, 0, len(s.outboxes))
	for _, shard := range slices.Sorted(maps.Keys(s.outboxes)) {
		all = append(all, stateOf(shard, s.outboxes[shard]))
	}
	s.outboxesRead.Store(&all)
}

// Outgoing returns the committed ops to a shard from fromSeq on, or from the first stored one if that is
// later. It returns at most maxOps ops and maxBytes bytes, but at least one op if there is any.
func (s *Store) Outgoing(shard uint32, fromSeq uint64, maxOps int, maxBytes uint64) (rows []OutgoingRow, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	size := uint64(0)
	for row, err := range scanOutgoing(s.gen.db, appendOutgoingKey(nil, shard, fromSeq), appendOutgoingKey(nil, shard+1, 0)) {
		if err != nil {
			return nil, err
		}
		size += uint64(len(row.Op.Op))
		if len(rows) > 0 && (len(rows) >= maxOps || size > maxBytes) {
			break
		}
		rows = append(rows, row.OutgoingRow)
	}
	return rows, nil
}
