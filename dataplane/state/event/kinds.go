package event

import (
	"slices"

	"github.com/corvo/corvo/dataplane/state"
)

// kind is an event that clients receive.
type kind struct {
	event  state.EventType
	word   string
	fields []field // members of its data, in order
}

// kinds lists the events that clients receive: each event that changes a job's state, and others that
// somebody may wait for. The remaining events of the feed are only for the view, such as a renewed lease or a
// changed record.
//
// Several events share one word if they mean the same to a client.
var kinds = []kind{
	{state.EventType_EVENT_ENQUEUED, "enqueued", []field{parentID, batchID, chainID, chainStep, scheduleID, replayOf}},
	{state.EventType_EVENT_SCHEDULED, "scheduled", []field{scheduledAt, parentID, batchID, chainID, chainStep, scheduleID, replayOf}},
	{state.EventType_EVENT_DEBOUNCED, "scheduled", []field{scheduledAt, parentID, batchID, chainID, chainStep, scheduleID, replayOf}},
	{state.EventType_EVENT_PROMOTED, "promoted", []field{attempt}},
	{state.EventType_EVENT_STARTED, "started", []field{attempt, startedBy, startedOn}},
	{state.EventType_EVENT_RETURNED, "returned", []field{attempt}},
	{state.EventType_EVENT_PROGRESS, "progress", []field{attempt, progress}},
	{state.EventType_EVENT_CHECKPOINTED, "checkpointed", []field{attempt}},
	{state.EventType_EVENT_FAILED, "failed", []field{attempt, errorText, failedBy, nextAttemptAt}},
	{state.EventType_EVENT_RECLAIMED, "reclaimed", []field{attempt, failedBy, nextAttemptAt}},
	{state.EventType_EVENT_RETRYING, "retrying", []field{attempt, nextAttemptAt}},
	{state.EventType_EVENT_COMPLETED, "completed", []field{attempt, completedBy, durationMs}},
	{state.EventType_EVENT_CONTINUED, "continued", []field{attempt, iteration}},
	{state.EventType_EVENT_HELD, "held", []field{attempt, holdBy, holdName, holdReason}},
	{state.EventType_EVENT_APPROVED, "approved", []field{attempt}},
	{state.EventType_EVENT_REJECTED, "rejected", []field{attempt, rejection}},
	{state.EventType_EVENT_CANCELLING, "cancelling", []field{attempt}},
	{state.EventType_EVENT_CANCELLED, "cancelled", []field{attempt}},
	{state.EventType_EVENT_EXPIRED, "expired", []field{attempt}},
	{state.EventType_EVENT_DEAD, "dead", []field{attempt, lastError}},
	{state.EventType_EVENT_REVIVED, "revived", []field{attempt}},
	{state.EventType_EVENT_PRIORITY_CHANGED, "priority_changed", []field{attempt, priority}},
	{state.EventType_EVENT_MOVED, "moved", []field{attempt, fromQueue}},
	{state.EventType_EVENT_ARRIVED, "moved", []field{attempt, fromQueue}},
	{state.EventType_EVENT_DELETED, "deleted", []field{attempt, deletedFor}},
	{state.EventType_EVENT_PURGED, "deleted", []field{attempt, deletedFor}},
	{state.EventType_EVENT_DUPLICATE, "unique_duplicate", nil},
	{state.EventType_EVENT_CHAIN_ADVANCED, "chain_advanced", []field{chainID, chainStep}},
	{state.EventType_EVENT_REPLAYED, "replayed", nil},
	{state.EventType_EVENT_SCORED, "scored", []field{dimension, scoreValue, scorer}},
	{state.EventType_EVENT_BATCH_COMPLETED, "batch_completed", []field{completedBatch, total, succeeded, failures, cancellations, callbackJobID}},
	{state.EventType_EVENT_QUEUE_PAUSED, "queue_paused", nil},
	{state.EventType_EVENT_QUEUE_RESUMED, "queue_resumed", nil},
	{state.EventType_EVENT_QUEUE_CLEARED, "queue_cleared", nil},
	{state.EventType_EVENT_QUEUE_DELETED, "queue_deleted", nil},
	{state.EventType_EVENT_USAGE_REJECTED, "usage_rejected", []field{attempt, usageReason, inputTokens, outputTokens, cacheCreationTokens, cacheReadTokens, usageModel, usageProvider, reportedCost}},
	{state.EventType_EVENT_BUDGET_ALERT, "budget_alert", []field{budget, percent}},
	{state.EventType_EVENT_BUDGET_EXCEEDED, "budget_exceeded", []field{attempt, budget}},
	{state.EventType_EVENT_ALERT_FIRED, "alert_fired", []field{alert, alertValue}},
	{state.EventType_EVENT_ALERT_RESOLVED, "alert_resolved", []field{alert, alertValue}},
	{state.EventType_EVENT_WEBHOOK_DISABLED, "webhook_disabled", []field{webhook}},
}

// Types lists the words of all events, each once.
var Types = func() (words []string) {
	for _, k := range kinds {
		if !slices.Contains(words, k.word) {
			words = append(words, k.word)
		}
	}
	return words
}()

// byType indexes kinds by event.
var byType = func() map[state.EventType]*kind {
	m := make(map[state.EventType]*kind, len(kinds))
	for i := range kinds {
		m[kinds[i].event] = &kinds[i]
	}
	return m
}()

// Word returns the clients' name of an event; ok is false if they do not receive events of the type.
func Word(t state.EventType) (word string, ok bool) {
	k := byType[t]
	if k == nil {
		return "", false
	}
	return k.word, true
}
