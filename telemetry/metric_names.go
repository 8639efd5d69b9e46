package telemetry

// Metric is one published metric. Every metric of our own is declared in this file, so that a dashboard can
// be written from it. A name ends in the metric's unit, if it has one, or in _total for a counter.
type Metric struct {
	Name   string
	Help   string
	Labels []string // each has a bounded set of values, never an id or a raw path
}

// HTTP.
var (
	HTTPRequests = Metric{
		Name:   "corvo_http_requests_total",
		Help:   "Answered requests, by route pattern, method and status class.",
		Labels: []string{"route", "method", "status"},
	}
	HTTPDuration = Metric{
		Name:   "corvo_http_request_duration_seconds",
		Help:   "Duration of requests in seconds, including the wait of long polls.",
		Labels: []string{"route", "method"},
	}
	HTTPInFlight = Metric{
		Name: "corvo_http_requests_in_flight",
		Help: "Requests in progress.",
	}
	HTTPPanics = Metric{
		Name: "corvo_http_panics_total",
		Help: "Panics of request handlers.",
	}
	UnknownFields = Metric{
		Name:   "corvo_unknown_fields_total",
		Help:   "Unknown body fields ignored with a warning, by route pattern; sampled on busy routes.",
		Labels: []string{"route"},
	}
)

// The log and the store. The label shard is a shard's number, and a namespace has few
// shards; "*" is the sum over all shards.
var (
	Healthy = Metric{
		Name: "corvo_healthy",
		Help: "Health of log, store and view: 1 if all work, 0 if one has failed.",
	}
	RaftLeader = Metric{
		Name:   "corvo_raft_leader",
		Help:   "Leadership of this node: 1 if it leads the shard, else 0.",
		Labels: []string{"shard"},
	}
	RaftTerm = Metric{
		Name:   "corvo_raft_term",
		Help:   "Raft term; every election increases it.",
		Labels: []string{"shard"},
	}
	RaftAppliedIndex = Metric{
		Name:   "corvo_raft_applied_index",
		Help:   "Index of the last log entry applied to the store.",
		Labels: []string{"shard"},
	}
	RaftSnapshotIndex = Metric{
		Name:   "corvo_raft_snapshot_index",
		Help:   "Index of the newest snapshot; a restart replays entries after it.",
		Labels: []string{"shard"},
	}
	RaftLogBytes = Metric{
		Name:   "corvo_raft_log_bytes",
		Help:   "Size of the log files in bytes, including preallocated space.",
		Labels: []string{"shard"},
	}
	RaftSyncs = Metric{
		Name:   "corvo_raft_log_syncs_total",
		Help:   "Appends to this node's log, as leader or follower; each is synced to disk unless --durability is relaxed.",
		Labels: []string{"shard"},
	}
	RaftEntries = Metric{
		Name:   "corvo_raft_log_entries_total",
		Help:   "Entries appended to this node's log, as leader or follower.",
		Labels: []string{"shard"},
	}
	RaftEntryBytes = Metric{
		Name:   "corvo_raft_log_appended_bytes_total",
		Help:   "Bytes of entries appended to this node's log, as leader or follower.",
		Labels: []string{"shard"},
	}
	RaftSnapshots = Metric{
		Name:   "corvo_raft_snapshots_total",
		Help:   "Snapshots taken by this node or received from the leader.",
		Labels: []string{"shard"},
	}
	DiskFreeBytes = Metric{
		Name: "corvo_disk_free_bytes",
		Help: "Free disk space of the data directory in bytes.",
	}
	FeedEvents = Metric{
		Name:   "corvo_feed_events",
		Help:   "Events in the feed of changes.",
		Labels: []string{"shard"},
	}
	IdempotencyRecords = Metric{
		Name:   "corvo_idempotency_records",
		Help:   "Stored idempotency keys.",
		Labels: []string{"shard"},
	}
)

// Proposals on their way into the log.
var (
	PipelineBacklogOps = Metric{
		Name:   "corvo_pipeline_backlog_ops",
		Help:   "Ops that wait for a log entry.",
		Labels: []string{"shard"},
	}
	PipelineBacklogBytes = Metric{
		Name:   "corvo_pipeline_backlog_bytes",
		Help:   "Bytes of ops that wait for a log entry.",
		Labels: []string{"shard"},
	}
	PipelineQueueTime = Metric{
		Name:   "corvo_pipeline_queue_seconds",
		Help:   "Wait of an op until its log entry is appended, in seconds.",
		Labels: []string{"shard"},
	}
	PipelineApplyTime = Metric{
		Name:   "corvo_pipeline_apply_seconds",
		Help:   "Time from the append of a log entry until it is durable and applied, in seconds.",
		Labels: []string{"shard"},
	}
	PipelineOps = Metric{
		Name:   "corvo_pipeline_ops_total",
		Help:   "Ops that this node wrote to log entries as leader.",
		Labels: []string{"shard"},
	}
	PipelineForwards = Metric{
		Name:   "corvo_pipeline_forwarded_ops_total",
		Help:   "Ops that this node forwarded to the leader.",
		Labels: []string{"shard"},
	}
	OverloadsRefused = Metric{
		Name:   "corvo_overloads_refused_total",
		Help:   "Requests refused with OVERLOADED, by cause: a full backlog of the log, too many waiting polls or searches, too many bytes of requests in progress, or a view that lags more than --view-lag-limit.",
		Labels: []string{"by"},
	}
)

// Alerts and webhooks.
var (
	AlertsDropped = Metric{
		Name: "corvo_alerts_dropped_total",
		Help: "Alert notifications dropped because the delivery queue of the webhooks was full, counted by the leader.",
	}
	WebhookEventsLost = Metric{
		Name:   "corvo_webhook_events_lost_total",
		Help:   "Webhook events dropped because the queue to the first shard was full; every member of a shard counts the same events.",
		Labels: []string{"shard"},
	}
)

// Usage.
var (
	UsageReportsRejected = Metric{
		Name:   "corvo_usage_reports_rejected_total",
		Help:   "Usage reports of workers set aside because they exceed a limit; every member of a shard counts the same reports.",
		Labels: []string{"shard"},
	}
	UsageStuck = Metric{
		Name: "corvo_usage_stuck_shards",
		Help: "Shards whose usage is refused or out of sequence until an operator intervenes.",
	}
	UsageAsideFrames = Metric{
		Name: "corvo_usage_aside_frames",
		Help: "Refused usage frames that the control plane has set aside for an operator.",
	}
	UsageAsideBytes = Metric{
		Name: "corvo_usage_aside_bytes",
		Help: "Bytes of the refused usage frames that the control plane has set aside.",
	}
)

// Streams.
var (
	EventStreams = Metric{
		Name: "corvo_event_streams",
		Help: "Open event streams.",
	}
	EventsEncoded = Metric{
		Name: "corvo_events_encoded_total",
		Help: "Events encoded for streams; the streams of a namespace and protocol share an encoded event.",
	}
	EventsSent = Metric{
		Name: "corvo_events_sent_total",
		Help: "Events sent on streams, counted for each stream.",
	}
	EventsSentBytes = Metric{
		Name: "corvo_events_sent_bytes_total",
		Help: "Bytes of events sent on streams.",
	}
	EventStreamResets = Metric{
		Name: "corvo_event_stream_resets_total",
		Help: "RESET events sent to streams that missed events, because the events were trimmed or the client read too slowly.",
	}
	WorkerStreams = Metric{
		Name: "corvo_worker_streams",
		Help: "Open streams of the Worker RPC.",
	}
)

// Fetches.
var (
	PollsParked = Metric{
		Name: "corvo_fetch_polls_parked",
		Help: "Fetches that wait for a job, without a log entry.",
	}
	EmptyFetches = Metric{
		Name: "corvo_fetch_empty_total",
		Help: "Logged fetches that returned no job because another fetch took it first.",
	}
)

// The view, which answers searches and lists.
var (
	ViewLagEvents = Metric{
		Name:   "corvo_view_lag_events",
		Help:   "Lag of the view behind the store in events.",
		Labels: []string{"shard"},
	}
	ViewLagSeconds = Metric{
		Name:   "corvo_view_lag_seconds",
		Help:   "Lag of the view behind the store in seconds; 0 if it is up to date.",
		Labels: []string{"shard"},
	}
	ViewBuilding = Metric{
		Name:   "corvo_view_building",
		Help:   "Rebuild of the view: 1 while a new file is built, else 0.",
		Labels: []string{"shard"},
	}
)

// The cloud.
var (
	CertificateRemaining = Metric{
		Name: "corvo_certificate_remaining_seconds",
		Help: "Remaining life of the process's fleet certificate in seconds; below 259200 (3 days) its renewal has failed for days.",
	}
	ForeignNamespaces = Metric{
		Name: "corvo_foreign_namespaces",
		Help: "Namespaces whose host has opened groups of other incarnations than the control plane has recorded, counted by its leader.",
	}
	GatewayDocumentsAge = Metric{
		Name: "corvo_gateway_documents_age_seconds",
		Help: "Time since the gateway's documents were last up to date, in seconds; 0 while the control plane is connected.",
	}
	GatewayWaiting = Metric{
		Name: "corvo_gateway_waiting_requests",
		Help: "Requests that wait at the gateway for a host that is away.",
	}
	GatewayWaits = Metric{
		Name:   "corvo_gateway_waits_total",
		Help:   "Waits of requests for a host that was away, by end: served, gave_up after --host-wait, refused because too many waited.",
		Labels: []string{"end"},
	}
)

// Queues. The label queue is bounded: the queues beyond the bound are summed under *,
// which no queue can be named.
var (
	Queues = Metric{
		Name: "corvo_queues",
		Help: "Number of queues.",
	}
	QueueJobs = Metric{
		Name:   "corvo_queue_jobs",
		Help:   "Pending, active and dead jobs of a queue; queue=\"*\" sums the queues without their own series.",
		Labels: []string{"queue", "state"},
	}
	JobsTotal = Metric{
		Name:   "corvo_jobs_total",
		Help:   "Jobs by queue and event: enqueued (including moves into the queue), started, completed, failed (attempts, including expired leases), dead, cancelled. Every member of a cluster shows the same replicated totals, so aggregate members with max, not sum. queue=\"*\" sums the queues without their own series.",
		Labels: []string{"queue", "event"},
	}
	QueuePaused = Metric{
		Name:   "corvo_queue_paused",
		Help:   "Pause of a queue: 1 if it is paused, else 0; queue=\"*\" counts the paused queues without their own series.",
		Labels: []string{"queue"},
	}
)
