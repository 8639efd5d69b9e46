package store

import (
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
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
	numAddFleetRoot     entry.Number = 24
	numFoundNamespace   entry.Number = 25
	numRemoveHost       entry.Number = 26
	numPauseReconcile   entry.Number = 27
	numResumeReconcile  entry.Number = 28
	numDrainHost        entry.Number = 29
	numUndrainHost      entry.Number = 30
	numRecoverNamespace entry.Number = 31
	numRaiseLevel       entry.Number = 32
	numRotateFleetRoot  entry.Number = 33
	numRemoveProcess    entry.Number = 35
	numSwitchFleetRoot  entry.Number = 36
	numRetireFleetRoot  entry.Number = 37
	numSetPlan          entry.Number = 38
	numGrantCredit      entry.Number = 41
	numApproveRequest   entry.Number = 42
	numRevokeCredit     entry.Number = 43
	numCloseMonth       entry.Number = 44
	numRecordClaims     entry.Number = 45

	numProposeCorrection entry.Number = 46
	numRejectCorrection  entry.Number = 47
	numFinaliseInvoice   entry.Number = 48
	numSetSpendLimit     entry.Number = 52
	numRaiseSpendLimit   entry.Number = 53
	numRecordSpend       entry.Number = 54
)

// The classes of the ops. Ops of the leader, of hosts and of the reconciler come before the requests of
// people. So do revocations and changes of credentials and roles, because they can take rights away. Usage
// and the records of refused requests come last and are refused first, because their senders keep them and
// try again.
const (
	urgent = pipeline.ClassSettle
	people = pipeline.ClassEnqueue
	bulk   = pipeline.ClassManage
)

// table lists all ops by number. Their names appear in the audit log.
var table = optable.New([]*kind{
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
	numSetAsideUsage:    newKind(setAsideAction, bulk, (*SetAsideUsage).Apply),
	numRecordClaims:     newKind("record-claims", bulk, (*RecordClaims).Apply),
	numSetCredential:    newKind("set-credential", urgent, (*SetCredential).Apply),
	numRecordRefusals:   newKind("record-refusals", bulk, (*RecordRefusals).Apply),
	// A change of a role may take rights away, so it has the class of a revocation.
	numPutRole:          newKind("put-role", urgent, (*PutRole).Apply),
	numDeleteRole:       newKind("delete-role", urgent, (*DeleteRole).Apply),
	numRemoveAsideUsage: newKind("remove-aside-usage", people, (*RemoveAsideUsage).Apply),
	numAddFleetRoot:     newKind("add-fleet-root", urgent, (*AddFleetRoot).Apply),
	numFoundNamespace:   newKind("found-namespace", urgent, (*FoundNamespace).Apply),
	// It has the class of a revocation, because it revokes the host's credentials.
	numRemoveHost: newKind("remove-host", urgent, (*RemoveHost).Apply),
	// An operator pauses a namespace before the next step is made, so the pause has the steps' class.
	numPauseReconcile:  newKind("pause-reconcile", urgent, (*PauseReconcile).Apply),
	numResumeReconcile: newKind("resume-reconcile", people, (*ResumeReconcile).Apply),
	// Nothing more is placed on a host that is about to go, so its drain comes before requests of people.
	numDrainHost:   newKind("drain-host", urgent, (*DrainHost).Apply),
	numUndrainHost: newKind("undrain-host", people, (*UndrainHost).Apply),

	numRaiseLevel:      newKind("raise-level", urgent, (*RaiseLevel).Apply),
	numRemoveProcess:   newKind("remove-process", people, (*RemoveProcess).Apply),
	numRotateFleetRoot: newKind("rotate-fleet-root", people, (*RotateFleetRoot).Apply),
	numSwitchFleetRoot: newKind("switch-fleet-root", urgent, (*SwitchFleetRoot).Apply),
	numRetireFleetRoot: newKind("retire-fleet-root", urgent, (*RetireFleetRoot).Apply),
	numSetPlan:         newKind("set-plan", people, (*SetPlan).Apply),
	// It has the class of the steps, because the namespace is not served before.
	numRecoverNamespace: newKind("recover-namespace", urgent, (*RecoverNamespace).Apply),
	numGrantCredit:      newKind("grant-credit", people, (*GrantCredit).Apply),
	numApproveRequest:   newKind("approve-request", people, (*ApproveRequest).Apply),
	numRevokeCredit:     newKind("revoke-credit", people, (*RevokeCredit).Apply),
	numCloseMonth:       newKind("close-month", people, (*CloseMonth).Apply),

	numProposeCorrection: newKind("propose-correction", people, (*ProposeCorrection).Apply),
	numRejectCorrection:  newKind("reject-correction", people, (*RejectCorrection).Apply),
	numFinaliseInvoice:   newKind("finalise-invoice", bulk, (*FinaliseInvoice).Apply),
	numSetSpendLimit:     newKind("set-spend-limit", people, (*SetSpendLimit).Apply),
	numRaiseSpendLimit:   newKind("raise-spend-limit", people, (*RaiseSpendLimit).Apply),
	// It has the class of the steps, because jobs run on without it.
	numRecordSpend: newKind("record-spend", urgent, (*RecordSpend).Apply),
})

// op is one change.
type op interface {
	optable.Op
	GetMeta() *Meta
}

// Op is a change that Propose commits.
type Op = op

// result is the outcome of an op that was not refused.
type result = proto.Message

// kind is one row of the table of ops.
type kind = optable.Row[*Tx, op]

// newKind builds the row of an op from its Apply, whose signature names the types of the op and its result.
func newKind[O, R any, PO interface {
	*O
	op
}, PR interface {
	*R
	result
}](name string, class pipeline.Class, apply func(PO, *Tx) (PR, error)) *kind {
	return optable.NewRow[op](name, class, apply)
}
