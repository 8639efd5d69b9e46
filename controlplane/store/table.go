package store

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// FeatureLevel is the highest feature level this binary understands; an entry
// written at a higher one stops the replica.
const FeatureLevel = 1

// The numbers of the ops as they stand in the log: permanent. A new meaning is a
// new op with the next number.
const (
	numStartTerm        entry.Number = 1
	numCreateOrg        entry.Number = 2
	numCreateNamespace  entry.Number = 3
	numUpdateNamespace  entry.Number = 4
	numDeleteNamespace  entry.Number = 5
	numPlaceNamespace   entry.Number = 6
	numSettleNamespace  entry.Number = 7
	numRemoveNamespace  entry.Number = 8
	numCreateCredential entry.Number = 9
	numRotateCredential entry.Number = 10
	numRevokeCredential entry.Number = 11
	numCreateHost       entry.Number = 12
	numJoinHost         entry.Number = 13
	numApplyUsage       entry.Number = 14
	numAddSigningKey    entry.Number = 15
	numSetAsideUsage    entry.Number = 16
	numSetCredential    entry.Number = 18
	numRecordRefusals   entry.Number = 19
	numPutRole          entry.Number = 20
	numDeleteRole       entry.Number = 21
)

// The classes of the ops. What closes doors and what the reconciler does comes
// before what people ask for; usage, which its sender keeps, comes last and is
// refused first.
const (
	urgent = pipeline.ClassSettle
	people = pipeline.ClassEnqueue
	bulk   = pipeline.ClassManage
)

// table is every op there is, by number.
var table = [...]*kind{
	numStartTerm:        newKind("start-term", urgent, (*StartTerm).Apply),
	numCreateOrg:        newKind("create-org", people, (*CreateOrg).Apply),
	numCreateNamespace:  newKind("create-namespace", people, (*CreateNamespace).Apply),
	numUpdateNamespace:  newKind("update-namespace", people, (*UpdateNamespace).Apply),
	numDeleteNamespace:  newKind("delete-namespace", people, (*DeleteNamespace).Apply),
	numPlaceNamespace:   newKind("place-namespace", urgent, (*PlaceNamespace).Apply),
	numSettleNamespace:  newKind("settle-namespace", urgent, (*SettleNamespace).Apply),
	numRemoveNamespace:  newKind("remove-namespace", urgent, (*RemoveNamespace).Apply),
	numCreateCredential: newKind("create-credential", people, (*CreateCredential).Apply),
	numRotateCredential: newKind("rotate-credential", people, (*RotateCredential).Apply),
	numRevokeCredential: newKind("revoke-credential", urgent, (*RevokeCredential).Apply),
	numCreateHost:       newKind("create-host", people, (*CreateHost).Apply),
	numJoinHost:         newKind("join-host", urgent, (*JoinHost).Apply),
	numApplyUsage:       newKind("apply-usage", bulk, (*ApplyUsage).Apply),
	numAddSigningKey:    newKind("add-signing-key", urgent, (*AddSigningKey).Apply),
	numSetAsideUsage:    newKind("set-aside-usage", bulk, (*SetAsideUsage).Apply),
	numSetCredential:    newKind("set-credential", urgent, (*SetCredential).Apply),
	numRecordRefusals:   newKind("record-refusals", bulk, (*RecordRefusals).Apply),
	numPutRole:          newKind("put-role", urgent, (*PutRole).Apply),
	numDeleteRole:       newKind("delete-role", urgent, (*DeleteRole).Apply),
}

// op is one change: what the pipeline needs of it, and what it takes to read it
// back from the log.
type op interface {
	pipeline.Op
	proto.Message
	GetMeta() *Meta
	UnmarshalVT([]byte) error
}

// result is what an op answers when it was not refused.
type result interface {
	proto.Message
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// kind is one row of the table of ops.
type kind struct {
	number    entry.Number
	name      string // stands in the audit log
	class     pipeline.Class
	new       func() op
	newResult func() result
	apply     func(*Tx, op) (result, error)
	fields    func() *fields
}

// newKind makes the row of an op from its Apply, whose types say the rest.
func newKind[O, R any, PO interface {
	*O
	op
}, PR interface {
	*R
	result
}](name string, class pipeline.Class, apply func(PO, *Tx) (PR, error)) *kind {
	zero := PO(new(O))
	return &kind{
		number:    zero.Number(),
		name:      name,
		class:     class,
		new:       func() op { return PO(new(O)) },
		newResult: func() result { return PR(new(R)) },
		apply: func(tx *Tx, o op) (result, error) {
			r, err := apply(o.(PO), tx)
			if err != nil {
				return nil, err
			}
			return r, nil
		},
		// Descriptors are not there yet while package variables are made.
		fields: sync.OnceValue(func() *fields { return fieldsOf(zero.ProtoReflect().Descriptor()) }),
	}
}

// kindOf is the row of a number; nil when this binary has none.
func kindOf(n entry.Number) *kind {
	if uint64(n) >= uint64(len(table)) {
		return nil
	}
	return table[n]
}

// decode reads one op of an entry. It fails on a number, a field or bytes that
// this binary does not understand. The op shares no memory with the entry.
func decode(framed entry.Op) (op, error) {
	k := kindOf(framed.Number)
	if k == nil {
		return nil, fmt.Errorf("op number %d is not known to this binary: upgrade it", framed.Number)
	}
	if err := k.fields().check(framed.Bytes); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k.name, err)
	}
	o := k.new()
	if err := o.UnmarshalVT(framed.Bytes); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k.name, err)
	}
	return o, nil
}
