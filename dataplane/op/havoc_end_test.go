package op_test

import (
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// settleAll does the work of workers, duties and people until none is left.
func (h *havoc) settleAll() {
	h.ungovern()
	for _, s := range h.shards {
		var ops []op.Op
		for _, id := range h.batches {
			ops = append(ops, &op.SealBatch{BatchId: id})
		}
		for _, name := range havocQueues {
			if homes[name] == s.number {
				ops = append(ops, &op.SetQueue{
					Queue: name, Paused: ptr(false), MaxConcurrency: ptr(uint32(0)), RateLimit: ptr(uint32(0)), RateWindowMs: ptr(int64(1000)),
				})
			}
		}
		h.apply(s, ops...)
	}
	for idle := 0; idle < 3; {
		h.w.clockNs += int64(time.Hour)
		busy := false
		for _, s := range h.shards {
			ops := h.due(s)
			ops = slices.DeleteFunc(ops, func(o op.Op) bool { // the jobs are looked at in the end
				_, purge := o.(*op.PurgeJobs)
				_, purges := o.(*op.PurgeBatches)
				return purge || purges
			})
			ops = append(ops, h.work(s)...)
			if len(ops) > 0 {
				h.apply(s, ops...)
				busy = true
			}
		}
		idle++
		if busy {
			idle = 0
		}
	}
}

// work returns the work left for workers, people and deliveries.
func (h *havoc) work(s *havocShard) (ops []op.Op) {
	from := h.shards[1-s.number]
	rows, err := from.store.Outgoing(s.number, h.applied[[2]uint32{from.number, s.number}]+1, 1000, 1<<30)
	if err != nil {
		h.t.Fatal(err)
	}
	if len(rows) > 0 {
		ops = append(ops, h.delivery(from, rows))
	}
	if ids := h.gated(s); len(ids) > 0 {
		ops = append(ops, &op.OpenGate{JobIds: ids})
	}
	sweep := map[string]*op.SweepQueue{}
	for _, c := range s.store.Clearings() {
		sweep[c.Queue] = &op.SweepQueue{Queue: c.Queue, Below: c.Below}
		if c.Deleting {
			sweep[c.Queue].Below = 0
		}
		ops = append(ops, sweep[c.Queue])
	}
	for j := range h.here(s) {
		switch j.State {
		case job.Active:
			ops = append(ops, &op.Ack{Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: j.Id, Token: j.Lease.Token}}}})
		case job.Held:
			ops = append(ops, &op.ReleaseJobs{JobIds: [][]byte{j.Id}})
		case job.Pending:
			ops = append(ops, h.w.fetch(j.Queue, 10))
		}
		if o := sweep[j.Queue]; o != nil {
			o.JobIds = append(o.JobIds, j.Id)
		}
	}
	for _, o := range sweep {
		o.Last = true
	}
	return ops
}

// checkEnd requires that no job waits any more and that no settled job holds a key.
func (h *havoc) checkEnd() {
	for _, s := range h.shards {
		for j := range h.here(s) {
			if !j.State.Settled() {
				h.t.Fatalf("job %s is %s, blocked by %d, in the end", job.ID(j.Id), j.State.Word(), j.BlockedBy)
			}
			if j.Chain != nil && !j.Chain.Ended || j.Batch != nil && !j.Batch.Counted {
				h.t.Fatalf("job %s has settled, and it is not known", job.ID(j.Id))
			}
		}
		if n := s.store.Head().WaiterRecords; n > 0 {
			h.t.Fatalf("%d jobs of shard %d wait to be told", n, s.number)
		}
		h.checkBatches(s)
	}
}

func (h *havoc) checkBatches(s *havocShard) {
	v := s.store.Snapshot()
	defer v.Close()
	for b, err := range v.Batches() {
		if err != nil {
			h.t.Fatal(err)
		}
		if b.CompletedNs == 0 || b.Settled() != b.Total {
			h.t.Fatalf("batch %s is %v in the end", job.BatchIDText(job.ID(b.Id)), b)
		}
	}
}
