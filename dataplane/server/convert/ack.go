package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// AckBody is the body of POST /ack/{job_id}.
type AckBody struct {
	api.AckRequest
}

// AckBatchBody is the body of POST /ack/batch.
type AckBatchBody struct {
	Acks []AckBatchItem `json:"acks"`
}

// AckBatchItem is one of its items.
type AckBatchItem struct {
	JobID string `json:"job_id"`
	AckBody
}

// FromAck reads an ack of one job.
func FromAck(f *Faults, id job.ID, b *AckBody) *op.AckItem {
	return &op.AckItem{
		Proof:       leaseProof(f, id, b.LeaseToken, b.WorkerID),
		Result:      blob(f, "result", b.Result, job.MaxResult),
		Checkpoint:  blob(f, "checkpoint", b.Checkpoint, job.MaxCheckpoint),
		Usage:       usage(f, "usage", b.Usage),
		ExitChain:   exits(f, b.StepStatus),
		AgentStatus: agentStatus(f, &b.AckRequest),
		HoldReason:  b.HoldReason,
		Trace:       blob(f, "trace", b.Trace, job.MaxTrace),
	}
}
