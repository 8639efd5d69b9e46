package op_test

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// Commands of stories about batches.
func init() {
	builders["enqueue-batch"] = (*story).enqueueBatch
	builders["add-to-batch"] = (*story).addToBatch
	builders["seal-batch"] = func(s *story, items []item) op.Op {
		return &op.SealBatch{Meta: s.meta(items[0]), BatchId: s.batchID(items[0].words[0], "q")}
	}
	builders["purge-batches"] = func(s *story, items []item) op.Op {
		o := &op.PurgeBatches{}
		for _, name := range items[0].words {
			o.BatchIds = append(o.BatchIds, s.batchID(name, "q"))
		}
		return o
	}
	builders["count-member"] = func(s *story, items []item) op.Op {
		outcome, _ := job.ParseState(items[0].words[1])
		return &op.CountMember{Meta: s.meta(items[0]), BatchId: s.batchID(items[0].words[0], "q"), Outcome: outcome}
	}
	moreValid = append(moreValid,
		func(w *world) op.Op { id := w.newID("q"); return &op.SealBatch{BatchId: id[:]} },
		func(w *world) op.Op { id := w.newID("q"); return &op.PurgeBatches{BatchIds: [][]byte{id[:]}} },
		func(w *world) op.Op {
			id := w.newID("q")
			return &op.CountMember{BatchId: id[:], Outcome: job.Completed}
		},
	)
}

// batchID returns the id of a batch by its name. A new id belongs to queue.
func (s *story) batchID(name, queue string) []byte {
	id, ok := s.jobs[name]
	if !ok {
		id = s.newID(queue)
		s.jobs[name], s.names[id] = id, name
	}
	return id[:]
}

// enqueueBatch reads a batch's name, "open", callback=, shard=, payload= and
// parent=, and the jobs as enqueue does.
func (s *story) enqueueBatch(items []item) op.Op {
	i := items[0]
	o := s.enqueue(items[1:]).(*op.Enqueue)
	o.Meta.Principal, o.Meta.Idempotency = s.meta(i).Principal, s.meta(i).Idempotency
	o.Batch = &op.NewBatch{
		CallbackQueue:   repeated(i.text("callback", "")),
		CallbackShard:   uint32(i.number(s.t, "shard", 0)),
		CallbackPayload: i.blob(s.t, "payload"),
		Open:            i.has("open"),
	}
	if parent, ok := i.settings["parent"]; ok {
		o.Batch.ParentId = s.batchID(parent, "q")
	}
	queue := "q"
	if len(o.Jobs) > 0 {
		queue = o.Jobs[0].Queue
	}
	o.Meta.Ids = append(o.Meta.Ids, s.batchID(i.words[0], queue))
	return o
}

// addToBatch reads a batch's name and the jobs as enqueue does.
func (s *story) addToBatch(items []item) op.Op {
	o := s.enqueue(items[1:]).(*op.Enqueue)
	o.BatchId = s.batchID(items[0].words[0], "q")
	return o
}

// printBatches prints batches and their callbacks.
func (s *story) printBatches(names []string) {
	s.snapshot(func(v *state.Snapshot) {
		for _, name := range names {
			b, err := v.Batch(s.jobs[name])
			if err != nil {
				s.t.Fatal(err)
			}
			if b == nil {
				fmt.Fprintf(&s.out, "batch %s: none\n", name)
				continue
			}
			fmt.Fprintf(&s.out, "batch %s: open %v total %d succeeded %d failed %d cancelled %d, created %s completed %s purged %s\n",
				name, b.Open, b.Total, b.Succeeded, b.Failed, b.Cancelled, s.moment(b.CreatedNs), s.moment(b.CompletedNs), s.moment(b.PurgeNs))
			if len(b.CallbackJobId) > 0 {
				callback := job.ID(b.CallbackJobId)
				s.jobs[name+"-callback"], s.names[callback] = callback, name+"-callback"
				s.printCallback(v, b)
			}
		}
	})
}

// printCallback prints the job that a batch has created on this shard.
func (s *story) printCallback(v *state.Snapshot, b *state.Batch) {
	j, err := v.Job(job.ID(b.CallbackJobId))
	if err != nil {
		s.t.Fatal(err)
	}
	if j == nil {
		fmt.Fprintf(&s.out, "  callback in %s: not here\n", b.CallbackQueue)
		return
	}
	payload, err := v.Blob(job.ID(j.Id), job.Payload)
	if err != nil {
		s.t.Fatal(err)
	}
	o := j.Origin
	fmt.Fprintf(&s.out, "  callback in %s: %s, payload %s, batch %s total %d succeeded %d failed %d cancelled %d\n",
		j.Queue, j.State.Word(), payload.GetData(), s.name(o.GetBatchId()), o.GetTotal(), o.GetSucceeded(), o.GetFailed(), o.GetCancelled())
}
