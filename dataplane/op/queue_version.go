package op

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// QueueVersion returns the version of a queue's settings, from 1 to the maximum int64. Equal settings have
// equal versions; different settings have different ones, up to a collision of 63 bits of the hash. The version
// covers everything that SetQueue sets and nothing else. It is a hash and not a counter, because a counter would
// start anew in a store whose log is older than the counter, and replicas would differ by the part of the log
// that they replay. Replicas with different binaries must compute the same version, so a new setting joins
// the hash at the feature level that allows setting it, and adds nothing while it is not set.
func QueueVersion(q *state.Queue) (uint64, error) {
	settings := &state.Queue{
		Paused: q.Paused, Draining: q.Draining, MaxConcurrency: q.MaxConcurrency,
		RateLimit: q.RateLimit, RateWindowMs: q.RateWindowMs, AgeingMs: q.AgeingMs,
		MaxLength: q.MaxLength, Overflow: q.Overflow, Provider: q.Provider,
		Retention: retentionOf(q), Defaults: defaultsOf(q),
	}
	text, err := settings.MarshalVT()
	if err != nil {
		return 0, fmt.Errorf("encode the settings of queue %q: %w", q.Name, err)
	}
	sum := sha256.Sum256(text)
	return max(1, binary.BigEndian.Uint64(sum[:])>>1), nil
}

// expected refuses with PRECONDITION_FAILED to create a queue that exists, and to change a queue that does
// not exist or has another version than the client saw. IfVersion 0 matches any queue, also one that does not
// exist.
func (o *SetQueue) expected(was *state.Queue) error {
	switch {
	case o.Create && was != nil:
		return api.Errorf(api.PreconditionFailed, "there is a queue %s already: read it, and send its ETag as If-Match to change it", o.Queue)
	case o.IfVersion != 0 && was == nil:
		return api.Errorf(api.PreconditionFailed, "there is no queue %s, so it has no version: leave If-Match out to create it", o.Queue)
	}
	return queueAt(was, o.IfVersion)
}

// queueAt refuses with PRECONDITION_FAILED a queue whose settings have another version; version 0 matches
// any.
func queueAt(q *state.Queue, version uint64) error {
	if version == 0 {
		return nil
	}
	present, err := QueueVersion(q)
	if err == nil && present != version {
		err = api.Errorf(api.PreconditionFailed, "queue %s has version %d, not %d: read it again", q.Name, present, version)
	}
	return err
}
