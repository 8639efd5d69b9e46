package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// RecordUsage writes a usage row with the quantities that the shard has metered since the last one: of the named
// queues, the open time, and the stored bytes (ADR 0088). The quantities are differences of counters in the state, so
// that a repeat of the op records nothing twice. stored_bytes is the size of the leader's store, because the sizes of
// two replicas differ. The first RecordUsage of a history only begins the metering.

// Validate refuses an op that no state could accept.
func (o *RecordUsage) Validate() error {
	var p problems
	o.Meta.check(&p)
	if len(o.Queues) > 0 { // without queues it records the open time
		p.length("queues", len(o.Queues), job.MaxMeteredQueues)
	}
	for i, queue := range o.Queues[:min(len(o.Queues), job.MaxMeteredQueues)] {
		p.item("queues", i, "", job.CheckStoredQueueName(queue))
	}
	if o.StoredBytes > job.MaxStoredBytes {
		p.add("stored_bytes", fmt.Errorf("is %d; at most %d", o.StoredBytes, uint64(job.MaxStoredBytes)))
	}
	return p.err()
}

// Apply records the quantities. It refuses nothing.
func (o *RecordUsage) Apply(tx *state.Tx) (*RecordUsageResult, error) {
	return &RecordUsageResult{}, tx.RecordMeters(o.Queues, o.StoredBytes)
}
