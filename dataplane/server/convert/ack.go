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

// AckBatchItem is one item of AckBatchBody.
type AckBatchItem struct {
	JobID string `json:"job_id"`
	AckBody
}

// FromAck converts an ack of one job. The caller adds the tool calls.
func FromAck(f *Faults, id job.ID, b *AckBody) *op.AckItem { return new(ackItem).read(f, id, b) }

// Acks converts several acks into memory that is allocated at once.
type Acks struct{ room []ackItem }

// NewAcks returns an Acks for at most n acks.
func NewAcks(n int) Acks { return Acks{make([]ackItem, n)} }

// From converts an ack as FromAck does. It may be called at most n times after NewAcks(n).
func (a *Acks) From(f *Faults, id job.ID, b *AckBody) *op.AckItem {
	into := &a.room[0]
	a.room = a.room[1:]
	return into.read(f, id, b)
}

// ackItem is an ack and its proof, in one allocation.
type ackItem struct {
	op.AckItem
	proof proof
}

func (into *ackItem) read(f *Faults, id job.ID, b *AckBody) *op.AckItem {
	into.AckItem = op.AckItem{
		Proof:       into.proof.read(f, id, b.LeaseToken, b.WorkerID),
		Result:      blob(f, "result", b.Result, job.MaxResult),
		Checkpoint:  blob(f, "checkpoint", b.Checkpoint, job.MaxCheckpoint),
		Usage:       usage(b.Usage),
		ExitChain:   exits(f, b.StepStatus),
		AgentStatus: agentStatus(f, &b.AckRequest),
		HoldReason:  b.HoldReason,
		Trace:       blob(f, "trace", b.Trace, job.MaxTrace),
	}
	return &into.AckItem
}
