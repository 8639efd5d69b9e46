package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
)

// What may wait for another shard before CanSend says that there is no room. An op
// that may be refused asks, so a shard that cannot be reached costs the moves to it.
// Bytes are taken as long as fewer wait, so such ops exceed them by at most one.
//
// Send itself refuses nothing, for what follows from a job that settles cannot wait:
// its worker is done, and to refuse the ack would have the work done again. That is
// bounded all the same, by the jobs that are here. Each sends, once in its life, no
// more than the next step of its chain or what ends it, one count to its batch, and
// a word to each job that waits for it; all of them were admitted before. Of budgets
// that shards share each shard has one ask on its way, and each ask its answers; what
// else is told of them waits while there is no room. A bound
// that holds in Send, with room kept free for what must go, was rejected: how much
// that is depends on every job of the shard, and would have to be counted.
const (
	MaxOutboxOps   = 10_000
	MaxOutboxBytes = 64 << 20
)

// OutboxState is what waits for another shard: the ops numbered from First to
// before Next.
type OutboxState struct {
	Shard       uint32
	First, Next uint64
	Bytes       uint64
}

// Ops is how many ops wait.
func (o OutboxState) Ops() uint64 { return o.Next - o.First }

// OutgoingRow is an op on its way, with its number there: numbers begin at 1 and
// have no gap for as long as the store's incarnation lasts.
type OutgoingRow struct {
	Seq uint64
	Op  *Outgoing
}

// newOutbox is the outbox of a shard that nothing was sent to.
func newOutbox() *Outbox { return &Outbox{NextSeq: 1, FirstSeq: 1} }

func (o *Outbox) bytes() uint64 { return o.SentBytes - o.TrimmedBytes }

// ShardOf is the number of the shard whose group has the name: "<namespace>/<shard>".
// A group that is named otherwise is the only shard of its namespace.
func ShardOf(group string) uint32 {
	_, number, ok := strings.Cut(group, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return 0
	}
	return uint32(n)
}

// Shard is the number of the shard this store is of; 0 before its first entry.
func (s *Store) Shard() uint32 { return ShardOf(s.head.Load().Group) }

// Shard is the number of the shard this store is of.
func (tx *Tx) Shard() uint32 { return ShardOf(tx.head.Group) }

// CanSend says whether an op that could also be refused may send one more to a
// shard; see MaxOutboxOps.
func (tx *Tx) CanSend(shard uint32) bool {
	o := tx.s.outboxes[shard]
	if o == nil {
		return true
	}
	return o.NextSeq-o.FirstSeq < tx.s.options.outboxOps && o.bytes() < tx.s.options.outboxBytes
}

// Send has another shard apply an op, by its number and encoding, once and after
// all that was sent there before: it goes out when the entry has been committed.
// What the shard would refuse must not be sent. It is sent also where there is no
// room; see MaxOutboxOps for who asks and who need not.
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

// outbox is the outbox of a shard, to be changed.
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

// Outbox is what waits for a shard, as the entry leaves it.
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

// TrimOutbox forgets the ops sent to a shard up to the given number, which must be
// that of one sent by an earlier entry; what is forgotten already stays so.
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
	// One range tombstone, as in the feed.
	if err := tx.batch.DeleteRange(appendOutgoingKey(nil, shard, has.First), appendOutgoingKey(nil, shard, upTo+1), nil); err != nil {
		return err
	}
	o := tx.outbox(shard)
	o.FirstSeq, o.TrimmedBytes = upTo+1, last.EndBytes
	return nil
}

// encodeOutboxes writes the records of the outboxes and inboxes the entry changed.
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

// Outboxes are the outboxes as of the last commit, by shard, the empty ones too.
// Read only.
func (s *Store) Outboxes() []OutboxState { return *s.outboxesRead.Load() }

// publishOutboxes makes readers see the outboxes as they are.
func (s *Store) publishOutboxes() {
	all := make([]OutboxState, 0, len(s.outboxes))
	for _, shard := range slices.Sorted(maps.Keys(s.outboxes)) {
		all = append(all, stateOf(shard, s.outboxes[shard]))
	}
	s.outboxesRead.Store(&all)
}

// Outgoing are the committed ops on their way to a shard, from a number on, or
// from the first one kept where that is later: as many as there are, up to the
// bounds, but one at least.
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
