package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// fetchEarly is the time between the answer of a waiting fetch and the fetch's timeout. Without it a client
// whose own limit is the timeout would often give up before the answer.
const fetchEarly = 500 * time.Millisecond

// Fetch is a fetch with its defaults filled in.
type Fetch struct {
	Queues   []string // each once
	WorkerID string
	Hostname string
	Wait     time.Duration // for a job; 0 = does not wait
	LeaseMs  int64
	Count    int

	Concurrency int // of the worker; 0 = not given
}

// FromFetch converts a fetch of one job. It cuts the timeout to job.MaxFetchWait; the default is
// job.DefaultFetchWait. The fetch waits until fetchEarly before the timeout.
func FromFetch(f *Faults, r *api.FetchRequest) Fetch {
	out := Fetch{
		WorkerID: r.WorkerID,
		Hostname: r.Hostname,
		LeaseMs:  leaseMs(f, "lease_duration", r.LeaseDuration, job.DefaultLease),
		Count:    1,

		Concurrency: workerConcurrency(f, r.Concurrency),
	}
	if len(r.Queues) == 0 || len(r.Queues) > job.MaxFetchQueues {
		f.Invalid("queues", "has %d entries; it takes 1 to %d", len(r.Queues), job.MaxFetchQueues)
	} else {
		out.Queues = queues(f, r.Queues)
	}
	if err := job.CheckText(r.WorkerID, job.MaxWorkerID); err != nil {
		f.Invalid("worker_id", "%v", err)
	}
	if err := job.CheckText(r.Hostname, job.MaxWorkerID); err != nil {
		f.Invalid("hostname", "%v", err)
	}
	wait := job.DefaultFetchWait
	if r.Timeout != nil {
		if *r.Timeout < 0 {
			f.Invalid("timeout", "is %d; it must be from 0 to %d seconds", *r.Timeout, job.MaxFetchWait/time.Second)
		}
		wait = time.Duration(min(*r.Timeout, int(job.MaxFetchWait/time.Second))) * time.Second
	}
	out.Wait = max(0, wait-fetchEarly)
	return out
}

// workerConcurrency checks the number of jobs that a worker runs at once.
func workerConcurrency(f *Faults, n int) int {
	if n < 0 || n > job.MaxWorkerConcurrency {
		f.Invalid("concurrency", "is %d; it must be the worker's number of concurrent jobs, at most %d", n, job.MaxWorkerConcurrency)
	}
	return n
}

// queues checks the names and drops repeats; the first mention counts.
func queues(f *Faults, names []string) []string {
	out := make([]string, 0, len(names))
	for i, name := range names {
		if err := job.CheckQueueName(name); err != nil {
			f.Invalid(fmt.Sprintf("queues[%d]", i), "%v", err)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// FromFetchBatch converts a fetch of several jobs. It cuts the count to job.MaxFetchJobs and refuses one
// below 1; the default is 1.
func FromFetchBatch(f *Faults, r *api.FetchBatchRequest) Fetch {
	out := FromFetch(f, &r.FetchRequest)
	if n := r.Count; n != nil {
		if *n < 1 {
			f.Invalid("count", "is %d; ask for at least 1 job", *n)
		}
		out.Count = min(*n, job.MaxFetchJobs)
	}
	return out
}

// Op returns the fetch as an op.
func (r *Fetch) Op(meta *op.Meta) *op.Fetch {
	return &op.Fetch{
		Meta:     meta,
		Queues:   r.Queues,
		Count:    uint32(r.Count),
		WorkerId: r.WorkerID,
		Hostname: r.Hostname,
		LeaseMs:  r.LeaseMs,
	}
}

// fetchedSize is the initial size of a leased job's JSON in bytes; most fit.
const fetchedSize = 768

// AppendFetched appends a leased job, j, as an api.FetchedJob, without the results of tools. It does not use
// encoding/json, because that would rewrite the payload, whose bytes must stay as the client sent them.
// AppendFetched fails if j is nil, because the record is gone, and if a document is gone or sealed with a
// key. After an error the returned slice ends with a part of the job.
func AppendFetched(b []byte, from state.Reader, id job.ID, j *job.Job, l *op.Leased, leaseMs int64) ([]byte, error) {
	if j == nil {
		return b, errors.New("its record is gone")
	}
	var err error
	b = slices.Grow(b, fetchedSize)
	b = append(b, `{"job_id":"`...)
	b = id.Append(b)
	b = append(b, `","queue":"`...)
	b = append(b, j.Queue...) // its characters need no escape
	b = append(b, `","payload":`...)
	if b, err = appendPayload(b, from, id, j); err != nil {
		return b, err
	}
	b = append(b, `,"attempt":`...)
	b = strconv.AppendUint(b, uint64(l.Attempt), 10)
	b = append(b, `,"max_retries":`...)
	b = strconv.AppendUint(b, uint64(j.Retry.GetMaxAttempts()), 10)
	b = append(b, `,"lease_duration":`...)
	b = strconv.AppendInt(b, leaseLength(j, leaseMs)/1000, 10)
	b = append(b, `,"lease_token":"`...)
	b = appendLeaseToken(b, l.LeaseToken)
	b = append(b, '"')
	if j.Blobs&(1<<job.Checkpoint) != 0 {
		b = append(b, `,"checkpoint":`...)
		if b, err = appendBlob(b, from, id, j, job.Checkpoint); err != nil {
			return b, err
		}
	}
	if b, err = appendStrings(b, `,"tags":`, j.Tags); err != nil {
		return b, err
	}
	if b, err = appendStrings(b, `,"headers":`, j.Headers); err != nil {
		return b, err
	}
	if b, err = appendAgent(b, j); err != nil {
		return b, err
	}
	return append(b, '}'), nil
}

func appendBlob(b []byte, from state.Reader, id job.ID, j *job.Job, kind job.BlobKind) ([]byte, error) {
	blob, err := from.Blob(id, kind)
	switch {
	case err != nil:
		return b, err
	case blob == nil:
		return b, fmt.Errorf("its blob %d is gone", kind)
	case blob.KeyId != "":
		return b, fmt.Errorf("its blob %d is sealed with key %q, which this node does not have", kind, blob.KeyId)
	}
	return append(b, blob.Data...), nil
}

// appendStrings appends a member with an object of strings, unless the list is empty.
func appendStrings(b []byte, member string, pairs []*job.Pair) ([]byte, error) {
	if len(pairs) == 0 {
		return b, nil
	}
	object, err := json.Marshal(stringsOf(pairs))
	if err != nil {
		return b, err
	}
	return append(append(b, member...), object...), nil
}
