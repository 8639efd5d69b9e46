package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// EnqueueRequest describes one new job. Only Queue is required. An absent field gets the default of the
// queue, or else the default given here.
type EnqueueRequest struct {
	Queue   string          `json:"queue"`
	Payload json.RawMessage `json:"payload,omitempty"` // any JSON, stored byte for byte; default {}; at most 1 MiB unless the server is configured otherwise (PAYLOAD_TOO_LARGE)

	Priority    Priority `json:"priority,omitempty"`     // default normal
	ScheduledAt Time     `json:"scheduled_at,omitempty"` // default now; a past time counts as now; at most ten years ahead
	// ExpireAfter is the lifetime of the job from its creation, above 0 and at most 8760h. When it is over
	// the job becomes dead, even while it runs, and is not retried. Default: never.
	ExpireAfter Duration `json:"expire_after,omitempty"`

	MaxRetries         *int     `json:"max_retries,omitempty"`          // the largest number of attempts, the first one included; 1 to 1000, default 3
	RetryBackoff       string   `json:"retry_backoff,omitempty"`        // none, fixed, linear or exponential (the default)
	RetryBaseDelay     Duration `json:"retry_base_delay,omitempty"`     // delay before the first retry; default 5s, at most 8760h
	RetryMaxDelay      Duration `json:"retry_max_delay,omitempty"`      // largest delay, at least retry_base_delay; default 10m, at most 8760h
	RetryJitterPercent *int     `json:"retry_jitter_percent,omitempty"` // random part of a delay, 0 to 100; default 0

	// UniqueKey is a name of at most 512 bytes that only one job of the queue can hold at a time. If another
	// job of the queue holds it, no job is created and the response names that job.
	UniqueKey    string `json:"unique_key,omitempty"`
	UniquePeriod int    `json:"unique_period,omitempty"` // the job holds the key for at most so many seconds, up to 365 days; default 3600; requires unique_key
	// UniqueUntil selects when the job releases its key: when it settles ("settled", the default) or only
	// after UniquePeriod ("period"). With "period", once the job has completed, the response for a duplicate
	// has its result. UniqueUntil requires UniqueKey.
	UniqueUntil string `json:"unique_until,omitempty"`

	// DebounceKey and Debounce (above 0, at most 24h) go together: the job is scheduled for the present time
	// plus Debounce. While the job is scheduled, another enqueue with the key creates no job, but restarts
	// the wait and replaces the job's payload, tags, headers and priority. DebounceKey and Debounce cannot be
	// combined with ScheduledAt or UniqueKey.
	DebounceKey string   `json:"debounce_key,omitempty"`
	Debounce    Duration `json:"debounce,omitempty"`

	// ParentID is the id of the job that created this one. It is only stored, for reading and searching, and
	// the parent's outcome has no effect. The parent need not exist, unless the caller's key has a scope:
	// such a key must be able to see the parent, or the error is NOT_FOUND.
	ParentID string `json:"parent_id,omitempty"`

	// FairnessKey names the beneficiary of the job, such as a customer. A queue shares itself out among the
	// keys of its waiting jobs, measured by the running time of their jobs. FairnessWeight sets the share of
	// the key, 1 to 1000, for this and later jobs: weight 3 gets three times as much as weight 1. Default:
	// unchanged, initially 1. FairnessWeight requires FairnessKey.
	FairnessKey    string `json:"fairness_key,omitempty"`
	FairnessWeight int    `json:"fairness_weight,omitempty"`
	// Model is the model that the job will use. Usage reports without a model count for it, and the job is
	// held if the model has no known price and the settings ask for that.
	Model string `json:"model,omitempty"`
	// CostEstimateUSD is the expected cost of one attempt, which budgets reserve. Default, also for 0: the
	// unspent part of the agent's max_cost_usd, or else the reserve of the budgets.
	CostEstimateUSD *money.Reported `json:"cost_estimate_usd,omitempty"`

	Tags       Strings         `json:"tags,omitempty"`       // searchable; at most 64
	Headers    Strings         `json:"headers,omitempty"`    // returned by fetch; at most 64
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"` // for the first attempt; at most 1 MiB

	Agent *Agent `json:"agent,omitempty"` // the job runs in iterations
	// ResultSchema is a JSON Schema (draft 7, 2019-09 or 2020-12; an object or true) for the result of the
	// job, at most 64 KiB. An ack whose result does not match the schema fails the attempt. The schema must
	// not refer to other documents.
	ResultSchema json.RawMessage `json:"result_schema,omitempty"`

	Chain            *Chain   `json:"chain,omitempty"`             // jobs that follow this one
	DependsOn        []string `json:"depends_on,omitempty"`        // ids of jobs to wait for, each once; at most 10,000 in a request; an unknown id is NOT_FOUND or, on another shard, counts as ended without success
	DependencyPolicy string   `json:"dependency_policy,omitempty"` // fail (the default), hold or ignore: what happens to the job if one of them ends without success
	Provider         string   `json:"provider,omitempty"`          // the provider whose limits apply; default: the queue's provider
}

// Values of EnqueueResponse.Status if no job was created.
const (
	StatusDuplicate = "duplicate" // another job holds the unique key
	StatusDebounced = "debounced" // the waiting job with the debounce key was postponed
)

// EnqueueResponse is the response of POST /enqueue and POST /webhooks/{queue}: 201, or 200 if no job was
// created.
type EnqueueResponse struct {
	JobID          string `json:"job_id"`
	Status         string `json:"status"`          // pending, scheduled (also with dependencies), duplicate or debounced
	UniqueExisting bool   `json:"unique_existing"` // JobID is the id of an existing job, with duplicate and debounced
	// Result is the result of the existing job of a duplicate, if that job has completed and holds its key
	// until the end of the period.
	Result json.RawMessage `json:"result,omitempty"`
}

// EnqueueBatchRequest creates 1 to 1000 jobs, either all or none, so their queues must lie on one shard
// (CROSS_SHARD).
type EnqueueBatchRequest struct {
	Jobs  []EnqueueRequest `json:"jobs"`
	Batch *NewBatch        `json:"batch,omitempty"` // absent: the jobs are members of no batch
}

// EnqueueBatchResponse has an id and a result for each job, in the order of the request. The HTTP status of
// POST /enqueue/batch is 201, or 200 if no job was created. The status of POST /batches/{id}/jobs is always
// 201.
type EnqueueBatchResponse struct {
	JobIDs  []string          `json:"job_ids"`
	BatchID string            `json:"batch_id,omitempty"` // of the new or named batch, if there is one
	Results []EnqueueResponse `json:"results,omitempty"`
}
