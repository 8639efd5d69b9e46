package sim

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/op"
)

// network lies between a shard's clients and its log. It delays proposals, so that they arrive in another
// order and when the state has changed; it loses answers, so that the client's server proposes the same op
// again; and it proposes ops twice. It repeats only ops that declare that they can be repeated.
type network struct {
	held []holdup
}

// holdup is a delayed proposal.
type holdup struct {
	op    op.Op
	steps int // until it arrives
}

// longest bounds the steps of its shard by which a proposal is delayed.
const longest = 12

func (n *network) delay(sh *shard, o op.Op) {
	n.held = append(n.held, holdup{o, 1 + sh.rng.IntN(longest)})
}

// lose drops an op with the leader that appended it. The server learns that the entry is lost. Either it
// proposes the op again, or the client has given up.
func (n *network) lose(sh *shard, o op.Op) {
	if sh.rng.IntN(2) == 0 {
		n.delay(sh, o)
	}
}

// arriving returns the proposals whose delay is over, in random order.
func (n *network) arriving(sh *shard) (ops []op.Op) {
	n.held = slices.DeleteFunc(n.held, func(h holdup) bool {
		if h.steps > 1 {
			return false
		}
		ops = append(ops, h.op)
		return true
	})
	for i := range n.held {
		n.held[i].steps--
	}
	sh.rng.Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
	return ops
}

// answer returns the answer of an op to its client, or loses it, so that the op is proposed again.
func (n *network) answer(sh *shard, o op.Op) {
	if !op.NewCodec().Repeats(op.Proposal(o)) {
		return
	}
	for sh.rng.IntN(8) == 0 {
		n.delay(sh, proto.Clone(o).(op.Op))
	}
}
