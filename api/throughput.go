package api

// ThroughputSeconds is the period of Throughput.
const ThroughputSeconds = 60

// Rates count what happened in ThroughputSeconds.
type Rates struct {
	Enqueued  int64 `json:"enqueued"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"` // attempts, expired leases included
}

// Plus is the sum of both.
func (r Rates) Plus(other Rates) Rates {
	return Rates{r.Enqueued + other.Enqueued, r.Completed + other.Completed, r.Failed + other.Failed}
}

// Throughput answers GET /metrics/throughput: what happened in the last minute in the
// queues that the caller may see, as far as the node that answers has seen it since it
// started.
type Throughput struct {
	PeriodSeconds int `json:"period_seconds"`
	Rates
	Queues []QueueThroughput `json:"queues"` // by name, those in which anything happened
}

// QueueThroughput is that of one queue.
type QueueThroughput struct {
	Queue string `json:"queue"`
	Rates
}
