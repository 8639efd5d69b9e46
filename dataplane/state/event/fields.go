package event

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// field is a member of an event's data. Its value is JSON, or nil if it is unknown or does not apply.
type field struct {
	name  string
	value func(*moment) ([]byte, error)
}

// of returns a field that is computed from the records already read.
func of(name string, value func(*moment) []byte) field {
	return field{name, func(m *moment) ([]byte, error) { return value(m), nil }}
}

// attempt is the number of the attempt that the event is about.
var attempt = of("attempt", func(m *moment) []byte { return count(uint64(m.event.Attempt)) })

// These fields give the origin of a job, which no op changes. They are absent once the job is gone.
var (
	parentID   = of("parent_id", func(m *moment) []byte { return idText(m.job.GetOptions().GetParentId(), job.ID.String) })
	batchID    = of("batch_id", func(m *moment) []byte { return idText(m.job.GetBatch().GetBatchId(), job.BatchIDText) })
	chainID    = of("chain_id", func(m *moment) []byte { return idText(m.job.GetChain().GetChainId(), job.ID.ChainText) })
	scheduleID = of("schedule_id", func(m *moment) []byte { return idText(m.job.GetOptions().GetScheduleId(), job.ScheduleIDText) })
	replayOf   = of("replay_of", func(m *moment) []byte { return idText(m.job.GetOptions().GetReplayOf(), job.ID.String) })
	chainStep  = of("chain_step", func(m *moment) []byte {
		if m.job.GetChain() == nil {
			return nil
		}
		return number(uint64(m.job.Chain.Step))
	})
)

// These fields describe an attempt. They are known until a later attempt replaces it in the job's record.
// startedBy is also known from the attempt's error.
var (
	startedBy = field{"worker_id", func(m *moment) ([]byte, error) {
		if m.job.GetStartedNs() == m.clockNs {
			return text(m.job.GetLease().GetWorkerId()), nil
		}
		e, err := m.startedError()
		return text(e.GetWorkerId()), err
	}}
	startedOn = of("hostname", func(m *moment) []byte {
		if m.job.GetStartedNs() != m.clockNs {
			return nil
		}
		return text(m.job.GetLease().GetHostname())
	})
	completedBy = of("worker_id", func(m *moment) []byte {
		if m.job.GetCompletedNs() != m.clockNs {
			return nil
		}
		return text(m.job.GetLease().GetWorkerId())
	})
	durationMs = of("duration_ms", func(m *moment) []byte {
		if m.job.GetCompletedNs() != m.clockNs {
			return nil
		}
		return number(uint64(max(m.clockNs-m.job.GetStartedNs(), 0) / int64(time.Millisecond)))
	})
	iteration = of("iteration", func(m *moment) []byte {
		if m.job.GetAttempt() != m.event.Attempt {
			return nil // a later attempt may have ended another iteration
		}
		return count(uint64(m.job.GetDetail().GetIteration()))
	})
)

// These fields describe a rejected usage report.
var (
	usageReason         = of("reason", func(m *moment) []byte { return text(m.event.Usage.GetRejected()) })
	inputTokens         = of("input_tokens", func(m *moment) []byte { return amount(m.event.Usage.GetInputTokens()) })
	outputTokens        = of("output_tokens", func(m *moment) []byte { return amount(m.event.Usage.GetOutputTokens()) })
	cacheCreationTokens = of("cache_creation_tokens", func(m *moment) []byte { return amount(m.event.Usage.GetCacheCreationTokens()) })
	cacheReadTokens     = of("cache_read_tokens", func(m *moment) []byte { return amount(m.event.Usage.GetCacheReadTokens()) })
	usageModel          = of("model", func(m *moment) []byte { return text(m.event.Usage.GetModel()) })
	usageProvider       = of("provider", func(m *moment) []byte { return text(m.event.Usage.GetProvider()) })
	reportedCost        = of("cost_usd", func(m *moment) []byte {
		if !m.event.Usage.GetCostReported() {
			return nil
		}
		return []byte(money.Nano(m.event.Usage.CostNanoUsd).String())
	})
)

// These fields give the reason why an attempt or a job ended, and the time of the next attempt.
var (
	errorText = field{"error", func(m *moment) ([]byte, error) {
		e, err := m.attemptError()
		return text(e.GetError()), err
	}}
	lastError = field{"error", errorText.value}
	rejection = field{"reason", errorText.value}
	failedBy  = field{"worker_id", func(m *moment) ([]byte, error) {
		e, err := m.attemptError()
		return text(e.GetWorkerId()), err
	}}
	nextAttemptAt = field{"next_attempt_at", func(m *moment) ([]byte, error) {
		delayMs, ok, err := m.retryDelay()
		if !ok || err != nil {
			return nil, err
		}
		return timeText(m.clockNs + delayMs*int64(time.Millisecond)), nil
	}}
)

// These fields are known only while the job exists and is still in the state, or the attempt, of the event.
var (
	scheduledAt = of("scheduled_at", func(m *moment) []byte {
		if m.job.GetState() != job.Scheduled || m.job.Attempt > 0 {
			return nil
		}
		return timeText(m.job.ScheduledNs)
	})
	progress = field{"progress", func(m *moment) ([]byte, error) {
		if m.job.GetState() != job.Active || m.job.Attempt != m.event.Attempt {
			return nil, nil
		}
		b, err := m.from.Progress(m.id)
		if err != nil || b.GetKeyId() != "" || !json.Valid(b.GetData()) {
			return nil, err
		}
		return compact(b.Data), nil
	}}
	holdBy = of("by", func(m *moment) []byte {
		if m.job.GetState() != job.Held {
			return nil
		}
		return text(m.job.Detail.GetHold().Word())
	})
	holdName = of("name", func(m *moment) []byte {
		if m.job.GetState() != job.Held {
			return nil
		}
		return text(m.job.Detail.GetHoldBy())
	})
	holdReason = of("reason", func(m *moment) []byte {
		if m.job.GetState() != job.Held {
			return nil
		}
		return text(m.job.Detail.GetHoldReason())
	})
)

var (
	priority = of("priority", func(m *moment) []byte {
		if m.job == nil {
			return nil
		}
		return number(uint64(m.job.Priority))
	})
	fromQueue  = of("from_queue", func(m *moment) []byte { return text(m.event.FromQueue) })
	deletedFor = of("reason", func(m *moment) []byte {
		if m.event.Type == state.EventType_EVENT_PURGED {
			return text("retention")
		}
		return text("request")
	})
)

// These fields describe a score.
var (
	dimension  = of("dimension", func(m *moment) []byte { return text(m.event.Score.GetDimension()) })
	scoreValue = of("value", func(m *moment) []byte { return float(m.event.Score.GetValue()) })
	scorer     = of("scorer", func(m *moment) []byte { return text(m.event.Score.GetScorer()) })
)

// These fields describe a completed batch.
var (
	completedBatch = of("batch_id", func(m *moment) []byte { return idText(m.event.RecordId, job.BatchIDText) })
	total          = batchField("total", (*state.Batch).GetTotal)
	succeeded      = batchField("succeeded", (*state.Batch).GetSucceeded)
	failures       = batchField("failed", (*state.Batch).GetFailed)
	cancellations  = batchField("cancelled", (*state.Batch).GetCancelled)
	callbackJobID  = of("callback_job_id", func(m *moment) []byte { return idText(m.batch.GetCallbackJobId(), job.ID.String) })
)

func batchField(name string, value func(*state.Batch) uint64) field {
	return of(name, func(m *moment) []byte {
		if m.batch == nil {
			return nil
		}
		return number(value(m.batch))
	})
}

// These fields describe budgets, alert rules and webhooks.
var (
	budget = of("budget", func(m *moment) []byte {
		if m.job.GetState() == job.Held && m.job.Detail.GetHold() == job.Hold_HOLD_BUDGET {
			return text(m.job.Detail.HoldBy)
		}
		return text(m.account.GetName())
	})
	percent = of("percent", func(m *moment) []byte {
		most := uint32(0)
		for _, s := range m.account.GetSpent() {
			most = max(most, s.Alerted)
		}
		return count(uint64(most))
	})
	alert      = of("alert", func(m *moment) []byte { return text(m.alert.GetName()) })
	alertValue = of("value", func(m *moment) []byte {
		if m.alert == nil || m.alert.SinceNs != m.clockNs {
			return nil
		}
		return float(m.alert.Value)
	})
	webhook = of("webhook", func(m *moment) []byte { return text(m.webhook.GetName()) })
)

func idText(raw []byte, print func(job.ID) string) []byte {
	id, err := job.IDFromBytes(raw)
	if err != nil {
		return nil // the event or record has no such id
	}
	return quoted(print(id))
}

// text encodes a string as JSON; it returns nil for an empty one.
func text(s string) []byte {
	if s == "" {
		return nil
	}
	return quoted(s)
}

func number(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }

// count encodes a number; it returns nil for 0, which means unknown.
func count(n uint64) []byte {
	if n == 0 {
		return nil
	}
	return number(n)
}

func float(v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return strconv.AppendFloat(nil, v, 'g', -1, 64)
}
