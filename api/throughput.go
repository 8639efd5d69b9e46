package api

// ThroughputSeconds is the period of Throughput, in seconds.
const ThroughputSeconds = 60

// Rates count the events in the last ThroughputSeconds.
type Rates struct {
	Enqueued  int64 `json:"enqueued"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"` // failed attempts, expired leases included
}

// Plus returns the sum of r and other.
func (r Rates) Plus(other Rates) Rates {
	return Rates{r.Enqueued + other.Enqueued, r.Completed + other.Completed, r.Failed + other.Failed}
}

// Throughput is the response of GET /metrics/throughput: the events of the last minute in the queues that the
// caller may see. It counts only events that the responding node has seen since its start.
type Throughput struct {
	PeriodSeconds int `json:"period_seconds"`
	Rates
	Queues []QueueThroughput `json:"queues"` // sorted by name, without idle queues
}

// QueueThroughput is the throughput of one queue.
type QueueThroughput struct {
	Queue string `json:"queue"`
	Rates
}
