package sim

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// modelMember is a job's place in a batch.
type modelMember struct {
	batch   job.ID
	shard   uint32
	counted bool
}

// modelBatch is a batch and the payload of its callback.
type modelBatch struct {
	*state.Batch
	payload *job.Blob
}

// admitBatch returns the code with which the batch or the parent batch that an op names refuses the op's
// jobs. It is empty if that batch accepts them or the op names none.
func (m *model) admitBatch(o *op.Enqueue) api.Code {
	id := o.GetBatchId()
	if o.GetBatch() != nil {
		id = o.GetBatch().GetParentId()
	}
	if len(id) == 0 {
		return ""
	}
	b := m.batches[job.ID(id)]
	switch {
	case b == nil:
		return api.NotFound
	case !b.Open:
		return api.StateConflict
	}
	if o.GetBatch() != nil && m.depth(b) >= job.MaxBatchDepth {
		return api.Conflict
	}
	return ""
}

func (m *model) depth(b *modelBatch) int {
	if len(b.ParentId) == 0 {
		return 1
	}
	return 1 + m.depth(m.batches[job.ID(b.ParentId)])
}

// joinBatch adds new members to the batch that an op names, or creates the batch.
func (m *model) joinBatch(o *op.Enqueue, made int) *modelMember {
	id := o.GetBatchId()
	switch n := o.GetBatch(); {
	case n != nil:
		ids := o.GetMeta().GetIds()
		id = ids[len(ids)-1]
		if parent := n.GetParentId(); len(parent) > 0 {
			m.batches[job.ID(parent)].Total++
		}
		b := &modelBatch{&state.Batch{
			Id: id, Queue: o.GetJobs()[0].GetQueue(), Total: uint64(made), Open: n.GetOpen(),
			CallbackQueue: n.GetCallbackQueue(), CallbackShard: n.GetCallbackShard(), CallbackPayload: n.GetCallbackPayload() != nil,
			ParentId: n.GetParentId(), CreatedNs: m.clockNs,
		}, n.GetCallbackPayload()}
		m.batches[job.ID(id)] = b
		m.ledger.members[job.ID(id)] = &tally{}
		m.complete(b)
	case len(id) > 0:
		m.batches[job.ID(id)].Total += uint64(made)
	default:
		return nil
	}
	return &modelMember{batch: job.ID(id), shard: m.number}
}

// countMember reports a job's outcome to its batch, the first time.
func (m *model) countMember(j *modelJob) {
	if j.batch == nil || j.batch.counted {
		return
	}
	j.batch.counted = true
	id, how := j.batch.batch, j.state
	m.ledger.settled(id, how)
	m.send(j.batch.shard, traveller{arrive: func(to *model) {
		if b := to.batches[id]; b != nil && b.Succeeded+b.Failed+b.Cancelled < b.Total {
			b.count(how)
			to.complete(b)
		}
	}})
}

func (b *modelBatch) count(how job.State) {
	switch how {
	case job.Completed:
		b.Succeeded++
	case job.Dead:
		b.Failed++
	default:
		b.Cancelled++
	}
}

// complete completes a sealed batch if all of its members have settled, and then its parent if the batch was
// the parent's last member.
func (m *model) complete(b *modelBatch) {
	if b.Open || b.CompletedNs > 0 || b.Succeeded+b.Failed+b.Cancelled < b.Total {
		return
	}
	how := job.Completed
	if b.Succeeded != b.Total {
		how = job.Dead
	}
	b.CompletedNs, b.PurgeNs = m.clockNs, m.keptUntil(how, nil, m.clockNs)
	if b.CallbackQueue != "" {
		id := m.newID(b.CallbackQueue)
		b.CallbackJobId = id[:]
		payload := b.payload
		if payload == nil {
			payload = &job.Blob{Data: []byte("{}")}
		}
		m.createJob(b.CallbackShard, id, &op.NewJob{
			Queue: b.CallbackQueue, Payload: payload, Priority: job.Normal, Retry: job.NewRetry(),
			Origin: &job.Origin{
				Kind: job.OriginKind_ORIGIN_KIND_BATCH, BatchId: b.Id,
				Total: b.Total, Succeeded: b.Succeeded, Failed: b.Failed, Cancelled: b.Cancelled,
			},
		})
	}
	if len(b.ParentId) == 0 {
		return
	}
	if parent := m.batches[job.ID(b.ParentId)]; parent != nil {
		m.ledger.settled(job.ID(b.ParentId), how)
		parent.count(how)
		m.complete(parent)
	}
}

func (m *model) sealBatch(o *op.SealBatch) outcome {
	b := m.batches[job.ID(o.GetBatchId())]
	if b == nil {
		return outcome{refused: api.NotFound}
	}
	if b.Open {
		b.Open = false
		m.complete(b)
	}
	return outcome{result: &op.SealBatchResult{Batch: proto.Clone(b.Batch).(*state.Batch)}}
}

func (m *model) purgeBatches(o *op.PurgeBatches) outcome {
	result := &op.PurgeBatchesResult{}
	for _, id := range o.GetBatchIds() {
		if b := m.batches[job.ID(id)]; b != nil && b.PurgeNs > 0 && b.PurgeNs <= m.clockNs {
			delete(m.batches, job.ID(id))
			result.Purged++
		}
	}
	return outcome{result: result}
}

// compareBatches compares a store's batches with the model's.
func (m *model) compareBatches(v *state.Snapshot) error {
	seen := 0
	for b, err := range v.Batches() {
		if err != nil {
			return err
		}
		seen++
		want := m.batches[job.ID(b.GetId())]
		if want == nil || !proto.Equal(b, want.Batch) {
			return fmt.Errorf("batch %x is %v in the store, %v in the model", b.GetId(), b, want)
		}
		payload, err := v.BatchPayload(job.ID(b.GetId()))
		if err != nil || !proto.Equal(payload, want.payload) {
			return fmt.Errorf("the callback of batch %x has the payload %v in the store, %v in the model (%w)", b.GetId(), payload, want.payload, err)
		}
	}
	if seen != len(m.batches) {
		return fmt.Errorf("the store has %d batches, the model %d", seen, len(m.batches))
	}
	return nil
}

func (w *workload) someBatch() []byte {
	id := w.id("nowhere")
	if ids := sortedIDs(w.m.batches); len(ids) > 0 && !w.chance(15) {
		id = pick(w, ids)
	}
	return id[:]
}

func (w *workload) sealBatch() op.Op { return &op.SealBatch{Meta: w.meta(), BatchId: w.someBatch()} }

func (w *workload) purgeBatches() op.Op {
	return &op.PurgeBatches{Meta: duty(), BatchIds: [][]byte{w.someBatch()}}
}

// inBatch makes an op's jobs members of a new or an existing batch.
func (w *workload) inBatch(o *op.Enqueue) {
	if !w.chance(3) {
		if !w.chance(6) {
			w.preferOpen(o)
			return
		}
		o.BatchId = w.someBatch()
		return
	}
	id := w.id(o.Jobs[0].Queue)
	o.Meta.Ids = append(o.Meta.Ids, id[:])
	o.Batch = &op.NewBatch{Open: w.chance(2)}
	if !w.chance(3) {
		to := w.anyShard()
		o.Batch.CallbackQueue, o.Batch.CallbackShard = to.work.jobQueue(), to.number
		if w.chance(2) {
			o.Batch.CallbackPayload = w.payload()
		}
	}
	if w.chance(3) && len(w.m.batches) > 0 {
		o.Batch.ParentId = w.someBatch()
	}
}

// preferOpen makes an op's jobs join an open batch, if there is one.
func (w *workload) preferOpen(o *op.Enqueue) {
	var open []job.ID
	for _, id := range sortedIDs(w.m.batches) {
		if w.m.batches[id].Open {
			open = append(open, id)
		}
	}
	if len(open) > 0 {
		id := pick(w, open)
		o.BatchId = id[:]
	}
}
