package api

// Worker is an element of the response of GET /workers: a worker that sent this node a request in the last
// two minutes, or that holds a job. Its JSON always has every field.
type Worker struct {
	ID       string   `json:"id"`       // its worker_id; a worker without one is not listed
	Hostname string   `json:"hostname"` // "" = unknown
	Queues   []string `json:"queues"`   // the queues of its jobs and the latest 64 that it fetched from, without those that the caller may not see
	// Concurrency is the number of jobs it runs at once; 0 = unknown.
	Concurrency int   `json:"concurrency"`
	Active      int64 `json:"active"` // jobs it holds in queues that the caller may see, fetched on any node
	// Draining means that it has announced that it will fetch no more jobs.
	Draining      bool `json:"draining"`
	StartedAt     Time `json:"started_at"`     // time of its first request that this node knows, or, if that is earlier, the start of a job that it holds
	LastHeartbeat Time `json:"last_heartbeat"` // of its last fetch, ack, fail or heartbeat
}
