package convert

import (
	"encoding/json"
	"errors"
	"time"
	"unsafe"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// FromRPCFetch converts a fetch of up to count jobs. It refuses a count below 1, and lowers one above
// job.MaxFetchJobs to that. The messages have no timeout, so lease, in seconds, is also the fetch's wait, cut
// to job.MaxFetchWait. A lease of 0 is absent: the lease is then job.DefaultLease long, and the fetch waits
// job.DefaultFetchWait.
func FromRPCFetch(queues []string, worker, hostname string, lease, count, concurrency int32) (Fetch, error) {
	var f Faults
	n := int(count)
	out := FromFetchBatch(&f, &api.FetchBatchRequest{FetchRequest: api.FetchRequest{
		Queues: queues, WorkerID: worker, Hostname: hostname, LeaseDuration: int(lease), Concurrency: int(concurrency),
	}, Count: &n})
	out.Wait = job.DefaultFetchWait
	if lease > 0 {
		out.Wait = min(time.Duration(lease)*time.Second, job.MaxFetchWait)
	}
	return out, f.Err()
}

// Texts holds the strings of one answer in few allocations.
type Texts struct {
	piece []byte
	size  int // of the next piece, in bytes
}

// The sizes of the pieces in bytes. A new piece has at most mostTexts, and grows if the texts of a job do not
// fit.
const (
	textsSize = 384 // enough for most leased jobs
	mostTexts = 32 << 10
)

// NewTexts returns a Texts for the strings of the given number of jobs.
func NewTexts(jobs int) Texts { return Texts{size: min(max(jobs*textsSize, fetchedSize), mostTexts)} }

// room returns the piece with room for at least textsSize bytes more. The caller appends the texts of one job
// to the piece.
func (t *Texts) room() []byte {
	if cap(t.piece)-len(t.piece) < textsSize {
		t.piece = make([]byte, 0, t.size)
	}
	return t.piece
}

// ToRPCFetched fills in the message of a leased job, j, for its worker, with the results of the job's tools.
// The message shares the memory of texts. ToRPCFetched fails if j is nil, because the record is gone, and if
// a document is gone or sealed with a key.
func ToRPCFetched(into *workerpb.FetchBatchJob, texts *Texts, from state.Reader, id job.ID, j *job.Job, l *op.Leased, leaseMs int64, tools []api.ToolResult) error {
	if j == nil {
		return errors.New("its record is gone")
	}
	var err error
	b := texts.room()
	start := len(b)
	b = id.Append(b)
	ends := [...]int{len(b), 0, 0, 0, 0, 0, 0}
	b = appendLeaseToken(b, l.LeaseToken)
	ends[1] = len(b)
	if b, err = appendPayload(b, from, id, j); err != nil {
		return err
	}
	ends[2] = len(b)
	if j.Blobs&(1<<job.Checkpoint) != 0 {
		if b, err = appendBlob(b, from, id, j, job.Checkpoint); err != nil {
			return err
		}
	}
	ends[3] = len(b)
	if b, err = appendStrings(b, "", j.Tags); err != nil {
		return err
	}
	ends[4] = len(b)
	if b, err = appendStrings(b, "", j.Headers); err != nil {
		return err
	}
	ends[5] = len(b)
	if len(tools) > 0 {
		list, err := json.Marshal(tools)
		if err != nil {
			return err
		}
		b = append(b, list...)
	}
	ends[6] = len(b)
	texts.piece = b
	whole := unsafe.String(unsafe.SliceData(b), len(b)) // nothing changes these bytes any more
	for i, field := range [...]*string{&into.JobId, &into.LeaseToken, &into.PayloadJson, &into.CheckpointJson, &into.TagsJson, &into.HeadersJson, &into.ToolResultsJson} {
		*field, start = whole[start:ends[i]], ends[i]
	}
	into.Queue, into.Attempt, into.MaxRetries = j.Queue, int32Of(l.Attempt), int32Of(j.Retry.GetMaxAttempts())
	into.LeaseDuration = int32(leaseLength(j, leaseMs) / 1000)
	if told, ok := fetchedAgent(j); ok {
		into.Agent = &workerpb.AgentState{
			MaxIterations: int32(told.MaxIterations), MaxCostUsd: dollarsOf(told.MaxCostUSD), IterationTimeout: string(told.IterationTimeout),
			Iteration: int32(told.Iteration), TotalCostUsd: dollarsOf(told.TotalCostUSD),
		}
	}
	return nil
}

// dollarsOf converts an amount to the double of the messages. A double is precise enough for a worker,
// because the exact amount is stored.
func dollarsOf(n money.Nano) float64 { return float64(n) / float64(money.Dollar) }
