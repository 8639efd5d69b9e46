package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// Bounds of request bodies in bytes. Those with documents leave room for the
// rest of the request, escapes in its texts included.
const (
	bodyManage = 64 << 10
	bodyFetch  = 64 << 10
	bodyFail   = 1 << 20
	bodyAck    = job.MaxResult + job.MaxCheckpoint + job.MaxTrace + 64<<10
	bodyBatch  = job.MaxOpBytes // the most that enters the log at once
)

// bodyEnqueue is the bound of one job: its payload's depends on a flag.
func (s *Server) bodyEnqueue() int64 { return int64(s.maxPayload) + job.MaxCheckpoint + 2<<20 }

// read are the parameters of a read.
var read = []serve.Param{
	{Name: "consistency", Doc: "strong: include every write acknowledged before; eventual: do not wait for the view"},
	{Name: "min_index", Doc: "a Corvo-Index that must be included"},
}

// routes is the table of everything this server answers.
func (s *Server) routes() []serve.Route {
	const v1 = "/api/v1"
	built := []serve.Route{
		{Method: "POST", Path: v1 + "/enqueue", Permission: tenancy.JobEnqueue, Handler: s.enqueue, MaxBody: s.bodyEnqueue(),
			Summary: "Create a job", Request: api.EnqueueRequest{}, Response: api.EnqueueResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/enqueue/batch", Permission: tenancy.JobEnqueue, Handler: s.enqueueBatch, MaxBody: bodyBatch,
			Summary: "Create jobs, all or none", Request: api.EnqueueBatchRequest{}, Response: api.EnqueueBatchResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/webhooks/{queue}", Permission: tenancy.JobEnqueue, Handler: s.webhook, MaxBody: s.bodyEnqueue(), Query: webhookQuery(),
			Summary: "Create a job whose payload is the body: JSON, or other text as a JSON string", Response: api.EnqueueResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/fetch", Permission: tenancy.JobWork, Handler: s.fetch, MaxBody: bodyFetch,
			Summary: "Lease a job, waiting for one; 204 when there is none", Request: api.FetchRequest{}, Response: api.FetchedJob{}},
		{Method: "POST", Path: v1 + "/fetch/batch", Permission: tenancy.JobWork, Handler: s.fetchBatch, MaxBody: bodyFetch,
			Summary: "Lease several jobs, waiting for the first", Request: api.FetchBatchRequest{}, Response: api.FetchBatchResponse{}},
		{Method: "POST", Path: v1 + "/ack/{job_id}", Permission: tenancy.JobWork, Handler: s.ack, MaxBody: bodyAck,
			Summary: "Complete a job", Request: api.AckRequest{}, Response: api.AckResponse{}},
		{Method: "POST", Path: v1 + "/ack/batch", Permission: tenancy.JobWork, Handler: s.ackBatch, MaxBody: bodyBatch,
			Summary: "Complete jobs, each on its own", Request: api.AckBatchRequest{}, Response: api.AckBatchResponse{}},
		{Method: "POST", Path: v1 + "/fail/{job_id}", Permission: tenancy.JobWork, Handler: s.fail, MaxBody: bodyFail,
			Summary: "End a job's attempt without success", Request: api.FailRequest{}, Response: api.FailResponse{}},
		{Method: "POST", Path: v1 + "/heartbeat", Permission: tenancy.JobWork, Handler: s.heartbeat, MaxBody: bodyBatch,
			Summary: "Renew leases and report progress", Request: api.HeartbeatRequest{}, Response: api.HeartbeatResponse{}},

		{Method: "GET", Path: v1 + "/jobs/{id}", Permission: tenancy.JobRead, Handler: s.getJob, Query: read,
			Summary: "A job", Response: api.Job{}},
		{Method: "GET", Path: v1 + "/jobs/{id}/why", Permission: tenancy.JobRead, Handler: s.explain, Query: read,
			Summary: "Why a job does not run", Response: api.Why{}},
		{Method: "POST", Path: v1 + "/jobs/search", Permission: tenancy.JobRead, Handler: s.searching(s.searchJobs), Query: read,
			Summary: "Find jobs", Request: api.SearchRequest{}, Response: api.SearchResponse{}},
		{Method: "GET", Path: v1 + "/search/fulltext", Permission: tenancy.JobRead, Handler: s.searching(s.searchWords), Query: wordsPage,
			Summary: "Find jobs by the words of their payloads and tags, newest first", Response: api.SearchResponse{}},
		{Method: "POST", Path: v1 + "/jobs/bulk-get", Permission: tenancy.JobRead, Handler: s.getJobs, Query: read,
			Summary: "Jobs by their ids; those that are not there are left out", Request: api.BulkGetRequest{}, Response: api.BulkGetResponse{}},

		{Method: "POST", Path: v1 + "/jobs/{id}/move", Permission: tenancy.JobManage, Handler: s.moveJob,
			Summary: "Put a job into another queue", Request: api.MoveJobRequest{}, Response: api.Status{}},

		{Method: "GET", Path: v1 + "/jobs/{id}/iterations", Permission: tenancy.JobRead, Handler: s.listIterations, Query: iterationPage,
			Summary: "The iterations of an agent's job that have ended, oldest first", Response: api.Iterations{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/replay", Permission: tenancy.JobManage, Handler: s.replayJob,
			Summary: "Create a job that does an iteration of another again and goes on from there", Request: api.ReplayRequest{}, Response: api.EnqueueResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/jobs/{id}/scores", Permission: tenancy.JobManage, Handler: s.scoreJob,
			Summary: "Judge a job; a later score of the dimension by the scorer replaces the earlier", Request: api.ScoreRequest{}, Response: api.Status{}},
		{Method: "GET", Path: v1 + "/jobs/{id}/scores", Permission: tenancy.JobRead, Handler: s.listScores, Query: read,
			Summary: "The judgements of a job", Response: api.Scores{}},

		{Method: "GET", Path: v1 + "/batches/{id}", Permission: tenancy.JobRead, Handler: s.getBatch, Query: read,
			Summary: "A batch, and how its members have ended", Response: api.Batch{}},
		{Method: "POST", Path: v1 + "/batches/{id}/jobs", Permission: tenancy.JobEnqueue, Handler: s.addToBatch, MaxBody: bodyBatch,
			Summary: "Create members of an open batch, all or none", Request: api.AddToBatchRequest{}, Response: api.EnqueueBatchResponse{}, Status: http.StatusCreated},
		{Method: "POST", Path: v1 + "/batches/{id}/seal", Permission: tenancy.JobEnqueue, Handler: s.sealBatch,
			Summary: "Close an open batch", Response: api.Batch{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/retry", Permission: tenancy.JobManage, Handler: s.retryJob,
			Summary: "Have a settled job run again from its first attempt", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/cancel", Permission: tenancy.JobManage, Handler: s.cancelJob,
			Summary: "Give a job up; the worker of an active one is told to stop", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/hold", Permission: tenancy.JobManage, Handler: s.holdJob,
			Summary: "Keep a job that waits from being fetched", Request: api.ReasonRequest{}, Response: api.Status{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/approve", Permission: tenancy.JobManage, Handler: s.approveJob, MaxBody: s.bodyEnqueue(),
			Summary: "Let a held job run, with another payload, checkpoint or agent where the request says so", Request: api.ApproveRequest{}, Response: api.Status{}},
		{Method: "POST", Path: v1 + "/jobs/{id}/reject", Permission: tenancy.JobManage, Handler: s.rejectJob,
			Summary: "Have a held job die", Request: api.ReasonRequest{}, Response: api.Status{}},
		{Method: "DELETE", Path: v1 + "/jobs/{id}", Permission: tenancy.JobManage, Handler: s.deleteJob,
			Summary: "Remove a job; an active one is cancelled first", Response: api.Status{}},
		{Method: "GET", Path: v1 + "/dead", Permission: tenancy.JobRead, Handler: s.searching(s.deadJobs), Query: deadPage,
			Summary: "Dead jobs, newest first", Response: api.SearchResponse{}},
		{Method: "GET", Path: v1 + "/workers", Permission: tenancy.JobRead, Handler: s.searching(s.listWorkers), Query: read,
			Summary: "The workers this node has heard of, and those that hold jobs", Response: []api.Worker{}},

		{Method: "GET", Path: v1 + "/metrics/throughput", Permission: tenancy.QueueRead, Handler: s.throughput,
			Summary: "What happened in the last minute, by queue", Response: api.Throughput{}},

		{Method: "GET", Path: v1 + "/queues", Permission: tenancy.QueueRead, Handler: s.searching(s.listQueues), Query: read,
			Summary: "All queues", Response: []api.Queue{}},
		{Method: "GET", Path: v1 + "/queues/{name}", Permission: tenancy.QueueRead, Handler: s.searching(s.getQueue), Query: read,
			Summary: "A queue", Response: api.Queue{}},
		{Method: "PUT", Path: v1 + "/queues/{name}", Permission: tenancy.QueueManage, Handler: s.putQueue, Conditions: []string{serve.IfMatch, serve.IfNoneMatch},
			Summary: "Set every setting of a queue, creating it when it is new", Request: api.PutQueueRequest{}, Response: api.Queue{}},
		{Method: "DELETE", Path: v1 + "/queues/{name}", Permission: tenancy.QueueManage, Handler: s.deleteQueue, Conditions: versioned, Query: confirm,
			Summary: "Delete a queue and its jobs; 202 where that goes on", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/pause", Permission: tenancy.QueueManage, Handler: s.pauseQueue,
			Summary: "Stop fetches from a queue", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/resume", Permission: tenancy.QueueManage, Handler: s.resumeQueue,
			Summary: "Allow fetches from a queue again", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/concurrency", Permission: tenancy.QueueManage, Handler: s.setConcurrency,
			Summary: "Limit how many jobs of a queue run at once", Request: api.ConcurrencyRequest{}, Response: api.Status{}},

		{Method: "POST", Path: v1 + "/queues/{name}/throttle", Permission: tenancy.QueueManage, Handler: s.throttleQueue,
			Summary: "Limit how many jobs of a queue are let go in any window", Request: api.ThrottleRequest{}, Response: api.Status{}},
		{Method: "DELETE", Path: v1 + "/queues/{name}/throttle", Permission: tenancy.QueueManage, Handler: s.unthrottleQueue,
			Summary: "Lift a queue's rate limit", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/drain", Permission: tenancy.QueueManage, Handler: s.drainQueue,
			Summary: "Stop fetches from a queue, and tell whether jobs are active still", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/queues/{name}/clear", Permission: tenancy.QueueManage, Handler: s.clearQueue,
			Summary: "Remove the jobs that wait in a queue; 202 where that goes on", Response: api.Cleared{}},
		{Method: "GET", Path: v1 + "/schedules", Permission: tenancy.QueueRead, Handler: s.listSchedules, Query: read,
			Summary: "All schedules", Response: []api.Schedule{}},
		{Method: "POST", Path: v1 + "/schedules", Permission: tenancy.QueueManage, Handler: s.createSchedule, MaxBody: s.bodyEnqueue(),
			Summary: "Create a schedule", Request: api.ScheduleRequest{}, Response: api.Schedule{}, Status: http.StatusCreated},
		{Method: "GET", Path: v1 + "/schedules/{id}", Permission: tenancy.QueueRead, Handler: s.getSchedule, Query: read,
			Summary: "A schedule", Response: api.Schedule{}},
		{Method: "PUT", Path: v1 + "/schedules/{id}", Permission: tenancy.QueueManage, Handler: s.putSchedule, Conditions: versioned, MaxBody: s.bodyEnqueue(),
			Summary: "Replace a schedule", Request: api.ScheduleRequest{}, Response: api.Schedule{}},
		{Method: "DELETE", Path: v1 + "/schedules/{id}", Permission: tenancy.QueueManage, Handler: s.deleteSchedule, Conditions: versioned,
			Summary: "Delete a schedule; the jobs it has made stay", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/schedules/{id}/run", Permission: tenancy.QueueManage, Handler: s.runSchedule,
			Summary: "Make a schedule's job now, besides its times", Response: api.ScheduleRunResponse{}},
		{Method: "POST", Path: v1 + "/schedules/{id}/pause", Permission: tenancy.QueueManage, Handler: s.pauseSchedule,
			Summary: "Stop a schedule", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/schedules/{id}/resume", Permission: tenancy.QueueManage, Handler: s.resumeSchedule,
			Summary: "Let a schedule go on; what it missed meanwhile is not made up for", Response: api.Status{}},
		{Method: "GET", Path: v1 + "/schedules/{id}/next", Permission: tenancy.QueueRead, Handler: s.nextRuns, Query: append([]serve.Param{{Name: "n", Doc: "how many, from 1 to 100; default 10"}}, read...),
			Summary: "When a schedule runs next, or would if it were not paused", Response: []api.Time{}},

		{Method: "GET", Path: v1 + "/usage/summary", Permission: tenancy.JobRead, Handler: s.usageSummary, Query: summaryQuery,
			Summary: "What was used and what it cost", Response: api.UsageSummary{}},
		{Method: "GET", Path: settingsPath, Permission: tenancy.QueueRead, Handler: s.getSettings, Query: read,
			Summary: "The namespace's settings", Response: api.Settings{}},
		{Method: "PUT", Path: settingsPath, Permission: tenancy.QueueManage, Handler: s.putSettings, Conditions: versioned,
			Summary: "Set every setting of the namespace", Request: api.Settings{}, Response: api.Settings{}},

		{Method: "POST", Path: v1 + "/auth/keys", Permission: tenancy.KeyManage, Handler: s.createKey,
			Summary: "Create an API key; the answer alone holds its secret", Request: api.CreateKeyRequest{}, Response: api.CreatedKey{}, Status: http.StatusCreated},
		{Method: "GET", Path: v1 + "/auth/keys", Permission: tenancy.KeyManage, Handler: s.listKeys, Query: read,
			Summary: "All API keys", Response: []api.Key{}},
		{Method: "GET", Path: v1 + "/auth/keys/{id}", Permission: tenancy.KeyManage, Handler: s.getKey, Query: read,
			Summary: "An API key", Response: api.Key{}},
		{Method: "DELETE", Path: v1 + "/auth/keys/{id}", Permission: tenancy.KeyManage, Handler: s.revokeKey, Conditions: versioned,
			Summary: "Revoke an API key", Response: api.Status{}},
		{Method: "PUT", Path: v1 + "/auth/keys/{id}", Permission: tenancy.KeyManage, Handler: s.setKey, Conditions: versioned,
			Summary: "Replace what is said about an API key; its secret stays", Request: api.SetKeyRequest{}, Response: api.Key{}},
		{Method: "POST", Path: v1 + "/auth/keys/{id}/rotate", Permission: tenancy.KeyManage, Handler: s.rotateKey,
			Summary: "Give an API key another secret, which the answer alone holds; the old one works on for a while", Request: api.RotateRequest{}, Response: api.CreatedKey{}},

		{Method: "GET", Path: metricsPath, Permission: tenancy.NodeRead, Handler: s.metrics, Summary: "Metrics in the Prometheus text format"},
		{Method: "GET", Path: scrapePath, Permission: tenancy.NodeRead, Handler: s.metrics, Operation: "scrapeMetrics", Summary: "Metrics where Prometheus looks by default"},
		{Method: "GET", Path: v1 + "/info", Permission: serve.Open, Handler: s.info, Summary: "What this server is and can do", Response: api.Info{}},
		{Method: "GET", Path: v1 + "/cluster/status", Permission: tenancy.NodeRead, Handler: s.clusterStatus,
			Summary: "What this node knows of its cluster", Response: api.ClusterStatus{}},
		{Method: "POST", Path: v1 + "/cluster/join", Permission: tenancy.NodeAdmin, Handler: s.joinCluster,
			Summary: "Have a node join that waits to be invited", Request: api.ClusterJoinRequest{}, Response: api.Status{}},
		{Method: "POST", Path: v1 + "/cluster/transfer", Permission: tenancy.NodeAdmin, Handler: s.transferCluster,
			Summary: "Hand leadership over", Request: api.ClusterTransferRequest{}, Response: api.Status{}},
		{Method: "DELETE", Path: v1 + "/cluster/servers/{id}", Permission: tenancy.NodeAdmin, Handler: s.removeServer,
			Summary: "End a node's membership of the cluster", Response: api.Status{}},
		{Method: "GET", Path: v1 + "/debug/runtime", Permission: tenancy.NodeAdmin, Handler: s.runtime,
			Summary: "What the process uses", Response: api.Runtime{}},
		{Method: "POST", Path: v1 + "/admin/snapshot", Permission: tenancy.NodeAdmin, Handler: s.snapshot,
			Summary: "Make the state of the node asked durable and cut its logs", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/admin/rebuild-view", Permission: tenancy.NodeAdmin, Handler: s.rebuildView,
			Summary: "Build the views of the node asked anew from its state", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/admin/rebuild-sqlite", Permission: tenancy.NodeAdmin, Handler: s.rebuildView,
			Summary: "Another name of rebuild-view", Response: api.Status{}},
		{Method: "POST", Path: v1 + "/admin/verify", Permission: tenancy.NodeAdmin, Handler: s.verify,
			Summary: "Read and check all that the stores of the node asked have on disk", Response: api.Verified{}},
		{Method: "POST", Path: v1 + "/admin/backup", Permission: tenancy.NodeAdmin, Handler: s.backup, Query: backupQuery,
			Summary: "All state at one moment, as a file: payloads and the hashes of keys included"},
		{Method: "POST", Path: v1 + "/admin/restore", Permission: tenancy.NodeAdmin, Handler: s.restore,
			Summary: "Answers 501: a backup is restored into a new node, by corvo admin restore"},
		{Method: "GET", Path: profilesPath, Permission: tenancy.NodeAdmin, Handler: s.profiles,
			Summary: "Profiles of the process, as go tool pprof reads them"},
		{Method: "GET", Path: "/healthz", Permission: serve.Open, Handler: s.healthz, Summary: "Whether the process works", Response: api.Health{}},
		{Method: "GET", Path: "/readyz", Permission: serve.Open, Handler: s.readyz, Summary: "Whether to send requests here", Response: api.Health{}},
		{Method: "GET", Path: "/openapi.json", Permission: serve.Open, Handler: s.openAPI, Summary: "This document"},
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

// document is the OpenAPI document of a table, without the routes that only
// answer that they are not built.
func document(table []serve.Route) ([]byte, error) {
	var built []serve.Route
	for _, r := range table {
		if !r.Unbuilt {
			built = append(built, r)
		}
	}
	return serve.Document(serve.Info{Title: "Corvo", Version: apiVersion, Description: "A job queue for background and AI-agent work."}, built)
}
