package api

// Worker is a worker as GET /workers answers it: one that has been heard of in the
// last two minutes by the node that is asked, or that holds a job. Every field is
// always present.
type Worker struct {
	ID       string   `json:"id"`       // the worker_id it fetches with; one that gives none is not listed
	Hostname string   `json:"hostname"` // "" = it has not said
	Queues   []string `json:"queues"`   // that it fetches from, as far as the key may see them; the latest 64
	// Concurrency is how many jobs it runs at once; 0 = it has not said.
	Concurrency int   `json:"concurrency"`
	Active      int64 `json:"active"` // jobs it holds, on whatever node it fetched them, in the queues the key may see
	// Draining says that it takes no more jobs, as far as it has said.
	Draining      bool `json:"draining"`
	StartedAt     Time `json:"started_at"`     // when it was first heard of
	LastHeartbeat Time `json:"last_heartbeat"` // when it last fetched, acked, failed or renewed a lease
}
