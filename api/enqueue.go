package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// EnqueueRequest describes one new job. Only Queue is required. What is left open
// the queue's defaults decide, where it has some; else the ones given here.
type EnqueueRequest struct {
	Queue   string          `json:"queue"`
	Payload json.RawMessage `json:"payload,omitempty"` // any JSON, kept byte for byte; absent is {}

	Priority    Priority `json:"priority,omitempty"`     // default normal
	ScheduledAt Time     `json:"scheduled_at,omitempty"` // default now; the past is now
	// ExpireAfter is when the job's time is over, from its creation on: it is dead
	// then, also while it runs, and not retried. Default never; "0s" is never, whatever
	// the queue says.
	ExpireAfter Duration `json:"expire_after,omitempty"`

	MaxRetries         *int     `json:"max_retries,omitempty"`          // the most attempts, the first included; default 3
	RetryBackoff       string   `json:"retry_backoff,omitempty"`        // none, fixed, linear or exponential (the default)
	RetryBaseDelay     Duration `json:"retry_base_delay,omitempty"`     // delay before the first retry; default 5s
	RetryMaxDelay      Duration `json:"retry_max_delay,omitempty"`      // most a delay grows to; default 10m
	RetryJitterPercent *int     `json:"retry_jitter_percent,omitempty"` // how much of a delay varies, 0 to 100; default 0

	// UniqueKey is one that a single job of the queue has at a time. While another has
	// it nothing is created, and the answer names that other.
	UniqueKey    string `json:"unique_key,omitempty"`
	UniquePeriod int    `json:"unique_period,omitempty"` // seconds the job has the key at most; default 3600
	// UniqueUntil says whether the job gives its key back when it settles ("settled",
	// the default) or has it for the whole period ("period"): a duplicate is then
	// answered with the result of a job that has completed.
	UniqueUntil string `json:"unique_until,omitempty"`

	// DebounceKey and Debounce go together: the job is scheduled for that long from
	// now. Another enqueue with its key, while it waits, creates nothing: it has the job
	// wait anew, with the later payload, tags, headers and priority. They go neither
	// with ScheduledAt nor with UniqueKey.
	DebounceKey string   `json:"debounce_key,omitempty"`
	Debounce    Duration `json:"debounce,omitempty"`

	// ParentID is the job that made this one. It is kept as it is, to be read and
	// searched for: that job need not exist, nor does what becomes of it matter here.
	ParentID string `json:"parent_id,omitempty"`

	// FairnessKey is who the job is for, a customer for one: its queue shares itself out
	// among the keys of the jobs that wait, by the time that their jobs take.
	// FairnessWeight is the key's share from then on, 1 to 1000: one of weight 3 gets
	// three times what one of 1 does. Default: as before, first 1.
	FairnessKey    string `json:"fairness_key,omitempty"`
	FairnessWeight int    `json:"fairness_weight,omitempty"`
	// Model says what the job will use, before any usage tells it.
	Model string `json:"model,omitempty"`
	// CostEstimateUSD is what one attempt is expected to cost: budgets reserve it. Default:
	// what its agent may spend, else what the budget says.
	CostEstimateUSD *money.Reported `json:"cost_estimate_usd,omitempty"`

	Tags       Strings         `json:"tags,omitempty"`       // searchable
	Headers    Strings         `json:"headers,omitempty"`    // come back on fetch
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"` // given to the first attempt

	Agent *Agent `json:"agent,omitempty"` // it runs in iterations
	// ResultSchema is a JSON Schema (draft 7, 2019-09 or 2020-12; true or an object) that
	// the job's result has to match: an ack with another one fails the attempt. It
	// refers to no other documents.
	ResultSchema json.RawMessage `json:"result_schema,omitempty"`

	Chain            *Chain   `json:"chain,omitempty"`             // jobs to follow this one
	DependsOn        []string `json:"depends_on,omitempty"`        // ids of jobs it waits for, each once
	DependencyPolicy string   `json:"dependency_policy,omitempty"` // when one of them ends without success: fail (the default), hold or ignore
	Provider         string   `json:"provider,omitempty"`          // of models, whose limits it counts against; absent: its queue's
}

// What an enqueue says in Status of a job that it did not create.
const (
	StatusDuplicate = "duplicate" // another has its unique key
	StatusDebounced = "debounced" // another had its debounce key and was put off
)

// EnqueueResponse answers POST /enqueue and POST /webhooks/{queue}: 201, or 200
// where no job was created.
type EnqueueResponse struct {
	JobID          string `json:"job_id"`
	Status         string `json:"status"`          // pending, scheduled, duplicate or debounced
	UniqueExisting bool   `json:"unique_existing"` // JobID is that of a job that was there
	// Result is that of the job a duplicate names, where it has completed and keeps its
	// key for the whole period.
	Result json.RawMessage `json:"result,omitempty"`
}

// EnqueueBatchRequest creates all of its jobs or none.
type EnqueueBatchRequest struct {
	Jobs  []EnqueueRequest `json:"jobs"`
	Batch *NewBatch        `json:"batch,omitempty"` // absent: the jobs are of no batch
}

// EnqueueBatchResponse has an id and a result for each job, by position. It is
// answered with 201, or 200 where no job was created.
type EnqueueBatchResponse struct {
	JobIDs  []string          `json:"job_ids"`
	BatchID string            `json:"batch_id,omitempty"` // of the batch the jobs are members of
	Results []EnqueueResponse `json:"results,omitempty"`
}
