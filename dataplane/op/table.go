package op

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// FeatureLevel is the highest feature level this binary understands; an entry
// written at a higher one stops the replica.
const FeatureLevel = 1

// The numbers of the ops as they stand in the log: permanent. A new meaning is a
// new op with the next number.
const (
	numEnqueue     entry.Number = 1
	numFetch       entry.Number = 2
	numAck         entry.Number = 3
	numFail        entry.Number = 4
	numHeartbeat   entry.Number = 5
	numSetQueue    entry.Number = 6
	numPromote     entry.Number = 7
	numReclaim     entry.Number = 8
	numExpire      entry.Number = 9
	numStartTerm   entry.Number = 10
	numTrimFeed    entry.Number = 11
	numCreateKey   entry.Number = 12
	numRevokeKey   entry.Number = 13
	numTrimUsage   entry.Number = 14
	numDeleteQueue entry.Number = 15
)

// table is every op there is, by number.
var table = [...]*Kind{
	numEnqueue:     kind("enqueue", pipeline.ClassEnqueue, (*Enqueue).Apply),
	numFetch:       kind("fetch", pipeline.ClassFetch, (*Fetch).Apply),
	numAck:         kind("ack", pipeline.ClassSettle, (*Ack).Apply),
	numFail:        kind("fail", pipeline.ClassSettle, (*Fail).Apply),
	numHeartbeat:   kind("heartbeat", pipeline.ClassSettle, (*Heartbeat).Apply),
	numSetQueue:    kind("set-queue", pipeline.ClassManage, (*SetQueue).Apply),
	numPromote:     kind("promote", pipeline.ClassSettle, (*Promote).Apply),
	numReclaim:     kind("reclaim", pipeline.ClassSettle, (*Reclaim).Apply),
	numExpire:      kind("expire", pipeline.ClassSettle, (*Expire).Apply),
	numStartTerm:   kind("start-term", pipeline.ClassSettle, (*StartTerm).Apply),
	numTrimFeed:    kind("trim-feed", pipeline.ClassSettle, (*TrimFeed).Apply),
	numCreateKey:   kind("create-key", pipeline.ClassManage, (*CreateKey).Apply),
	numRevokeKey:   kind("revoke-key", pipeline.ClassManage, (*RevokeKey).Apply),
	numTrimUsage:   kind("trim-usage", pipeline.ClassSettle, (*TrimUsage).Apply),
	numDeleteQueue: kind("delete-queue", pipeline.ClassManage, (*DeleteQueue).Apply),
}

// Op is one change: what the pipeline needs of it, and what it takes to read it
// back from the log.
type Op interface {
	pipeline.Op
	proto.Message
	GetMeta() *Meta
	UnmarshalVT([]byte) error
}

// Result is what an op answers when it was not refused.
type Result interface {
	proto.Message
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// Kind is one row of the op table.
type Kind struct {
	Number    entry.Number
	Name      string // for people: metrics labels, errors, logs
	Class     pipeline.Class
	New       func() Op
	NewResult func() Result

	apply  func(*state.Tx, Op) (Result, error)
	schema func() *schema
}

// kind makes the row of an op from its Apply, whose types say the rest.
func kind[O, R any, PO interface {
	*O
	Op
}, PR interface {
	*R
	Result
}](name string, class pipeline.Class, apply func(PO, *state.Tx) (PR, error)) *Kind {
	zero := PO(new(O))
	return &Kind{
		Number:    zero.Number(),
		Name:      name,
		Class:     class,
		New:       func() Op { return PO(new(O)) },
		NewResult: func() Result { return PR(new(R)) },
		apply: func(tx *state.Tx, o Op) (Result, error) {
			result, err := apply(o.(PO), tx)
			if err != nil {
				return nil, err
			}
			return result, nil
		},
		// Descriptors are not there yet while package variables are made.
		schema: sync.OnceValue(func() *schema { return schemaOf(zero.ProtoReflect().Descriptor()) }),
	}
}

// Kinds is the op table in the order of its numbers. Read only.
func Kinds() []*Kind { return table[1:] }

// KindOf is the row of a number; nil when this binary has none.
func KindOf(n entry.Number) *Kind {
	if uint64(n) >= uint64(len(table)) {
		return nil
	}
	return table[n]
}
