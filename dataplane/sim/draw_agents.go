package sim

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// preferAgents changes the weights so that iterations continue: workers fetch jobs again, and people release
// held ones.
func (w *workload) preferAgents() {
	calm := w.chance(2) // no op ends the jobs that others have begun
	for i, d := range draws() {
		switch d.kind {
		case "cancel-jobs", "delete-jobs", "clear-queue", "delete-queue", "sweep-queue", "move-jobs", "expire-jobs", "reject-jobs":
			if calm {
				w.weight[i] = 0
			}
		case "ack", "fetch":
			w.weight[i] = max(w.weight[i], 2*d.weight)
		case "put-resource", "release-jobs", "replay-job":
			w.weight[i] = max(w.weight[i], 3*d.weight)
		case "enqueue":
			w.weight[i] = min(w.weight[i], d.weight/3)
		}
	}
}

// agency makes some new jobs an agent's, and gives some a schema for their result or a checkpoint.
func (w *workload) agency(n *op.NewJob) {
	if w.chance(8) {
		n.ResultSchema = &job.Blob{Data: []byte(`{"type":"object"}`)}
	}
	if w.chance(6) {
		n.Checkpoint = w.checkpoint()
	}
	if w.chance(2) {
		return
	}
	a := &job.AgentConfig{}
	if w.chance(2) {
		a.MaxIterations = uint32(1 + w.rng.IntN(4))
	}
	if w.chance(2) {
		a.MaxCostNanoUsd = 1 + w.rng.Int64N(250)
	}
	if w.chance(3) {
		a.IterationTimeoutMs = 1 + w.rng.Int64N(20_000)
	}
	if w.chance(4) {
		n.Opt().CostEstimateNanoUsd = w.rng.Int64N(60)
	}
	n.Opt().Agent = a
}

// iterate makes an ack end an iteration, mostly if the job is an agent's.
func (w *workload) iterate(item *op.AckItem, id job.ID) {
	item.ResultChecked = !w.chance(3)
	if w.chance(4) {
		item.Checkpoint = w.checkpoint()
	}
	j := w.m.jobs[id]
	if j == nil || j.agent.bounds == nil && !w.chance(8) || w.chance(5) {
		return
	}
	if w.chance(2) {
		item.Trace = &job.Blob{Data: fmt.Appendf(nil, `["step %d"]`, w.rng.IntN(100))}
	}
	switch n := w.rng.IntN(8); {
	case n == 0:
		item.AgentStatus = job.Done
	case n < 3:
		item.AgentStatus, item.ExitChain = job.Suspend, false
		if w.chance(2) {
			item.HoldReason = "may I?"
		}
	default:
		item.AgentStatus, item.ExitChain = job.Continue, false
		if w.chance(3) {
			item.ToolCalls = w.tools(id[:])
		}
	}
}

func (w *workload) replayJob() op.Op {
	ids := w.some(1, func(j *modelJob) bool { return len(j.agent.kept) > 0 || w.chance(30) })
	o := &op.ReplayJob{Meta: w.meta(), JobId: ids[0][:], From: 1}
	queue := "nowhere"
	if j := w.m.jobs[ids[0]]; j != nil {
		queue = j.queue
		o.From += uint32(w.rng.IntN(int(j.agent.ended) + 2))
	}
	id := w.id(queue)
	o.Meta.Ids = [][]byte{id[:]}
	return o
}

func (w *workload) scoreJob() op.Op {
	ids := w.some(1, func(j *modelJob) bool { return true })
	return &op.ScoreJob{Meta: w.meta(), JobId: ids[0][:], Score: &job.Score{
		Dimension: pick(w, []string{"quality", "tone"}), Scorer: pick(w, []string{"", "jane"}), Value: w.rng.Float64(),
	}}
}
