package job

import (
	"time"

	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// These are the limits of the data plane. Each has a test at the limit. For most of them, a larger value is
// refused with an error that names the limit. The code that applies one of the others says what it does
// instead, such as cut, count or remove.
const (
	MaxQueueName         = 128      // characters of a queue name
	MaxQueues            = 10_000   // queues of a shard
	DefaultMaxPayload    = 1 << 20  // bytes of a payload, unless --max-payload-size says otherwise
	MaxPayload           = 16 << 20 // the largest value of --max-payload-size
	MaxResult            = 1 << 20  // bytes of a result
	MaxCheckpoint        = 1 << 20  // bytes of a checkpoint
	MaxProgress          = 4 << 10  // bytes of a progress document
	MaxSealKeyID         = 128      // bytes of the key id of a sealed document
	MaxSealNonce         = 32       // bytes of its nonce
	MaxErrorText         = 8 << 10  // bytes of an attempt's error
	MaxBacktrace         = 64 << 10 // bytes of an attempt's backtrace
	MaxErrorsKept        = 100      // error records of a job; later ones replace the newest
	MaxTags              = 64       // tags of a job
	MaxTagName           = 128      // bytes
	MaxTagValue          = 1024     // bytes
	MaxHeaders           = 64       // headers of a job
	MaxHeaderName        = 128      // bytes
	MaxHeaderValue       = 4096     // bytes
	MaxAttempts          = 1000     // max_retries
	MaxRetryDelay        = 365 * 24 * time.Hour
	MaxJitterPercent     = 100                       // retry_jitter_percent
	MaxSchedule          = 10 * 365 * 24 * time.Hour // how far ahead scheduled_at may lie
	MaxEnqueueJobs       = 1000                      // jobs of one enqueue/batch
	MaxFetchQueues       = 64                        // queues of one fetch
	MaxFetchJobs         = 512                       // jobs of one fetch; convert.FromFetchBatch lowers a higher count
	MaxAckItems          = 1000                      // items of one ack or fail batch
	MaxHeartbeatJobs     = 1000                      // jobs of one heartbeat
	MaxReportID          = 64                        // bytes of a heartbeat's report_id
	MaxWorkerConcurrency = 1_000_000                 // of a worker, as it reports
	MaxWorkerID          = 256                       // bytes of worker_id and hostname
	MaxLease             = 24 * time.Hour            // longest lease
	MaxFetchWait         = 60 * time.Second
	MaxUsageWord         = 128       // bytes of usage.model and usage.provider
	MaxConcurrency       = 1_000_000 // a queue's max_concurrency
	MaxDutyItems         = 1000      // ids in one Promote, Reclaim or other op of a duty
	MaxOpBytes           = 20 << 20  // encoded size of one op
	MaxMembers           = 5         // members of a group's list; the number is odd
	MaxMemberID          = 128       // bytes of a member's id; the engine's MaxGroupName
	MaxMemberAddress     = 255       // bytes of a member's address; the most that engine/transport learns

	// MaxNesting is the number of objects and lists in a document that may lie in one another.
	MaxNesting = text.MaxNesting

	MaxIdempotencyKey     = 255            // bytes of an Idempotency-Key
	MaxIdempotencyRecords = 1_000_000      // stored per shard
	MaxIdempotencyBytes   = 512 << 20      // of their results, per shard
	IdempotencyPeriod     = 24 * time.Hour // time for which a key is stored
	MaxPrincipal          = 256            // bytes of the caller's name

	MaxUniqueKey      = 512                  // bytes of unique_key and debounce_key
	MaxUniquePeriod   = 365 * 24 * time.Hour // unique_period
	MaxDebounce       = 24 * time.Hour       // debounce
	MaxExpireAfter    = 365 * 24 * time.Hour // expire_after
	MaxRetention      = 10 * 365 * 24 * time.Hour
	MaxHoldReason     = 1 << 10   // bytes of hold_reason and of a rejection's reason
	MaxChainSteps     = 100       // steps of a chain
	MaxChainBytes     = 1 << 20   // of all payloads that a chain carries
	MaxDependencies   = 10_000    // depends_on of all jobs of a request
	MaxBatchPayload   = 256 << 10 // bytes of callback_payload
	MaxBatchDepth     = 16        // levels of batches within batches
	MaxBatchMembers   = 10_000_000
	MaxSchedules      = 10_000 // schedules of a namespace
	MaxScheduleName   = 128    // bytes
	MaxCronText       = 256    // bytes of a cron expression
	MaxScheduleJitter = time.Hour
	MaxMissedRuns     = 1000           // runs that missed "all" makes up for at once; older ones are skipped
	MaxRateLimit      = 10_000_000     // jobs in a window
	MinRateWindow     = time.Second    // shortest rate window
	MaxRateWindow     = 24 * time.Hour // longest
	MaxQueueLength    = 1_000_000_000  // max_length
	MaxWorkers        = 10_000         // workers of a namespace that a node lists

	MaxFairnessKey      = 256     // bytes of fairness_key
	MaxFairnessWeight   = 1000    // fairness_weight
	MaxLanes            = 100_000 // fairness keys of a shard with jobs or a remembered share
	MaxAgeing           = 7 * 24 * time.Hour
	MaxResourceName     = 1024 // bytes of a resource's name
	MaxLimitRules       = 10_000
	MaxProviders        = 100
	MaxPrices           = 1000
	MaxBudgets          = 1000
	MaxBudgetTarget     = 512 // bytes of a budget's target
	MaxBudgetAlerts     = 10  // thresholds of a budget
	MaxAlertPercent     = 1000
	MinRollingWindow    = time.Minute // of a budget
	MaxRollingWindow    = 400 * 24 * time.Hour
	MaxApprovalPolicies = 100
	MaxAlertRules       = 100
	MaxWebhooks         = 100
	MaxDeliveries       = 100_000                      // stored deliveries
	MaxDeliveryBody     = 64 << 10                     // bytes
	MaxDeliveryError    = 512                          // bytes of an attempt's error
	DeliveryKept        = 7 * 24 * time.Hour           // time for which finished deliveries are stored
	MaxWebhookWaiting   = 10_000                       // deliveries that wait for one webhook
	MaxWebhookQueues    = 64                           // globs of queues that a webhook names
	MaxSecretOverlap    = 30 * 24 * time.Hour          // secret_overlap
	WebhookGivenUp      = 10                           // deliveries given up in a row that disable a webhook,
	WebhookFailing      = time.Hour                    // if they took at least this long
	MaxNotifications    = 1000                         // events for webhooks that one op carries
	MaxWebhookURL       = 2048                         // bytes
	MinWebhookSecret    = 16                           // bytes
	MaxWebhookSecret    = 256                          // bytes
	MaxWebhookRetries   = 20                           // retry_limit
	MaxBulkIDs          = 10_000                       // job_ids of a bulk operation
	BulkWaited          = 10_000                       // a request waits for the end of a bulk operation of at most this many jobs
	MaxBulkFilter       = 64 << 10                     // bytes of a bulk operation's filter
	MaxBulkFailures     = 1000                         // errors listed of a bulk operation; more are counted
	MaxBulks            = 1000                         // stored bulk operations
	BulkKept            = 7 * 24 * time.Hour           // time for which finished operations are stored
	MaxBulkStreams      = 1000                         // progress streams at once, of a node
	MaxAlertFor         = 24 * time.Hour               // for of an alert rule
	MaxLabel            = 128                          // bytes of the name of a policy, an alert rule or a provider
	MaxMoney            = 1_000_000_000 * 1e9          // nano-USD of a limit or a price: a billion dollars
	MaxTokensPerMinute  = 1_000_000_000                // of a provider
	MaxIterations       = 10_000                       // max_iterations
	MaxIterationTime    = 24 * time.Hour               // iteration_timeout
	MaxTrace            = 256 << 10                    // bytes of an iteration's trace
	MaxIterationBytes   = 64 << 20                     // documents of a job's iterations
	MaxToolCalls        = 100                          // jobs that one iteration creates
	MaxToolName         = 128                          // bytes
	MaxToolResults      = 4 << 20                      // bytes of the tool results that an iteration receives
	MaxScores           = 100                          // scores of a job
	MaxScoreWord        = 128                          // bytes of dimension and scorer
	MaxResultSchema     = 64 << 10                     // bytes of result_schema
	MaxReportCost       = int64(billing.MaxReportCost) // nano-USD of one usage report, reported or computed
	MaxReportTokens     = billing.MaxReportTokens      // of one usage report, all kinds together
	MaxJobCost          = MaxMoney                     // nano-USD of all usage reports of a job
	MaxJobTokens        = 1_000 * MaxReportTokens
	UsageKept           = 400 * 24 * time.Hour // time for which usage rows are stored
	MaxUsageRows        = 10_000_000           // stored in a shard; the oldest are removed first
	MaxMeteredQueues    = 300                  // queues in one usage row, whose quantities must fit into one frame
	MaxStoredBytes      = 1 << 50              // size of a store in a RecordUsage
	MaxOpenGap          = 2 * time.Hour        // time without a recording that does not count as open time

	MaxAuditWord     = 64                   // bytes of a method, a request id, a remote address in the audit log
	MaxAuditRole     = 1024                 // bytes
	MaxAuditPath     = 512                  // bytes
	MaxAuditRequests = 64                   // in one record-requests
	AuditKept        = 400 * 24 * time.Hour // time for which audit records are stored
	MaxAuditRecords  = 1_000_000            // stored in a shard; the oldest are removed first

	MaxKeys     = 1000 // API keys of a bare node
	MaxKeyID    = 64   // bytes
	MaxKeyName  = 128  // bytes
	MaxKeyRoles = 16   // roles of a key
	MaxKeyRole  = 64   // bytes of a role's name
	MaxKeyScope = 64   // queue globs of a key
	MaxKeyGlob  = 128  // bytes of a queue glob
	MaxRoles    = tenancy.MaxCustomRoles

	MaxKeyOverlap  = 7 * 24 * time.Hour // time for which a key's old secret stays valid
	MaxSearchLimit = 1000
	MaxSearchText  = 1024 // bytes of payload_contains, of error_contains, and of a full-text query
	MaxSearchTerms = 32   // words and phrases of one query
	MaxBulkGet     = 1000 // job_ids of one bulk-get
	// MaxBulkGetBytes limits the payloads, results and checkpoints of the jobs of one bulk-get.
	MaxBulkGetBytes = 64 << 20
	// MaxFeedBytes limits the feed entries of a shard that are kept for a view that is behind. At 95,000
	// events a second they are the entries of more than four minutes.
	MaxFeedBytes   = 1 << 30
	MaxHistory     = 128      // events of a job's history; further ones in the middle are only counted
	MaxHistoryHead = 32       // number of first events that stay
	MaxEventFilter = 100      // queues, job ids and types in the filter of an event stream, each
	MaxEventPage   = 1000     // events of a page
	MaxStreams     = 1000     // event streams of a namespace on one node
	MaxEventRate   = 32 << 20 // bytes a second that one node sends to a namespace's event streams
	MaxEventLag    = 100_000  // events that a stream which was up to date may fall behind
	MaxEventData   = 59 << 10 // bytes of an event's data; the whole line is less than 60 KiB
)

// These are the defaults of an enqueue.
const (
	DefaultMaxAttempts    = 3
	DefaultRetryBaseDelay = 5 * time.Second
	DefaultRetryMaxDelay  = 10 * time.Minute
	DefaultLease          = 60 * time.Second
	DefaultFetchWait      = 30 * time.Second
	DefaultSearchLimit    = 50
	DefaultUniquePeriod   = time.Hour
	DefaultRetentionTime  = 7 * 24 * time.Hour // of settled jobs and completed batches

	// WorkerForgotten is the time for which a worker is listed after it was last seen.
	WorkerForgotten = 2 * time.Minute

	// The times of a budget that shards share: after SliceReport a shard reports its spending to the first
	// shard, for SliceKeep a grant is kept for the job that needs it, and after SliceIdle an unused grant is
	// returned.
	SliceReport = time.Second
	SliceKeep   = time.Second
	SliceIdle   = 10 * time.Second

	// ReclaimGrace bounds the time after the start of a term during which expired leases are not reclaimed,
	// so that a failover does not expire them all.
	ReclaimGrace = 10 * time.Second
)
