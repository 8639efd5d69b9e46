package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
)

// Deliver applies the ops that another shard has sent, each once and in the order of their numbers. The numbers
// begin at 1 and have no gap. Ops that are already applied are skipped, so a delivery may be repeated. Deliver
// stops once the entry is full, but applies at least one new op, and the sender goes on after the number in the
// answer. Deliver is refused with STATE_CONFLICT if it begins after the next number, which the error names, or
// if it comes from this shard itself.
//
// The numbers belong to one incarnation of the sender. A restored sender has a new incarnation and cannot know
// which of its ops arrived before, so its ops begin at 1 again. The first Deliver of a new incarnation must
// begin at 1, or it is refused with STATE_CONFLICT. Ops of the earlier incarnation are not expected any more,
// because two histories of one shard must never run at the same time.
//
// Ops that travel are built so that they cannot be refused. If one is refused anyway, the replica stops.
// Skipping the op was rejected because its content would be lost. Waiting was rejected because it would delay
// all later ops without anybody knowing the reason.

// MaxDeliverItems is the largest number of ops in one Deliver.
const MaxDeliverItems = 1000

// travellers holds the numbers of the ops that one shard may send to another.
var travellers = map[entry.Number]bool{
	numArrive: true, numCreateJobs: true, numCountMember: true, numWatchJob: true, numSettleDependency: true,
	numPutResource: true, numDeleteResource: true, numNotifyWebhooks: true, numReturnBudget: true, numGrantBudget: true,
	numOpenBulk: true, numCountBulk: true, numCancelBulk: true,
}

// Validate refuses an op that no state could accept, or that has an invalid op among its items. It also refuses
// items that this binary does not know, before they reach the log and stop every replica.
func (o *Deliver) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("from", checkShard(o.From))
	if n := len(o.Incarnation); n != len(entry.Incarnation{}) {
		p.add("incarnation", fmt.Errorf("has %d bytes; an incarnation has %d", n, len(entry.Incarnation{})))
	}
	if o.FirstSeq == 0 {
		p.add("first_seq", errors.New("is missing; numbers begin at 1"))
	}
	p.length("items", len(o.Items), MaxDeliverItems)
	if len(o.Items) <= MaxDeliverItems {
		for i, item := range o.Items {
			_, sent, err := item.decode()
			if err == nil {
				err = sent.Validate()
			}
			p.item("items", i, "op", err)
		}
	}
	p.whole(o)
	return p.err()
}

// decode decodes the sent op and returns it with its row of the table.
func (s *Sent) decode() (*Kind, Op, error) {
	n := entry.Number(s.GetNumber())
	if !travellers[n] {
		return nil, nil, fmt.Errorf("op number %d is none that travels, as far as this binary knows: upgrade it", s.GetNumber())
	}
	k := KindOf(n)
	o, err := k.Decode(s.Op)
	return k, o, err
}

// Apply applies the items that are new on this shard.
func (o *Deliver) Apply(tx *state.Tx) (*DeliverResult, error) {
	var incarnation entry.Incarnation
	copy(incarnation[:], o.Incarnation)
	last, err := o.last(tx, incarnation)
	if err != nil {
		return nil, err
	}
	done := last
	for i, item := range o.Items {
		seq := o.FirstSeq + uint64(i)
		if seq <= last {
			continue
		}
		if tx.Full() && done > last {
			break // the sender goes on from there
		}
		k, sent, err := item.decode()
		if err == nil {
			_, err = k.Apply(tx, sent)
		}
		if err != nil {
			// Wrapping turns a refusal into an error that stops the replica.
			return nil, fmt.Errorf("op %d of shard %d: %w", seq, o.From, err)
		}
		done = seq
	}
	if done == last {
		return &DeliverResult{LastSeq: last}, nil
	}
	return &DeliverResult{LastSeq: done}, tx.PutInbox(o.From, incarnation, done)
}

// last returns the number of the last op that this shard applied from the sender's incarnation. It refuses
// items that leave a gap after that op, and a delivery from this shard itself.
func (o *Deliver) last(tx *state.Tx, incarnation entry.Incarnation) (uint64, error) {
	if o.From == tx.Shard() {
		return 0, api.Errorf(api.StateConflict, "this is shard %d itself: it sends itself nothing", o.From)
	}
	known, last := tx.Inbox(o.From)
	if last > 0 && known != incarnation {
		if o.FirstSeq != 1 {
			return 0, api.Errorf(api.StateConflict, "what shard %d sent last was of incarnation %x; those of %x begin with number 1, not %d", o.From, known[:], incarnation[:], o.FirstSeq)
		}
		last = 0
	}
	if o.FirstSeq > last+1 {
		return 0, api.Errorf(api.StateConflict, "the next op of shard %d has number %d, not %d", o.From, last+1, o.FirstSeq)
	}
	return last, nil
}

// send makes a shard apply an op that travels, once. This shard applies it in the running transaction,
// another shard when it is delivered there. send never refuses an op because the outbox is full. An op that
// must be refused in that case checks Tx.CanSend before it writes anything.
func send(tx *state.Tx, shard uint32, o Op) error {
	k := KindFor(o)
	if !travellers[k.Number] {
		return fmt.Errorf("%s does not travel", k.Name)
	}
	if shard == tx.Shard() {
		if _, err := k.Apply(tx, o); err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
		return nil
	}
	data, err := optable.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode %s: %w", k.Name, err)
	}
	return tx.Send(shard, uint32(k.Number), data)
}
