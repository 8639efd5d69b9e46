package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// Bounds of request bodies in bytes. bodyAck and bodyEnqueue add room to the documents for the request's
// other fields, whose texts may contain escapes.
const (
	bodyManage = 64 << 10
	bodyFetch  = 64 << 10
	bodyFail   = 1 << 20
	bodyAck    = job.MaxResult + job.MaxCheckpoint + job.MaxTrace + 64<<10
	bodyBatch  = job.MaxOpBytes // the largest encoded op
)

// bodyEnqueue returns the bound for a request with the documents of one job. It depends on Config.MaxPayload.
func (s *Server) bodyEnqueue() int64 { return int64(s.maxPayload) + job.MaxCheckpoint + 2<<20 }

// read lists the query parameters of a read that may ask for freshness.
var read = []serve.Param{
	{Name: "consistency", Doc: "consistency: strong (includes every acknowledged write) or eventual (does not wait for the view)"},
	{Name: "min_index", Doc: "Corvo-Index that the answer must include"},
}

// routes returns the routes of the HTTP API. The routes of the Worker RPC come from procedures.
func (s *Server) routes() []serve.Route {
	const v1 = "/api/v1"
	built := []serve.Route{
		{Method: "POST", Path: v1 + "/enqueue", Permission: tenancy.JobEnqueue, Handler: s.enqueue, MaxBody: s.bodyEnqueue(),
			Summary: "Create a job", Request: api.EnqueueRequest{}, Response: api.EnqueueResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/enqueue/batch", Permission: tenancy.JobEnqueue, Handler: s.enqueueBatch, MaxBody: bodyBatch,
			Summary: "Create several jobs, all or none", Request: api.EnqueueBatchRequest{}, Response: api.EnqueueBatchResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/webhooks/{queue}", Permission: tenancy.JobEnqueue, Handler: s.webhook, MaxBody: s.bodyEnqueue(), Query: webhookQuery(),
			Summary: "Create a job with the request body as payload", Description: "JSON becomes the payload as it is; other text becomes a JSON string.", Response: api.EnqueueResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/fetch", Permission: tenancy.JobWork, Handler: s.fetch, MaxBody: bodyFetch,
			Summary: "Fetch a job and lease it", Description: "The request waits for a job until its timeout. The answer is 204 if no job came.", Request: api.FetchRequest{}, Response: api.FetchedJob{}},
		{Method: "POST", Path: v1 + "/fetch/batch", Permission: tenancy.JobWork, Handler: s.fetchBatch, MaxBody: bodyFetch,
			Summary: "Fetch several jobs and lease them", Description: "The request waits for the first job until its timeout.", Request: api.FetchBatchRequest{}, Response: api.FetchBatchResponse{}},
		{Method: "POST", Path: v1 + "/ack/{job_id}", Permission: tenancy.JobWork, Handler: s.ack, MaxBody: bodyAck,
			Summary: "Acknowledge a job as completed", Request: api.AckRequest{}, Response: api.AckResponse{}},
		{Method: "POST", Path: v1 + "/ack/batch", Permission: tenancy.JobWork, Handler: s.ackBatch, MaxBody: bodyBatch,
			Summary: "Acknowledge several jobs as completed", Description: "Each ack succeeds or fails by itself.", Request: api.AckBatchRequest{}, Response: api.AckBatchResponse{}},
		{Method: "POST", Path: v1 + "/fail/{job_id}", Permission: tenancy.JobWork, Handler: s.fail, MaxBody: bodyFail,
			Summary: "Report a failed attempt of a job", Request: api.FailRequest{}, Response: api.FailResponse{}},
		{Method: "POST", Path: v1 + "/heartbeat", Permission: tenancy.JobWork, Handler: s.heartbeat, MaxBody: bodyBatch,
			Summary: "Renew leases and report progress", Request: api.HeartbeatRequest{}, Response: api.HeartbeatResponse{}},

		{Method: "GET", Path: v1 + "/jobs/{id}", Permission: tenancy.JobRead, Handler: s.getJob, Query: read,
			Summary: "Get a job", Response: api.Job{}},
		{Method: "GET", Path: v1 + "/jobs/{id}/why", Permission: tenancy.JobRead, Handler: s.explain, Query: read,
			Summary: "Explain why a job does not run", Response: api.Why{}},
		{Method: "POST", Path: v1 + "/jobs/search", Permission: tenancy.JobRead, Handler: s.searching(s.searchJobs), Query: read,
			Summary: "Search jobs with a filter", Request: api.SearchRequest{}, Response: api.SearchResponse{}},
		{Method: "GET", Path: v1 + "/search/fulltext", Permission: tenancy.JobRead, Handler: s.searching(s.searchWords), Query: wordsPage,
			Summary: "Search jobs by words, newest first", Description: "The words are those of payloads, tags, queue names and job ids.", Response: api.SearchResponse{}},
		{Method: "POST", Path: v1 + "/jobs/bulk-get", Permission: tenancy.JobRead, Handler: s.getJobs, Query: read,
			Summary: "Get several jobs by their ids", Description: "Unknown ids are left out of the answer.", Request: api.BulkGetRequest{}, Response: api.BulkGetResponse{}},

		{Method: "POST", Path: v1 + "/jobs/{id}/move", Permission: tenancy.JobManage, Handler: s.moveJob,
			Summary: "Move a job to another queue", Request: api.MoveJobRequest{}, Response: api.Status{}},

		{Method: "GET", Path: v1 + "/jobs/{id}/iterations", Permission: tenancy.JobRead, Handler: s.listIterations, Query: iterationPage,
			Summary: "List the finished iterations of an agent job, oldest first", Response: api.Iterations{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/replay", Permission: tenancy.JobManage, Handler: s.replayJob,
			Summary: "Create a job that replays an agent from an iteration", Request: api.ReplayRequest{}, Response: api.EnqueueResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/jobs/{id}/scores", Permission: tenancy.JobManage, Handler: s.scoreJob,
			Summary: "Add a score to a job", Description: "A later score of the same dimension and scorer replaces the earlier one.", Request: api.ScoreRequest{}, Response: api.Status{}},
		{Method: "GET", Path: v1 + "/jobs/{id}/scores", Permission: tenancy.JobRead, Handler: s.listScores, Query: read,
			Summary: "List the scores of a job", Response: api.Scores{}},

		{Method: "GET", Path: v1 + "/batches/{id}", Permission: tenancy.JobRead, Handler: s.getBatch, Query: read,
			Summary: "Get a batch and the outcomes of its jobs", Response: api.Batch{},
			Description: "A batch belongs to its callback's queue, or without a callback to the queue of its first job. A key with a queue scope needs that queue, also for the event batch_completed."},
		{Method: "POST", Path: v1 + "/batches/{id}/jobs", Permission: tenancy.JobEnqueue, Handler: s.addToBatch, MaxBody: bodyBatch,
			Summary: "Add jobs to an open batch, all or none", Request: api.AddToBatchRequest{}, Response: api.EnqueueBatchResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/batches/{id}/seal", Permission: tenancy.JobEnqueue, Handler: s.sealBatch,
			Summary: "Seal an open batch", Response: api.Batch{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/retry", Permission: tenancy.JobManage, Handler: s.retryJob,
			Summary: "Run a settled job again from its first attempt", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/cancel", Permission: tenancy.JobManage, Handler: s.cancelJob,
			Summary: "Cancel a job", Description: "The next heartbeat of an active job tells its worker to stop.", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/hold", Permission: tenancy.JobManage, Handler: s.holdJob,
			Summary: "Hold a waiting job, so that no worker fetches it", Request: api.ReasonRequest{}, Response: api.Status{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/approve", Permission: tenancy.JobManage, Handler: s.approveJob, MaxBody: s.bodyEnqueue(),
			Summary: "Approve a held job", Description: "The job becomes pending. The request may replace its payload, its checkpoint and limits of its agent.", Request: api.ApproveRequest{}, Response: api.Status{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/reject", Permission: tenancy.JobManage, Handler: s.rejectJob,
			Summary: "Reject a held job; it becomes dead", Request: api.ReasonRequest{}, Response: api.Status{}},
		{Method: "DELETE", Path: v1 + "/jobs/{id}", Permission: tenancy.JobManage, Handler: s.deleteJob,
			Summary: "Delete a job", Description: "An active job is cancelled first.", Response: api.Status{}},
		{Method: "GET", Path: v1 + "/dead", Permission: tenancy.JobRead, Handler: s.searching(s.deadJobs), Query: deadPage,
			Summary: "List dead jobs, newest first", Response: api.SearchResponse{}},
		{Method: "GET", Path: v1 + "/workers", Permission: tenancy.JobRead, Handler: s.searching(s.listWorkers), Query: read,
			Summary: "List workers", Description: "The list has the workers that fetch from this node and the workers that hold jobs.", Response: []api.Worker{}},

		{Method: "GET", Path: v1 + "/metrics/throughput", Permission: tenancy.QueueRead, Handler: s.throughput,
			Summary: "Get the throughput of the last minute by queue", Response: api.Throughput{}},

		{Method: "GET", Path: v1 + "/queues", Permission: tenancy.QueueRead, Handler: s.searching(s.listQueues), Query: read,
			Summary: "List queues", Response: []api.Queue{}},
		{Method: "GET", Path: v1 + "/queues/{name}", Permission: tenancy.QueueRead, Handler: s.searching(s.getQueue), Query: read,
			Summary: "Get a queue", Response: api.Queue{}},
		{Method: "PUT", Path: v1 + "/queues/{name}", Permission: tenancy.QueueManage, Handler: s.putQueue, Conditions: []string{serve.IfMatch, serve.IfNoneMatch},
			Summary: "Replace the settings of a queue, or create it", Request: api.PutQueueRequest{}, Response: api.Queue{}},
		{Method: "DELETE", Path: v1 + "/queues/{name}", Permission: tenancy.QueueManage, Handler: s.deleteQueue, Conditions: versioned, Query: confirm,
			Summary: "Delete a queue with all its jobs", Description: "The answer is 202 if the server continues the deletion after it.", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/pause", Permission: tenancy.QueueManage, Handler: s.pauseQueue,
			Summary: "Stop fetches from a queue", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/resume", Permission: tenancy.QueueManage, Handler: s.resumeQueue,
			Summary: "Resume fetches from a queue", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/concurrency", Permission: tenancy.QueueManage, Handler: s.setConcurrency,
			Summary: "Limit the active jobs of a queue", Request: api.ConcurrencyRequest{}, Response: api.Status{}},

		{Method: "POST", Path: v1 + "/queues/{name}/throttle", Permission: tenancy.QueueManage, Handler: s.throttleQueue,
			Summary: "Limit the rate at which jobs of a queue start", Request: api.ThrottleRequest{}, Response: api.Status{}},
		{Method: "DELETE", Path: v1 + "/queues/{name}/throttle", Permission: tenancy.QueueManage, Handler: s.unthrottleQueue,
			Summary: "Remove the rate limit of a queue", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/drain", Permission: tenancy.QueueManage, Handler: s.drainQueue,
			Summary: "Stop fetches from a queue and drain it", Description: "The status is drained if no job is active, else draining.", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/clear", Permission: tenancy.QueueManage, Handler: s.clearQueue,
			Summary: "Delete the waiting jobs of a queue, except held ones", Description: "The answer is 202 if the server continues the deletion after it.", Response: api.Cleared{}},
		{Method: "GET", Path: v1 + "/schedules", Permission: tenancy.QueueRead, Handler: s.listSchedules, Query: read,
			Summary: "List schedules", Response: []api.Schedule{}},
		{Method: "POST", Path: v1 + "/schedules", Permission: tenancy.QueueManage, Handler: s.createSchedule, MaxBody: s.bodyEnqueue(),
			Summary: "Create a schedule", Request: api.ScheduleRequest{}, Response: api.Schedule{}, Status: http.StatusCreated},
		{Method: "GET", Path: v1 + "/schedules/{id}", Permission: tenancy.QueueRead, Handler: s.getSchedule, Query: read,
			Summary: "Get a schedule", Response: api.Schedule{}},
		{Method: "PUT", Path: v1 + "/schedules/{id}", Permission: tenancy.QueueManage, Handler: s.putSchedule, Conditions: versioned, MaxBody: s.bodyEnqueue(),
			Summary: "Replace a schedule", Request: api.ScheduleRequest{}, Response: api.Schedule{}},
		{Method: "DELETE", Path: v1 + "/schedules/{id}", Permission: tenancy.QueueManage, Handler: s.deleteSchedule, Conditions: versioned,
			Summary: "Delete a schedule; its jobs stay", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/schedules/{id}/run", Permission: tenancy.QueueManage, Handler: s.runSchedule,
			Summary: "Create a schedule's job now, in addition to its times", Response: api.ScheduleRunResponse{}},
		{Method: "POST", Path: v1 + "/schedules/{id}/pause", Permission: tenancy.QueueManage, Handler: s.pauseSchedule,
			Summary: "Pause a schedule", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/schedules/{id}/resume", Permission: tenancy.QueueManage, Handler: s.resumeSchedule,
			Summary: "Resume a schedule", Description: "Runs missed during the pause are skipped.", Response: api.Status{}},
		{Method: "GET", Path: v1 + "/schedules/{id}/next", Permission: tenancy.QueueRead, Handler: s.nextRuns, Query: append([]serve.Param{{Name: "n", Doc: "number of runs, from 1 to 100; default 10"}}, read...),
			Summary: "List the next runs of a schedule", Description: "A paused schedule lists the runs it would have.", Response: []api.Time{}},

		{Method: "GET", Path: v1 + "/usage/summary", Permission: tenancy.JobRead, Handler: s.usageSummary, Query: summaryQuery,
			Summary: "Summarise usage and cost", Response: api.UsageSummary{}},
		{Method: "GET", Path: settingsPath, Permission: tenancy.QueueRead, Handler: s.getSettings, Query: read,
			Summary: "Get the namespace's settings", Response: api.Settings{}},
		{Method: "PUT", Path: settingsPath, Permission: tenancy.QueueManage, Handler: s.putSettings, Conditions: versioned,
			Summary: "Replace the namespace's settings", Request: api.Settings{}, Response: api.Settings{}},

		{Method: "POST", Path: v1 + "/auth/keys", Permission: tenancy.KeyManage, Handler: s.createKey,
			Summary: "Create an API key", Description: "Only this answer holds the secret.", Request: api.CreateKeyRequest{}, Response: api.CreatedKey{}, Status: http.StatusCreated},
		{Method: "GET", Path: v1 + "/auth/keys", Permission: tenancy.KeyManage, Handler: s.listKeys, Query: read,
			Summary: "List API keys", Response: []api.Key{}},
		{Method: "GET", Path: v1 + "/auth/keys/{id}", Permission: tenancy.KeyManage, Handler: s.getKey, Query: read,
			Summary: "Get an API key", Response: api.Key{}},
		{Method: "DELETE", Path: v1 + "/auth/keys/{id}", Permission: tenancy.KeyManage, Handler: s.revokeKey, Conditions: versioned,
			Summary: "Revoke an API key", Response: api.Status{}},
		{Method: "PUT", Path: v1 + "/auth/keys/{id}", Permission: tenancy.KeyManage, Handler: s.setKey, Conditions: versioned,
			Summary: "Replace the settings of an API key; its secret stays", Request: api.SetKeyRequest{}, Response: api.Key{}},
		{Method: "POST", Path: v1 + "/auth/keys/{id}/rotate", Permission: tenancy.KeyManage, Handler: s.rotateKey,
			Summary: "Replace the secret of an API key", Description: "Only this answer holds the new secret. The old one stays valid for a while.", Request: api.RotateRequest{}, Response: api.CreatedKey{}},

		{Method: "GET", Path: metricsPath, Permission: tenancy.NodeRead, Handler: s.metrics, Summary: "Get metrics in the Prometheus text format"},
		{Method: "GET", Path: scrapePath, Permission: tenancy.NodeRead, Handler: s.metrics, Operation: "scrapeMetrics", Summary: "Get metrics at Prometheus's default path"},
		{Method: "GET", Path: v1 + "/info", Permission: serve.Open, Handler: s.info, Summary: "Get the server's version and features", Response: api.Info{}},
		{Method: "GET", Path: v1 + "/cluster/status", Permission: tenancy.NodeRead, Handler: s.clusterStatus,
			Summary: "Get the status of the cluster as this node sees it", Response: api.ClusterStatus{}},
		{Method: "POST", Path: v1 + "/cluster/join", Permission: tenancy.NodeAdmin, Handler: s.joinCluster,
			Summary: "Add a node that waits for an invitation", Request: api.ClusterJoinRequest{}, Response: api.Status{}},
		{Method: "POST", Path: v1 + "/cluster/transfer", Permission: tenancy.NodeAdmin, Handler: s.transferCluster,
			Summary: "Transfer leadership to another node", Request: api.ClusterTransferRequest{}, Response: api.Status{}},
		{Method: "DELETE", Path: v1 + "/cluster/servers/{id}", Permission: tenancy.NodeAdmin, Handler: s.removeServer,
			Summary: "Remove a node from the cluster", Response: api.Status{}},
		{Method: "GET", Path: v1 + "/debug/runtime", Permission: tenancy.NodeAdmin, Handler: s.runtime,
			Summary: "Get the process's memory, goroutines and other resources", Response: api.Runtime{}},
		{Method: "POST", Path: v1 + "/admin/snapshot", Permission: tenancy.NodeAdmin, Handler: s.snapshot,
			Summary: "Flush this node's state to disk and truncate its logs", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/admin/rebuild-view", Permission: tenancy.NodeAdmin, Handler: s.rebuildView,
			Summary: "Rebuild this node's search views from its state", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/admin/rebuild-sqlite", Permission: tenancy.NodeAdmin, Handler: s.rebuildView,
			Summary: "Rebuild this node's search views (old name of rebuild-view)", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/admin/verify", Permission: tenancy.NodeAdmin, Handler: s.verify,
			Summary: "Check the files of this node's stores for corruption", Response: api.Verified{}},
		{Method: "POST", Path: v1 + "/admin/backup", Permission: tenancy.NodeAdmin, Handler: s.backup, Query: backupQuery,
			Summary: "Download a consistent backup of all state", Description: "The file contains payloads and the hashes of API keys."},
		{Method: "POST", Path: v1 + "/admin/restore", Permission: tenancy.NodeAdmin, Handler: s.restore,
			Summary: "Answer 501; restore a backup with corvo admin restore"},
		{Method: "GET", Path: profilesPath, Permission: tenancy.NodeAdmin, Handler: s.profiles,
			Summary: "Get profiles of the process for go tool pprof"},
		{Method: "GET", Path: "/healthz", Permission: serve.Open, Handler: s.healthz, Summary: "Check whether the process works", Response: api.Health{}},
		{Method: "GET", Path: "/readyz", Permission: serve.Open, Handler: s.readyz, Summary: "Check whether this server can take requests", Response: api.Health{}},
		{Method: "GET", Path: "/openapi.json", Permission: serve.Open, Handler: s.openAPI, Summary: "Get this document"},
	}
	built = append(built, providers.routes(s)...)
	built = append(built, approvalPolicies.routes(s)...)
	built = append(built, s.roleRoutes()...)
	built = append(built, s.budgetRoutes()...)
	built = append(built, s.priceRoutes()...)
	built = append(built, alertRules.routes(s)...)
	built = append(built, s.webhookRoutes()...)
	built = append(built, s.limitRuleRoutes()...)
	built = append(built, s.eventRoutes()...)
	built = append(built, s.bulkRoutes()...)
	built = append(built, s.auditRoutes()...)
	return append(built, unbuiltRoutes()...)
}

// document builds the OpenAPI document of a table, without unimplemented routes.
func document(table []serve.Route) ([]byte, error) {
	var built []serve.Route
	for _, r := range table {
		if !r.Unbuilt {
			built = append(built, r)
		}
	}
	return serve.Document(serve.Info{Title: "Corvo", Version: apiVersion, Description: "A job queue for background and AI-agent work."}, built)
}
