package telemetry

// Metric is one name under which figures are published. Every one stands in
// this file, so that a dashboard can be written from it. Names end in their
// unit; those that only grow end in _total.
type Metric struct {
	Name   string
	Help   string
	Labels []string // each of a bounded set of values, never an id or a raw path
}

// HTTP.
var (
	HTTPRequests = Metric{
		Name:   "corvo_http_requests_total",
		Help:   "Requests answered, by route pattern, method and class of status.",
		Labels: []string{"route", "method", "status"},
	}
	HTTPDuration = Metric{
		Name:   "corvo_http_request_duration_seconds",
		Help:   "Time from a request's arrival to the end of its answer, waits of long polls included.",
		Labels: []string{"route", "method"},
	}
	HTTPInFlight = Metric{
		Name: "corvo_http_requests_in_flight",
		Help: "Requests being answered now.",
	}
	HTTPPanics = Metric{
		Name: "corvo_http_panics_total",
		Help: "Requests whose handler panicked.",
	}
	UnknownFields = Metric{
		Name:   "corvo_unknown_fields_total",
		Help:   "Unknown body fields that were ignored with a warning, by route pattern; a sample on busy routes.",
		Labels: []string{"route"},
	}
)

// The log and the store that follows it. The label shard is a shard's number, of
// which a namespace has few; "*" is all shards together.
var (
	Healthy = Metric{
		Name: "corvo_healthy",
		Help: "1 while log, store and view are sound, 0 while one of them has failed.",
	}
	RaftLeader = Metric{
		Name:   "corvo_raft_leader",
		Help:   "1 while this node leads and takes writes, else 0.",
		Labels: []string{"shard"},
	}
	RaftTerm = Metric{
		Name:   "corvo_raft_term",
		Help:   "The term of leadership; it grows with every election.",
		Labels: []string{"shard"},
	}
	RaftAppliedIndex = Metric{
		Name:   "corvo_raft_applied_index",
		Help:   "Index of the last log entry in the store.",
		Labels: []string{"shard"},
	}
	RaftSnapshotIndex = Metric{
		Name:   "corvo_raft_snapshot_index",
		Help:   "Index of the newest snapshot: a restart replays from there at most.",
		Labels: []string{"shard"},
	}
	RaftLogBytes = Metric{
		Name:   "corvo_raft_log_bytes",
		Help:   "Bytes of the log's files, what they preallocate included.",
		Labels: []string{"shard"},
	}
	RaftSyncs = Metric{
		Name:   "corvo_raft_log_syncs_total",
		Help:   "Appends to this node's log, each synced once to the disk unless --raft-nosync is set; on leaders and followers.",
		Labels: []string{"shard"},
	}
	RaftEntries = Metric{
		Name:   "corvo_raft_log_entries_total",
		Help:   "Entries appended to this node's log, on leaders and followers.",
		Labels: []string{"shard"},
	}
	RaftEntryBytes = Metric{
		Name:   "corvo_raft_log_appended_bytes_total",
		Help:   "Bytes of the entries appended to this node's log, on leaders and followers.",
		Labels: []string{"shard"},
	}
	RaftSnapshots = Metric{
		Name:   "corvo_raft_snapshots_total",
		Help:   "Snapshots that this node took itself or received from the leader.",
		Labels: []string{"shard"},
	}
	DiskFreeBytes = Metric{
		Name: "corvo_disk_free_bytes",
		Help: "Bytes this process may still write to the disk of the data directory.",
	}
	FeedEvents = Metric{
		Name:   "corvo_feed_events",
		Help:   "Events kept in the feed of changes.",
		Labels: []string{"shard"},
	}
	IdempotencyRecords = Metric{
		Name:   "corvo_idempotency_records",
		Help:   "Idempotency keys remembered.",
		Labels: []string{"shard"},
	}
)

// Proposals on their way into the log.
var (
	PipelineBacklogOps = Metric{
		Name:   "corvo_pipeline_backlog_ops",
		Help:   "Ops that wait to be put into an entry.",
		Labels: []string{"shard"},
	}
	PipelineBacklogBytes = Metric{
		Name:   "corvo_pipeline_backlog_bytes",
		Help:   "Bytes of the ops that wait to be put into an entry.",
		Labels: []string{"shard"},
	}
	PipelineQueueTime = Metric{
		Name:   "corvo_pipeline_queue_seconds",
		Help:   "Time an op waits for its entry to be appended.",
		Labels: []string{"shard"},
	}
	PipelineApplyTime = Metric{
		Name:   "corvo_pipeline_apply_seconds",
		Help:   "Time from an entry's append until it is durable and applied.",
		Labels: []string{"shard"},
	}
	PipelineOps = Metric{
		Name:   "corvo_pipeline_ops_total",
		Help:   "Ops that this node put into entries while it led; a node that never led shows 0.",
		Labels: []string{"shard"},
	}
	PipelineForwards = Metric{
		Name:   "corvo_pipeline_forwarded_ops_total",
		Help:   "Ops that this node sent to the leader because it did not lead itself.",
		Labels: []string{"shard"},
	}
	OverloadsRefused = Metric{
		Name:   "corvo_overloads_refused_total",
		Help:   "Requests refused as OVERLOADED: by a full backlog of the log, by too many waiting polls or searches, by too many bytes of requests in hand, or by a view older than --view-lag-limit.",
		Labels: []string{"by"},
	}
)

// Alerts and webhooks.
var (
	AlertsDropped = Metric{
		Name: "corvo_alerts_dropped_total",
		Help: "Alerts that fired or ceased to and of which nobody is told, for as many deliveries wait for their webhooks as may be; by the node that led then.",
	}
	WebhookEventsLost = Metric{
		Name:   "corvo_webhook_events_lost_total",
		Help:   "Events that webhooks are not told of, for there was no room on the way to the first shard; every member of a shard counts the same ones.",
		Labels: []string{"shard"},
	}
)

// Usage.
var (
	UsageReportsRejected = Metric{
		Name:   "corvo_usage_reports_rejected_total",
		Help:   "Usage reports of workers that are kept aside, because they are beyond a limit; every member of a shard counts the same ones.",
		Labels: []string{"shard"},
	}
	UsageStuck = Metric{
		Name: "corvo_usage_stuck_shards",
		Help: "Shards whose usage does not reach the control plane until somebody looks: it is refused, or the two disagree on what there is.",
	}
)

// Streams.
var (
	EventStreams = Metric{
		Name: "corvo_event_streams",
		Help: "Streams of events that are open.",
	}
	EventsEncoded = Metric{
		Name: "corvo_events_encoded_total",
		Help: "Events encoded for streams; streams of one namespace and protocol share an encoded event.",
	}
	EventsSent = Metric{
		Name: "corvo_events_sent_total",
		Help: "Events sent on streams, counted once for each stream.",
	}
	EventsSentBytes = Metric{
		Name: "corvo_events_sent_bytes_total",
		Help: "Bytes of the events sent on streams.",
	}
	EventStreamResets = Metric{
		Name: "corvo_event_stream_resets_total",
		Help: "RESET events sent: a stream left events out because they were trimmed, or because its client read too slowly.",
	}
	WorkerStreams = Metric{
		Name: "corvo_worker_streams",
		Help: "Streams of the Worker RPC that are open, each with its frames.",
	}
)

// Fetches.
var (
	PollsParked = Metric{
		Name: "corvo_fetch_polls_parked",
		Help: "Fetches that wait for a job; they cost no log entries.",
	}
	EmptyFetches = Metric{
		Name: "corvo_fetch_empty_total",
		Help: "Fetches that were logged and found nothing, having lost a race for a job.",
	}
)

// The read model that searches and lists are answered from.
var (
	ViewLagEvents = Metric{
		Name:   "corvo_view_lag_events",
		Help:   "Events the view is behind the store.",
		Labels: []string{"shard"},
	}
	ViewLagSeconds = Metric{
		Name:   "corvo_view_lag_seconds",
		Help:   "Age of the view's answers; 0 while it shows everything.",
		Labels: []string{"shard"},
	}
	ViewBuilding = Metric{
		Name:   "corvo_view_building",
		Help:   "1 while a new file of the view is built, else 0.",
		Labels: []string{"shard"},
	}
)

// Gateways of the cloud.
var (
	GatewayDocumentsAge = Metric{
		Name: "corvo_gateway_documents_age_seconds",
		Help: "How long ago the gateway's documents were last known to be all there were; 0 while the control plane is heard.",
	}
)

// Queues. The label queue is bounded: queues beyond the bound are summed under *,
// which is no queue's name.
var (
	Queues = Metric{
		Name: "corvo_queues",
		Help: "Queues there are.",
	}
	QueueJobs = Metric{
		Name:   "corvo_queue_jobs",
		Help:   "Jobs of a queue that are pending, active or dead; under queue=\"*\" those of all queues without a series of their own.",
		Labels: []string{"queue", "state"},
	}
	JobsTotal = Metric{
		Name:   "corvo_jobs_total",
		Help:   "Jobs by queue and event: enqueued (moved into the queue included), started, completed, failed (attempts, expired leases included), dead, cancelled. The totals are replicated: every member of a cluster shows the same ones, so aggregate members with max, not sum. Queues without a series of their own are counted under queue=\"*\".",
		Labels: []string{"queue", "event"},
	}
	QueuePaused = Metric{
		Name:   "corvo_queue_paused",
		Help:   "1 for a paused queue, else 0; under queue=\"*\" how many of the queues without a series of their own are paused.",
		Labels: []string{"queue"},
	}
)
