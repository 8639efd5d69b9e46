package store

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// FeatureLevel is the highest feature level that this binary understands. An entry with a higher level stops
// the replica.
const FeatureLevel = 1

// The numbers of the ops in the log are permanent. A new meaning needs a new op with the next number.
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
	numRemoveAsideUsage entry.Number = 22
)

// The classes of the ops. Revocations and the ops of the reconciler come before the requests of people. Usage
// comes last and is refused first, because its sender keeps it.
const (
	urgent = pipeline.ClassSettle
	people = pipeline.ClassEnqueue
	bulk   = pipeline.ClassManage
)

// table lists all ops by number.
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
	numRemoveAsideUsage: newKind("remove-aside-usage", people, (*RemoveAsideUsage).Apply),
}

// op is one change, as the pipeline proposes it and as the log stores it.
type op interface {
	pipeline.Op
	proto.Message
	GetMeta() *Meta
	UnmarshalVT([]byte) error
}

// result is the outcome of an op that was not refused.
type result interface {
	proto.Message
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// kind is one row of the table of ops.
type kind struct {
	number    entry.Number
	name      string // appears in the audit log
	class     pipeline.Class
	new       func() op
	newResult func() result
	apply     func(*Tx, op) (result, error)
	fields    func() *fields
}

// newKind builds the row of an op from its Apply, whose signature names the types of the op and its result.
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
		// Descriptors do not exist yet while package variables are initialised.
		fields: sync.OnceValue(func() *fields { return fieldsOf(zero.ProtoReflect().Descriptor()) }),
	}
}

// kindOf returns the row of a number; nil = unknown.
func kindOf(n entry.Number) *kind {
	if uint64(n) >= uint64(len(table)) {
		return nil
	}
	return table[n]
}

// decode decodes one op of an entry. It fails on a number, a field or bytes that this binary does not
// understand. The op shares no memory with the entry.
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
