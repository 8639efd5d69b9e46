package state

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/corvo/corvo/dataplane/job"
)

// The first byte of a key gives its kind. The values are permanent. Small records come first; every start
// reads most of them. The indexes follow, apart from the wide records, so that the small keys of the indexes,
// which change all the time, share blocks only with each other.
const (
	prefixHead          = 0x01
	prefixConfiguration = 0x02
	prefixTerms         = 0x03
	prefixMembers       = 0x04
	prefixQueue         = 0x10
	prefixKey           = 0x11
	prefixOutbox        = 0x12
	prefixInbox         = 0x13
	prefixLock          = 0x14
	prefixSchedule      = 0x15
	prefixResource      = 0x16
	prefixLane          = 0x17
	prefixLaneChanges   = 0x18
	prefixReady         = 0x20
	prefixTimer         = 0x21
	prefixLaneReady     = 0x22
	prefixGate          = 0x23
	prefixSettled       = 0x24
	prefixJob           = 0x30
	prefixBlob          = 0x31
	prefixError         = 0x32
	prefixForward       = 0x33
	prefixBatch         = 0x34
	prefixBatchPayload  = 0x35
	prefixDependents    = 0x36
	prefixWaiter        = 0x37
	prefixIteration     = 0x38
	prefixScores        = 0x39
	prefixAccount       = 0x3a
	prefixTraffic       = 0x3b
	prefixAlert         = 0x3c
	prefixDelivery      = 0x3d
	prefixAttempted     = 0x3f
	prefixIdempotency   = 0x40
	prefixAudit         = 0x41
	prefixBulk          = 0x42
	prefixBulkPart      = 0x43
	prefixBulkWork      = 0x45
	prefixFeed          = 0x50
	prefixUsage         = 0x60
	prefixOutgoing      = 0x61
)

// keyspace is one row of the table of keys.
type keyspace struct {
	prefix byte
	name   string
	layout string // the part after the prefix
	value  string
	sample func() []byte // a key of this kind, for the golden file
}

// keyspaces is the table of keys; a store holds no others. Integers in keys are big-endian, so that keys sort
// as the numbers do. A "time" is Unix nanoseconds with the sign bit flipped, so that times before 1970 sort
// first.
var keyspaces = []keyspace{
	{prefixHead, "head", "", "Head", headKey},
	{prefixConfiguration, "configuration", "", "index 8 | raft's encoding of the membership", configurationKey},
	{prefixTerms, "terms", "", "Terms", termsKey},
	{prefixMembers, "members", "", "Members", membersKey},
	{prefixQueue, "queue", "name", "Queue", func() []byte { return queueKey("emails") }},
	{prefixKey, "key", "id", "Key", func() []byte { return apiKeyKey("k1") }},
	{prefixOutbox, "outbox", "shard 4", "Outbox", func() []byte { return appendShardKey(nil, prefixOutbox, 258) }},
	{prefixInbox, "inbox", "shard 4", "Inbox", func() []byte { return appendShardKey(nil, prefixInbox, 258) }},
	{prefixLock, "lock", "kind 1 | queue | 00 | text", "Lock", func() []byte {
		return appendLockKey(nil, lockName{LockUnique, "emails", "user-7"})
	}},
	{prefixSchedule, "schedule", "id 16", "Schedule", func() []byte { return appendIDKey(nil, prefixSchedule, sampleID) }},
	{prefixResource, "resource", "kind 1 | name", "Resource", func() []byte {
		return appendResourceKey(nil, ResourceKind_RESOURCE_KIND_PROVIDER, "anthropic")
	}},
	{prefixLane, "lane", "queue | 00 | fairness key", "Lane", func() []byte { return appendLaneKey(nil, "emails", "acme") }},
	{prefixLaneChanges, "lane changes", "index of the entry 8", "LaneChanges", func() []byte { return appendLaneChangesKey(nil, 258) }},
	{prefixReady, "ready", "queue | 00 | priority 1 | number 8", "job id 16", func() []byte {
		return appendReadyKey(nil, "emails", job.Normal, 258)
	}},
	{prefixTimer, "timer", "class 1 | due time 8 | kind 1 | id 16", "nothing", func() []byte {
		return appendTimerKey(nil, timer{TimerLease, 258}, sampleID)
	}},
	{prefixLaneReady, "ready in a lane", "queue | 00 | fairness key | 00 | priority 1 | number 8", "job id 16", func() []byte {
		return appendReadyOf(nil, "emails", "acme", job.Normal, 258)
	}},
	{prefixGate, "gate", "gate 1 | name | 00 | priority 1 | number 8", "job id 16", func() []byte {
		return appendGateKey(nil, gateName{job.Gate_GATE_PROVIDER, "anthropic"}, job.Normal, 258)
	}},
	{prefixSettled, "settled", "queue | 00 | state 1 | time it settled 8 | job id 16", "nothing", func() []byte {
		return appendSettledKey(nil, "emails", job.Completed, 258, sampleID)
	}},
	{prefixJob, "job", "id 16", "Job", func() []byte { return appendJobKey(nil, sampleID) }},
	{prefixBlob, "blob", "id 16 | kind 1", "Blob", func() []byte { return appendBlobKey(nil, sampleID, job.Checkpoint) }},
	{prefixError, "error", "id 16 | attempt 4", "AttemptError", func() []byte { return appendErrorKey(nil, sampleID, 258) }},
	{prefixForward, "forward", "job id 16", "Forward", func() []byte { return appendForwardKey(nil, sampleID) }},
	{prefixBatch, "batch", "id 16", "Batch", func() []byte { return appendIDKey(nil, prefixBatch, sampleID) }},
	{prefixBatchPayload, "batch payload", "batch id 16", "Blob", func() []byte { return appendIDKey(nil, prefixBatchPayload, sampleID) }},
	{prefixDependents, "dependents", "job id 16", "Dependents", func() []byte { return appendIDKey(nil, prefixDependents, sampleID) }},
	{prefixWaiter, "waiter", "job id 16 | id of the job that waits for it 16", "Waiter", func() []byte { return appendWaiterKey(nil, sampleID, sampleID) }},
	{prefixIteration, "iteration", "job id 16 | number 4", "Iteration", func() []byte { return appendIterationKey(nil, sampleID, 258) }},
	{prefixScores, "scores", "job id 16", "Scores", func() []byte { return appendIDKey(nil, prefixScores, sampleID) }},
	{prefixAccount, "account", "budget's id 16", "Account", func() []byte { return appendIDKey(nil, prefixAccount, sampleID) }},
	{prefixTraffic, "traffic", "provider's id 16", "Traffic", func() []byte { return appendIDKey(nil, prefixTraffic, sampleID) }},
	{prefixAlert, "alert", "alert rule's id 16", "Alert", func() []byte { return appendIDKey(nil, prefixAlert, sampleID) }},
	{prefixDelivery, "delivery", "id 16", "Delivery", func() []byte { return appendIDKey(nil, prefixDelivery, sampleID) }},
	{prefixAttempted, "attempted", "webhook's id 16", "Attempted", func() []byte { return appendIDKey(nil, prefixAttempted, sampleID) }},
	{prefixIdempotency, "idempotency", "id 16", "Idempotency", func() []byte { return appendIdempotencyKey(nil, sampleID) }},
	{prefixAudit, "audit", "number of the record 8", "AuditRecord", func() []byte { return appendAuditKey(nil, 258) }},
	{prefixBulk, "bulk", "id 16", "Bulk", func() []byte { return appendIDKey(nil, prefixBulk, sampleID) }},
	{prefixBulkPart, "bulk part", "bulk operation's id 16", "BulkPart", func() []byte { return appendIDKey(nil, prefixBulkPart, sampleID) }},
	{prefixBulkWork, "bulk work", "bulk operation's id 16", "BulkWork", func() []byte { return appendIDKey(nil, prefixBulkWork, sampleID) }},
	{prefixFeed, "feed", "sequence of the first event 8", "FeedEntry", func() []byte { return appendFeedKey(nil, 258) }},
	{prefixUsage, "usage", "number of the row 8", "Usage", func() []byte { return appendUsageKey(nil, 258) }},
	{prefixOutgoing, "outgoing", "shard 4 | number on the way there 8", "Outgoing", func() []byte { return appendOutgoingKey(nil, 258, 259) }},
}

var sampleID = job.ID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// These are the lengths of keys of fixed length, in bytes.
const (
	timerKeyLen  = 1 + 1 + 8 + 1 + 16
	jobKeyLen    = 1 + 16
	blobKeyLen   = jobKeyLen + 1
	errorKeyLen  = jobKeyLen + 4
	feedKeyLen   = 1 + 8
	usageKeyLen  = 1 + 8
	shardKeyLen  = 1 + 4
	outKeyLen    = 1 + 4 + 8
	idKeyLen     = 1 + 16
	waiterKeyLen = 1 + 16 + 16
	iterKeyLen   = 1 + 16 + 4
)

func headKey() []byte             { return []byte{prefixHead} }
func configurationKey() []byte    { return []byte{prefixConfiguration} }
func termsKey() []byte            { return []byte{prefixTerms} }
func membersKey() []byte          { return []byte{prefixMembers} }
func queueKey(name string) []byte { return append([]byte{prefixQueue}, name...) }
func apiKeyKey(id string) []byte  { return append([]byte{prefixKey}, id...) }

// appendReadyKey appends the key of a ready job without a fairness key. The zero byte ends the queue's name.
// No name contains one, so the keys of different queues do not mix.
func appendReadyKey(b []byte, queue string, priority uint8, number uint64) []byte {
	b = append(b, prefixReady)
	b = append(b, queue...)
	b = append(b, 0, priority)
	return binary.BigEndian.AppendUint64(b, number)
}

// appendGateKey appends the key of a job at a gate. No name of a gate contains a zero byte.
func appendGateKey(b []byte, g gateName, priority uint8, number uint64) []byte {
	b = append(b, prefixGate, byte(g.kind))
	b = append(b, g.name...)
	b = append(b, 0, priority)
	return binary.BigEndian.AppendUint64(b, number)
}

// settledTail is the length of a settled key from the zero byte that ends the queue's name.
const settledTail = 1 + 1 + 8 + 16

// appendSettledKey appends the key of a job that settled in the state at settledNs.
func appendSettledKey(b []byte, queue string, s job.State, settledNs int64, id job.ID) []byte {
	b = append(append(append(b, prefixSettled), queue...), 0, byte(s))
	b = binary.BigEndian.AppendUint64(b, sortableTime(settledNs))
	return append(b, id[:]...)
}

// settledBound returns the least possible key of a job that settled in the state at settledNs.
func settledBound(queue string, s job.State, settledNs int64) []byte {
	return appendSettledKey(nil, queue, s, settledNs, job.ID{})
}

// settledEnd returns a key after every settled key of a queue and state.
func settledEnd(queue string, s job.State) []byte {
	return append(append([]byte{prefixSettled}, queue...), 0, byte(s)+1)
}

func decodeSettledKey(key []byte) (settledNs int64, id job.ID, err error) {
	if len(key) < 1+settledTail || key[0] != prefixSettled || key[len(key)-settledTail] != 0 {
		return 0, id, errKey(key, "not the key of a settled job")
	}
	at := key[len(key)-settledTail+2:]
	return timeFromSortable(binary.BigEndian.Uint64(at)), job.ID(at[8:]), nil
}

// appendReadyOf appends the key of a ready job that may have a fairness key. No fairness key contains a zero
// byte, so the jobs of different lanes do not mix.
func appendReadyOf(b []byte, queue, key string, priority uint8, number uint64) []byte {
	if key == "" {
		return appendReadyKey(b, queue, priority, number)
	}
	b = append(append(append(b, prefixLaneReady), queue...), 0)
	b = append(append(b, key...), 0, priority)
	return binary.BigEndian.AppendUint64(b, number)
}

func appendLaneKey(b []byte, queue, key string) []byte {
	b = append(append(append(b, prefixLane), queue...), 0)
	return append(b, key...)
}

func appendLaneChangesKey(b []byte, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, prefixLaneChanges), index)
}

// appendTimerKey appends the key of the timer t of the record with the id. The kind byte tells what the id
// names, so that a class may hold several kinds in the future.
func appendTimerKey(b []byte, t timer, id [16]byte) []byte {
	b = append(b, prefixTimer, byte(t.class))
	b = binary.BigEndian.AppendUint64(b, sortableTime(t.dueNs))
	b = append(b, timerKind(t.class))
	return append(b, id[:]...)
}

// The kinds of the records that timers belong to. The values are part of keys, so they are permanent.
const (
	timerKindJob         = 1
	timerKindIdempotency = 2
	timerKindBatch       = 3
	timerKindSchedule    = 4
	timerKindBudget      = 5
	timerKindDelivery    = 6
	timerKindBulk        = 7
)

func timerKind(class TimerClass) byte {
	switch class {
	case TimerIdempotency:
		return timerKindIdempotency
	case TimerBatch:
		return timerKindBatch
	case TimerSchedule:
		return timerKindSchedule
	case TimerBudget:
		return timerKindBudget
	case TimerDelivery, TimerDelivered:
		return timerKindDelivery
	case TimerBulk:
		return timerKindBulk
	}
	return timerKindJob
}

// timerBound returns the smallest possible key of a class at dueNs.
func timerBound(class TimerClass, dueNs int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixTimer, byte(class)}, sortableTime(dueNs))
}

// timerEnd returns a key after every key of a class.
func timerEnd(class TimerClass) []byte { return []byte{prefixTimer, byte(class) + 1} }

func appendJobKey(b []byte, id job.ID) []byte {
	return append(append(b, prefixJob), id[:]...)
}

func appendBlobKey(b []byte, id job.ID, kind job.BlobKind) []byte {
	b = append(append(b, prefixBlob), id[:]...)
	return append(b, byte(kind))
}

func appendErrorKey(b []byte, id job.ID, attempt uint32) []byte {
	b = append(append(b, prefixError), id[:]...)
	return binary.BigEndian.AppendUint32(b, attempt)
}

func appendIdempotencyKey(b []byte, id [16]byte) []byte {
	return append(append(b, prefixIdempotency), id[:]...)
}

func appendFeedKey(b []byte, firstSeq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, prefixFeed), firstSeq)
}

func appendUsageKey(b []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, prefixUsage), seq)
}

// appendShardKey appends the key of the outbox or inbox of a shard.
func appendShardKey(b []byte, prefix byte, shard uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, prefix), shard)
}

func appendOutgoingKey(b []byte, shard uint32, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(appendShardKey(b, prefixOutgoing, shard), seq)
}

func appendForwardKey(b []byte, id job.ID) []byte {
	return append(append(b, prefixForward), id[:]...)
}

// appendIDKey appends the key of a record of a kind that has at most one record for each id.
func appendIDKey(b []byte, prefix byte, id [16]byte) []byte {
	return append(append(b, prefix), id[:]...)
}

func appendWaiterKey(b []byte, id, waiter job.ID) []byte {
	return append(appendIDKey(b, prefixWaiter, id), waiter[:]...)
}

// appendLockKey appends the key of a lock. The zero byte ends the queue's name, as in a ready key. The text
// may contain any bytes.
func appendLockKey(b []byte, l lockName) []byte {
	b = append(b, prefixLock, byte(l.kind))
	b = append(b, l.queue...)
	b = append(b, 0)
	return append(b, l.text...)
}

func sortableTime(ns int64) uint64        { return uint64(ns) ^ 1<<63 }
func timeFromSortable(u uint64) int64     { return int64(u ^ 1<<63) }
func afterPrefix(prefix byte) []byte      { return []byte{prefix + 1} }
func errKey(key []byte, why string) error { return fmt.Errorf("key %x: %s", key, why) }

// readyKey is a decoded key of the ready index.
type readyKey struct {
	queue    string
	priority uint8
	number   uint64
}

func decodeReadyKey(key []byte) (readyKey, error) {
	const tail = 1 + 1 + 8
	if len(key) < 1+tail || key[0] != prefixReady || key[len(key)-tail] != 0 {
		return readyKey{}, errKey(key, "not a ready key")
	}
	return readyKey{
		queue:    string(key[1 : len(key)-tail]),
		priority: key[len(key)-9],
		number:   binary.BigEndian.Uint64(key[len(key)-8:]),
	}, nil
}

func decodeGateKey(key []byte) (gateName, error) {
	const tail = 1 + 1 + 8
	if len(key) < 2+tail || key[0] != prefixGate || key[len(key)-tail] != 0 {
		return gateName{}, errKey(key, "not the key of a job at a gate")
	}
	return gateName{job.Gate(key[1]), string(key[2 : len(key)-tail])}, nil
}

// readyNumber returns the job number in a ready key.
func readyNumber(key []byte) (uint64, error) {
	const tail = 1 + 1 + 8
	if len(key) < 1+tail || key[0] != prefixReady && key[0] != prefixLaneReady || key[len(key)-tail] != 0 {
		return 0, errKey(key, "not a ready key")
	}
	return binary.BigEndian.Uint64(key[len(key)-8:]), nil
}

func decodeLaneChangesKey(key []byte) (index uint64, err error) {
	if len(key) != 9 || key[0] != prefixLaneChanges {
		return 0, errKey(key, "not a key of lane changes")
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

func decodeTimerKey(key []byte) (timer, [16]byte, error) {
	if len(key) != timerKeyLen || key[0] != prefixTimer || key[10] != timerKind(TimerClass(key[1])) {
		return timer{}, [16]byte{}, errKey(key, "not a timer key")
	}
	due := timeFromSortable(binary.BigEndian.Uint64(key[2:]))
	return timer{TimerClass(key[1]), due}, [16]byte(key[11:]), nil
}

func decodeJobKey(key []byte) (job.ID, error) {
	if len(key) != jobKeyLen || key[0] != prefixJob {
		return job.ID{}, errKey(key, "not a job key")
	}
	return job.ID(key[1:]), nil
}

func decodeBlobKey(key []byte) (job.ID, job.BlobKind, error) {
	if len(key) != blobKeyLen || key[0] != prefixBlob || key[jobKeyLen] >= byte(job.BlobKinds) {
		return job.ID{}, 0, errKey(key, "not a blob key")
	}
	return job.ID(key[1:jobKeyLen]), job.BlobKind(key[jobKeyLen]), nil
}

func decodeErrorKey(key []byte) (id job.ID, attempt uint32, err error) {
	if len(key) != errorKeyLen || key[0] != prefixError {
		return job.ID{}, 0, errKey(key, "not an error key")
	}
	return job.ID(key[1:jobKeyLen]), binary.BigEndian.Uint32(key[jobKeyLen:]), nil
}

func decodeFeedKey(key []byte) (firstSeq uint64, err error) {
	if len(key) != feedKeyLen || key[0] != prefixFeed {
		return 0, errKey(key, "not a feed key")
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

func decodeUsageKey(key []byte) (seq uint64, err error) {
	if len(key) != usageKeyLen || key[0] != prefixUsage {
		return 0, errKey(key, "not a usage key")
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

func decodeShardKey(key []byte, prefix byte) (shard uint32, err error) {
	if len(key) != shardKeyLen || key[0] != prefix {
		return 0, errKey(key, "not the key of an outbox or inbox")
	}
	return binary.BigEndian.Uint32(key[1:]), nil
}

func decodeOutgoingKey(key []byte) (shard uint32, seq uint64, err error) {
	if len(key) != outKeyLen || key[0] != prefixOutgoing {
		return 0, 0, errKey(key, "not the key of an outgoing op")
	}
	return binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:]), nil
}

func decodeIDKey(key []byte, prefix byte) (id [16]byte, err error) {
	if len(key) != idKeyLen || key[0] != prefix {
		return id, errKey(key, "not the key of such a record")
	}
	return [16]byte(key[1:]), nil
}

func decodeWaiterKey(key []byte) (id, waiter job.ID, err error) {
	if len(key) != waiterKeyLen || key[0] != prefixWaiter {
		return id, waiter, errKey(key, "not a waiter's key")
	}
	return job.ID(key[1:17]), job.ID(key[17:]), nil
}

func decodeForwardKey(key []byte) (job.ID, error) {
	if len(key) != jobKeyLen || key[0] != prefixForward {
		return job.ID{}, errKey(key, "not the key of a forward")
	}
	return job.ID(key[1:]), nil
}

// latest is later than any timer.
const latest = math.MaxInt64
