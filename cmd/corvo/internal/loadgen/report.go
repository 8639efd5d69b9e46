package loadgen

import (
	"math"
	"time"
)

// Report holds the measurements of a run. Times are in milliseconds.
type Report struct {
	Endpoint     string  `json:"endpoint"`
	Transport    string  `json:"transport"`
	Workload     string  `json:"workload"`
	Loop         string  `json:"loop"` // closed, or open: at a fixed rate
	Clients      int     `json:"clients"`
	Window       int     `json:"window"` // operations of each client under way at once
	Rate         float64 `json:"rate"`   // jobs a second that were asked for; 0 in a closed loop
	Batch        int     `json:"batch"`
	PayloadBytes int     `json:"payload_bytes"`
	Queues       int     `json:"queues"`
	WarmupMs     float64 `json:"warmup_ms"`

	Interrupted   bool    `json:"interrupted"`
	ElapsedMs     float64 `json:"elapsed_ms"` // from the end of the warm-up to the end of the last operation
	Jobs          int64   `json:"jobs"`       // enqueued by Enqueue, acknowledged by the other workloads
	JobsPerSecond float64 `json:"jobs_per_second"`

	// Operations counts the operations, including failed ones. An operation of Enqueue is an enqueue; of
	// Work, an ack of the held jobs and a fetch; of Lifecycle, an enqueue, a fetch and an ack in turn; of
	// Steady, all of them together.
	Operations  int64        `json:"operations"`
	Failed      int64        `json:"failed"` // operations of which any part failed
	FailedShare float64      `json:"failed_share"`
	Errors      []ErrorCount `json:"errors"`

	Latency    *Latency `json:"latency_ms"`     // of operations that worked, null if none did; in an open loop from their intended start
	JobLatency *Latency `json:"job_latency_ms"` // of jobs, from their (intended) enqueue to their ack; null if the run does not enqueue them, or does not acknowledge them

	QueuesKept []string `json:"queues_kept"`
}

// ErrorCount counts the errors with one code.
type ErrorCount struct {
	Code    string `json:"code"`
	Count   int64  `json:"count"`
	Example string `json:"example"`
}

// Latency summarises how long operations or jobs took.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// latencyOf summarises a histogram; nil if it is empty.
func latencyOf(h *Histogram) *Latency {
	if h.Count() == 0 {
		return nil
	}
	return &Latency{
		Mean: ms(h.Mean()), P50: ms(h.Quantile(0.5)), P90: ms(h.Quantile(0.9)),
		P99: ms(h.Quantile(0.99)), P999: ms(h.Quantile(0.999)), Max: ms(h.Max()),
	}
}

// ms converts a duration to milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// report merges the counts of all callers.
func (r *run) report(all []*caller, interrupted bool) Report {
	out := Report{
		Endpoint: r.Endpoint, Transport: r.Transport, Workload: r.Workload, Loop: "closed",
		Clients: r.Clients, Window: r.Window, Rate: r.Rate, Batch: r.Batch, PayloadBytes: r.Payload, Queues: r.Queues,
		WarmupMs: ms(r.Warmup), Interrupted: interrupted, QueuesKept: []string{},
	}
	if r.Rate > 0 {
		out.Loop = "open"
	}
	if r.Keep {
		out.QueuesKept = r.filled(all)
	}
	var operations, lives Histogram
	var errors failures
	end := r.pace.from
	for _, c := range all {
		operations.Merge(&c.operations)
		lives.Merge(&c.lives)
		errors.merge(c.errors)
		out.Jobs += c.jobs
		out.Failed += c.failed
		if c.end.After(end) {
			end = c.end
		}
	}
	if missed := r.pace.notSent(); missed > 0 && !interrupted && r.Workload != Work {
		out.Failed += missed
		errors.addN(NotSent, missed, "the clients were busy; more --clients, or less --rate than the server bears")
	}
	out.Errors = errors.sorted()
	out.Operations = int64(operations.Count()) + out.Failed
	if out.Operations > 0 {
		out.FailedShare = float64(out.Failed) / float64(out.Operations)
	}
	elapsed := end.Sub(r.pace.from)
	out.ElapsedMs = ms(elapsed)
	if elapsed > 0 {
		out.JobsPerSecond = math.Round(10*float64(out.Jobs)/elapsed.Seconds()) / 10
	}
	out.Latency, out.JobLatency = latencyOf(&operations), latencyOf(&lives)
	return out
}
