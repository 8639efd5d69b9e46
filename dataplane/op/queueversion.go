package op

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// QueueVersion is the version of a queue's settings: the same for the same settings and
// another for others, from 1 to what an int64 holds. It is of all that SetQueue sets and
// of nothing else. It is computed, not counted: a count would begin anew in a store whose
// log was written before there was one, and replicas would differ by how much of the log
// they replay. Replicas of different binaries must come to the same: a setting that is new
// joins from the feature level on that allows to set it, and is nothing where it is not set.
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

// expected refuses a queue that is not as the client saw it.
func (o *SetQueue) expected(was *state.Queue) error {
	switch {
	case o.Create && was != nil:
		return api.Errorf(api.PreconditionFailed, "there is a queue %s already: read it, and send its ETag as If-Match to change it", o.Queue)
	case o.IfVersion != 0 && was == nil:
		return api.Errorf(api.PreconditionFailed, "there is no queue %s, so it has no version: leave If-Match out to create it", o.Queue)
	}
	return queueAt(was, o.IfVersion)
}

// queueAt refuses a queue whose settings have another version; 0 = any.
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
