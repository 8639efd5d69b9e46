package op

import (
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
)

// These are the permanent numbers of the ops in the log. A new meaning is a new op with the next number.
const (
	numEnqueue           entry.Number = 1
	numFetch             entry.Number = 2
	numAck               entry.Number = 3
	numFail              entry.Number = 4
	numHeartbeat         entry.Number = 5
	numSetQueue          entry.Number = 6
	numPromote           entry.Number = 7
	numReclaim           entry.Number = 8
	numPurgeIdempotency  entry.Number = 9
	numStartTerm         entry.Number = 10
	numTrimFeed          entry.Number = 11
	numCreateKey         entry.Number = 12
	numRevokeKey         entry.Number = 13
	numTrimUsage         entry.Number = 14
	numDeleteQueue       entry.Number = 15
	numRaiseLevel        entry.Number = 16
	numMoveJobs          entry.Number = 17
	numArrive            entry.Number = 18
	numDeliver           entry.Number = 19
	numTrimOutbox        entry.Number = 20
	numCancelJobs        entry.Number = 21
	numRetryJobs         entry.Number = 22
	numHoldJobs          entry.Number = 23
	numReleaseJobs       entry.Number = 24
	numRejectJobs        entry.Number = 25
	numDeleteJobs        entry.Number = 26
	numExpireJobs        entry.Number = 27
	numReleaseUnique     entry.Number = 28
	numPurgeJobs         entry.Number = 29
	numCreateJobs        entry.Number = 30
	numSealBatch         entry.Number = 31
	numCountMember       entry.Number = 32
	numPurgeBatches      entry.Number = 33
	numWatchJob          entry.Number = 34
	numSettleDependency  entry.Number = 35
	numResolveDependents entry.Number = 36
	numPutSchedule       entry.Number = 37
	numPauseSchedule     entry.Number = 38
	numDeleteSchedule    entry.Number = 39
	numRunSchedules      entry.Number = 40
	numClearQueue        entry.Number = 41
	numSweepQueue        entry.Number = 42
	numReplenish         entry.Number = 43
	numSetSettings       entry.Number = 44
	numPutResource       entry.Number = 45
	numDeleteResource    entry.Number = 46
	numSeedPrices        entry.Number = 47
	numTurnBudgets       entry.Number = 48
	numOpenGate          entry.Number = 49
	numScoreJob          entry.Number = 50
	numReplayJob         entry.Number = 51
	numSetAlerts         entry.Number = 52
	numReportDeliveries  entry.Number = 53
	numPurgeDeliveries   entry.Number = 54
	numQueueDelivery     entry.Number = 55
	numNotifyWebhooks    entry.Number = 56
	numReturnBudget      entry.Number = 57
	numGrantBudget       entry.Number = 58
	numBalanceBudgets    entry.Number = 59
	numStartBulk         entry.Number = 60
	numOpenBulk          entry.Number = 61
	numRunBulk           entry.Number = 62
	numCountBulk         entry.Number = 63
	numCancelBulk        entry.Number = 64
	numPurgeBulks        entry.Number = 65
	numRecordRequests    entry.Number = 66
	numTrimAudit         entry.Number = 67
	numSetKey            entry.Number = 68
	numRotateKey         entry.Number = 69
	numSetMembers        entry.Number = 70
	numRecordUsage       entry.Number = 71
)

// table has every op, by its number. init fills it, because an initializer would be a cycle: Deliver.Apply
// reads table.
var table *optable.Table[*Kind]

func init() {
	table = optable.New([]*Kind{
		numEnqueue:           kind("enqueue", pipeline.ClassEnqueue, RepeatAnswers, (*Enqueue).Apply),
		numFetch:             kind("fetch", pipeline.ClassFetch, RepeatAnswers, (*Fetch).Apply),
		numAck:               kind("ack", pipeline.ClassSettle, RepeatAnswers, (*Ack).Apply),
		numFail:              kind("fail", pipeline.ClassSettle, RepeatAnswers, (*Fail).Apply),
		numHeartbeat:         kind("heartbeat", pipeline.ClassSettle, RepeatAnswers, (*Heartbeat).Apply),
		numSetQueue:          kind("set-queue", pipeline.ClassManage, RepeatNever, (*SetQueue).Apply),
		numPromote:           kind("promote", pipeline.ClassSettle, RepeatHarmless, (*Promote).Apply),
		numReclaim:           kind("reclaim", pipeline.ClassSettle, RepeatHarmless, (*Reclaim).Apply),
		numPurgeIdempotency:  kind("purge-idempotency", pipeline.ClassSettle, RepeatHarmless, (*PurgeIdempotency).Apply),
		numStartTerm:         kind("start-term", pipeline.ClassSettle, RepeatHarmless, (*StartTerm).Apply),
		numTrimFeed:          kind("trim-feed", pipeline.ClassSettle, RepeatHarmless, (*TrimFeed).Apply),
		numCreateKey:         kind("create-key", pipeline.ClassManage, RepeatAnswers, (*CreateKey).Apply),
		numRevokeKey:         kind("revoke-key", pipeline.ClassManage, RepeatNever, (*RevokeKey).Apply),
		numTrimUsage:         kind("trim-usage", pipeline.ClassSettle, RepeatHarmless, (*TrimUsage).Apply),
		numDeleteQueue:       kind("delete-queue", pipeline.ClassManage, RepeatNever, (*DeleteQueue).Apply),
		numRaiseLevel:        kind("raise-level", pipeline.ClassManage, RepeatHarmless, (*RaiseLevel).Apply),
		numMoveJobs:          kind("move-jobs", pipeline.ClassManage, RepeatNever, (*MoveJobs).Apply),
		numArrive:            kind("arrive", pipeline.ClassEnqueue, RepeatHarmless, (*Arrive).Apply),
		numDeliver:           kind("deliver", pipeline.ClassEnqueue, RepeatHarmless, (*Deliver).Apply),
		numTrimOutbox:        kind("trim-outbox", pipeline.ClassSettle, RepeatHarmless, (*TrimOutbox).Apply),
		numCancelJobs:        kind("cancel-jobs", pipeline.ClassManage, RepeatHarmless, (*CancelJobs).Apply),
		numRetryJobs:         kind("retry-jobs", pipeline.ClassManage, RepeatNever, (*RetryJobs).Apply),
		numHoldJobs:          kind("hold-jobs", pipeline.ClassManage, RepeatNever, (*HoldJobs).Apply),
		numReleaseJobs:       kind("release-jobs", pipeline.ClassManage, RepeatNever, (*ReleaseJobs).Apply),
		numRejectJobs:        kind("reject-jobs", pipeline.ClassManage, RepeatNever, (*RejectJobs).Apply),
		numDeleteJobs:        kind("delete-jobs", pipeline.ClassManage, RepeatHarmless, (*DeleteJobs).Apply),
		numExpireJobs:        kind("expire-jobs", pipeline.ClassSettle, RepeatHarmless, (*ExpireJobs).Apply),
		numReleaseUnique:     kind("release-unique", pipeline.ClassSettle, RepeatHarmless, (*ReleaseUnique).Apply),
		numPurgeJobs:         kind("purge-jobs", pipeline.ClassSettle, RepeatHarmless, (*PurgeJobs).Apply),
		numCreateJobs:        kind("create-jobs", pipeline.ClassEnqueue, RepeatNever, (*CreateJobs).Apply),
		numSealBatch:         kind("seal-batch", pipeline.ClassManage, RepeatAnswers, (*SealBatch).Apply),
		numCountMember:       kind("count-member", pipeline.ClassSettle, RepeatNever, (*CountMember).Apply),
		numPurgeBatches:      kind("purge-batches", pipeline.ClassSettle, RepeatHarmless, (*PurgeBatches).Apply),
		numWatchJob:          kind("watch-job", pipeline.ClassSettle, RepeatHarmless, (*WatchJob).Apply),
		numSettleDependency:  kind("settle-dependency", pipeline.ClassSettle, RepeatNever, (*SettleDependency).Apply),
		numResolveDependents: kind("resolve-dependents", pipeline.ClassSettle, RepeatHarmless, (*ResolveDependents).Apply),
		numPutSchedule:       kind("put-schedule", pipeline.ClassManage, RepeatNever, (*PutSchedule).Apply),
		numPauseSchedule:     kind("pause-schedule", pipeline.ClassManage, RepeatNever, (*PauseSchedule).Apply),
		numDeleteSchedule:    kind("delete-schedule", pipeline.ClassManage, RepeatNever, (*DeleteSchedule).Apply),
		numRunSchedules:      kind("run-schedules", pipeline.ClassSettle, RepeatHarmless, (*RunSchedules).Apply),
		numClearQueue:        kind("clear-queue", pipeline.ClassManage, RepeatNever, (*ClearQueue).Apply),
		numSweepQueue:        kind("sweep-queue", pipeline.ClassSettle, RepeatHarmless, (*SweepQueue).Apply),
		numReplenish:         kind("replenish", pipeline.ClassSettle, RepeatHarmless, (*Replenish).Apply),
		numSetSettings:       kind("set-settings", pipeline.ClassManage, RepeatNever, (*SetSettings).Apply),
		numPutResource:       kind("put-resource", pipeline.ClassManage, RepeatNever, (*PutResource).Apply),
		numDeleteResource:    kind("delete-resource", pipeline.ClassManage, RepeatNever, (*DeleteResource).Apply),
		numSeedPrices:        kind("seed-prices", pipeline.ClassManage, RepeatHarmless, (*SeedPrices).Apply),
		numTurnBudgets:       kind("turn-budgets", pipeline.ClassSettle, RepeatHarmless, (*TurnBudgets).Apply),
		numOpenGate:          kind("open-gate", pipeline.ClassSettle, RepeatHarmless, (*OpenGate).Apply),
		numScoreJob:          kind("score-job", pipeline.ClassManage, RepeatNever, (*ScoreJob).Apply),
		numReplayJob:         kind("replay-job", pipeline.ClassManage, RepeatAnswers, (*ReplayJob).Apply),
		numSetAlerts:         kind("set-alerts", pipeline.ClassSettle, RepeatNever, (*SetAlerts).Apply),
		numReportDeliveries:  kind("report-deliveries", pipeline.ClassSettle, RepeatHarmless, (*ReportDeliveries).Apply),
		numPurgeDeliveries:   kind("purge-deliveries", pipeline.ClassSettle, RepeatHarmless, (*PurgeDeliveries).Apply),
		numQueueDelivery:     kind("queue-delivery", pipeline.ClassManage, RepeatNever, (*QueueDelivery).Apply),
		numNotifyWebhooks:    kind("notify-webhooks", pipeline.ClassSettle, RepeatHarmless, (*NotifyWebhooks).Apply),
		numReturnBudget:      kind("return-budget", pipeline.ClassSettle, RepeatNever, (*ReturnBudget).Apply),
		numGrantBudget:       kind("grant-budget", pipeline.ClassSettle, RepeatNever, (*GrantBudget).Apply),
		numBalanceBudgets:    kind("balance-budgets", pipeline.ClassSettle, RepeatHarmless, (*BalanceBudgets).Apply),
		numStartBulk:         kind("start-bulk", pipeline.ClassManage, RepeatAnswers, (*StartBulk).Apply),
		numOpenBulk:          kind("open-bulk", pipeline.ClassManage, RepeatNever, (*OpenBulk).Apply),
		numRunBulk:           kind("run-bulk", pipeline.ClassManage, RepeatHarmless, (*RunBulk).Apply),
		numCountBulk:         kind("count-bulk", pipeline.ClassManage, RepeatNever, (*CountBulk).Apply),
		numCancelBulk:        kind("cancel-bulk", pipeline.ClassManage, RepeatHarmless, (*CancelBulk).Apply),
		numPurgeBulks:        kind("purge-bulks", pipeline.ClassSettle, RepeatHarmless, (*PurgeBulks).Apply),
		numRecordRequests:    kind("record-requests", pipeline.ClassManage, RepeatAnswers, (*RecordRequests).Apply),
		numTrimAudit:         kind("trim-audit", pipeline.ClassSettle, RepeatHarmless, (*TrimAudit).Apply),
		numSetKey:            kind("set-key", pipeline.ClassManage, RepeatNever, (*SetKey).Apply),
		numRotateKey:         kind("rotate-key", pipeline.ClassManage, RepeatNever, (*RotateKey).Apply),
		numSetMembers:        kind("set-members", pipeline.ClassManage, RepeatNever, (*SetMembers).Apply).from(2),
		numRecordUsage:       kind("record-usage", pipeline.ClassSettle, RepeatHarmless, (*RecordUsage).Apply).from(2),
	})
}

// Op is one change of the state.
type Op interface {
	optable.Op
	GetMeta() *Meta
}

// Result is the answer of an op that was not refused.
type Result = proto.Message

// Kind is one row of the op table.
type Kind struct {
	*optable.Row[*state.Tx, Op]
	Repeats Repeat
}

// kind returns the row of an op. It derives the types of the op and its result from the type of apply.
func kind[O, R any, PO interface {
	*O
	Op
}, PR interface {
	*R
	Result
}](name string, class pipeline.Class, repeats Repeat, apply func(PO, *state.Tx) (PR, error)) *Kind {
	return &Kind{Row: optable.NewRow[Op](name, class, apply), Repeats: repeats}
}

// from sets the feature level that a namespace needs for the op.
func (k *Kind) from(level uint32) *Kind {
	k.Since = level
	return k
}

// Kinds returns the op table in the order of its numbers.
func Kinds() []*Kind { return table.Rows() }

// KindOf returns the row of a number, or nil if this binary has none.
func KindOf(n entry.Number) *Kind { return table.Row(n) }

// KindFor returns the row of an op, or nil if the table has none.
func KindFor(o Op) *Kind { return table.Of(o) }

// Proposal returns an op in the form that the engine takes.
func Proposal(o Op) pipeline.Op { return table.Proposal(o) }
