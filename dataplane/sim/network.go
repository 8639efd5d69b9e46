package sim

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/op"
)

// network is what lies between a shard's clients and its log. It holds proposals
// up, so that they come in another order and when the world has moved on; it loses
// answers, so that the client's server proposes the very same op again, and it
// proposes ops twice. Only ops that say they can be repeated are.
type network struct {
	held []holdup
}

// holdup is a proposal on its way.
type holdup struct {
	op    op.Op
	steps int // until it arrives
}

// longest is how many steps of its shard a proposal is held up at most.
const longest = 12

func (n *network) delay(sh *shard, o op.Op) {
	n.held = append(n.held, holdup{o, 1 + sh.rng.IntN(longest)})
}

// lose has an op fall with the leader that appended it. Its server was told that
// the entry is gone: it tries again, or its client has given up.
func (n *network) lose(sh *shard, o op.Op) {
	if sh.rng.IntN(2) == 0 {
		n.delay(sh, o)
	}
}

// arriving are the proposals whose time has come, in any order.
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

// answer carries the answer of an op back, or does not.
func (n *network) answer(sh *shard, o op.Op) {
	if !(op.Codec{}).Repeats(o) {
		return
	}
	for sh.rng.IntN(8) == 0 {
		n.delay(sh, proto.Clone(o).(op.Op))
	}
}
