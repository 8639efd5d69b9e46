package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Deliver applies what another shard has sent, each op once and in the order of
// their numbers, which begin at 1 and have no gap. What has been applied is
// skipped, so a delivery may be repeated; one that begins after the next number is
// refused with STATE_CONFLICT, which names that number.
//
// The numbers are those of one incarnation of the sender. A sender that was
// restored has another, and cannot know which of its ops arrived before; so what it
// has to send begins at 1 again, and a Deliver of a new incarnation that does not
// is refused with STATE_CONFLICT. Ops of the earlier incarnation are not expected
// any more: two histories of one shard must not run at the same time, here as
// everywhere.
//
// What travels is made such that it cannot be refused. An op that is, though, stops
// the replica: to skip it would lose what it carries, and to wait for it would hold
// up all that comes after without anybody knowing why.

// MaxDeliverItems is how many ops one Deliver carries at most.
const MaxDeliverItems = 1000

// travellers are the ops that one shard may send another. Deliver's Apply needs
// rows of the table that it is in itself, so they are looked up when that is made.
var travellers map[entry.Number]*Kind

func init() {
	travellers = map[entry.Number]*Kind{}
	for _, n := range [...]entry.Number{numArrive, numPlace, numCountMember, numWatch, numMet, numPutResource, numDeleteResource, numTellWebhooks,
		numReturnBudget, numGrantBudget, numOpenBulk, numCountBulk, numCancelBulk} {
		travellers[n] = table[n]
	}
}

// Number is Deliver's number in the log.
func (*Deliver) Number() entry.Number { return numDeliver }

// Class is Deliver's place among waiting proposals.
func (*Deliver) Class() pipeline.Class { return table[numDeliver].Class }

// Validate refuses what no state could accept. Ops that this binary does not know
// are found here, before they are in the log and stop every replica.
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

// decode is the op that was sent, and its row.
func (s *Sent) decode() (*Kind, Op, error) {
	k := travellers[entry.Number(s.GetNumber())]
	if k == nil {
		return nil, nil, fmt.Errorf("op number %d is none that travels, as far as this binary knows: upgrade it", s.GetNumber())
	}
	if err := k.schema().check(s.Op); err != nil {
		return nil, nil, fmt.Errorf("decode %s: %w", k.Name, err)
	}
	o := k.New()
	if err := o.UnmarshalVT(s.Op); err != nil {
		return nil, nil, fmt.Errorf("decode %s: %w", k.Name, err)
	}
	return k, o, nil
}

// Apply applies the ops that are new here.
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
			_, err = k.apply(tx, sent)
		}
		if err != nil {
			// Wrapped, a refusal is no answer any more but something impossible.
			return nil, fmt.Errorf("op %d of shard %d: %w", seq, o.From, err)
		}
		done = seq
	}
	if done == last {
		return &DeliverResult{LastSeq: last}, nil
	}
	return &DeliverResult{LastSeq: done}, tx.PutInbox(o.From, incarnation, done)
}

// last is the number of the last op applied of those the items belong to; refused
// where they do not follow.
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

// send has a shard apply an op that travels, once: this one in the running
// transaction, another as soon as it is delivered there. An op that may be refused
// asks Tx.CanSend first.
func send(tx *state.Tx, shard uint32, o Op) error {
	k := travellers[o.Number()]
	if k == nil {
		return fmt.Errorf("op number %d does not travel", o.Number())
	}
	if shard == tx.Shard() {
		if _, err := k.apply(tx, o); err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
		return nil
	}
	data := make([]byte, o.SizeVT())
	if _, err := o.MarshalToSizedBufferVT(data); err != nil {
		return fmt.Errorf("encode %s: %w", k.Name, err)
	}
	return tx.Send(shard, uint32(k.Number), data)
}
