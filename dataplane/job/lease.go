package job

import (
	"bytes"
	"time"
)

// TokenSize is the length of a lease token in bytes.
const TokenSize = 16

// ProvesLease reports whether a worker's proof shows that it holds j's current lease, or held the last one if
// j is no longer active. A token decides alone. Without a token the worker id must be the lease's. Without a
// token and a worker id, the worker is believed as long as no lease of j ended by expiry, because then only
// one worker can be meant.
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

// ReclaimAt returns the time in Unix nanoseconds from which an active job may be taken from its worker: after
// its lease has expired, and not before workers had time to find the leader of a term that began at
// termStartedNs.
func ReclaimAt(j *Job, termStartedNs int64) int64 {
	length := time.Duration(j.Lease.GetLengthMs()) * time.Millisecond
	return max(j.Lease.GetExpiresNs(), termStartedNs+int64(min(length, ReclaimGrace)))
}
