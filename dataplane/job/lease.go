package job

import (
	"bytes"
	"time"
)

// TokenSize is the length of a lease token in bytes.
const TokenSize = 16

// ProvesLease says whether what a worker showed proves that it holds j's
// current lease, or held its last one where j is no longer active. A token
// decides alone; without one the worker id must be the lease's; with neither,
// the claim is believed as long as no lease of j ended by expiry, because then
// only one worker can be meant.
func ProvesLease(j *Job, token []byte, workerID string) bool {
	switch {
	case len(token) > 0:
		return j.Lease != nil && bytes.Equal(token, j.Lease.Token)
	case workerID != "":
		return j.Lease != nil && workerID == j.Lease.WorkerId
	default:
		return !j.LeaseExpired
	}
}

// ReclaimAt is the time in Unix nanoseconds from which an active job may be
// taken from its worker: when its lease is over, but not before workers had time
// to find the leader of a term that began at termStartedNs.
func ReclaimAt(j *Job, termStartedNs int64) int64 {
	length := time.Duration(j.Lease.GetLengthMs()) * time.Millisecond
	return max(j.Lease.GetExpiresNs(), termStartedNs+int64(min(length, ReclaimGrace)))
}
