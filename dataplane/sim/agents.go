package sim

import (
	"bytes"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// modelAgent is the part of a job that iterations and approvals use.
type modelAgent struct {
	bounds       *job.AgentConfig // nil if its client set none
	estimate     int64
	replayOf     []byte
	replayFrom   uint32
	ended        uint32           // number of ended iterations
	kept         []*job.Iteration // records of the ended iterations, except of those of the job that a replay continues
	elsewhere    int64            // cost besides costNano that counts against the maximum cost; below 0: cost that does not count
	counted      modelUsage       // usage of all iterations so far
	waived       bool             // a person allows it to exceed its maximum cost, once
	acked        bool             // its last attempt ended an iteration and not the job
	startedNs    int64
	checkpoint   *job.Blob
	checkpointIn uint32 // the iteration whose record has it; 0 for none
	result       *job.Blob
	schema       *job.Blob
	hold         job.Hold
	holdBy       string
	approved     [][]byte // policies
	scores       []*job.Score
	lost         map[uint32]string // errors of attempts whose lease expired
}

// born copies the agent's settings of a new job.
func (a *modelAgent) born(n *op.NewJob) {
	o := n.GetOptions()
	a.bounds, a.estimate, a.replayOf, a.replayFrom = o.GetAgent(), o.GetCostEstimateNanoUsd(), o.GetReplayOf(), o.GetReplayFrom()
	a.checkpoint, a.schema = n.GetCheckpoint(), n.GetResultSchema()
}

// spent returns the cost that counts against the agent's maximum.
func (j *modelJob) spent() int64 { return j.agent.elsewhere + j.costNano }

// keep holds a job for a person's decision.
func (m *model) keep(j *modelJob, why job.Hold, by string) {
	j.state, j.agent.hold, j.agent.holdBy = job.Held, why, by
	m.put(j)
}

func (m *model) ack(o *op.Ack) outcome {
	result := &op.AckResult{}
	for _, item := range o.GetItems() {
		result.Items = append(result.Items, m.ackOne(item))
	}
	return outcome{result: result}
}

func (m *model) ackOne(item *op.AckItem) *op.Refusal {
	j, code := m.holds(item.GetProof())
	last := item.GetAgentStatus() != job.Continue && item.GetAgentStatus() != job.Suspend
	switch {
	case j.hasEndedBy(item.GetProof()):
		return doneWith(faultOf(item.GetUsage()))
	case code != "":
		return refusal(code)
	case last && j.agent.schema != nil && !item.GetResultChecked():
		return refusal(op.ResultUnchecked)
	}
	iterates := item.GetAgentStatus() != 0 || item.GetTrace() != nil || j.agent.bounds != nil || j.agent.ended > 0
	rejected := m.report(j, item.GetUsage(), state.UsagePhase_USAGE_PHASE_ACK)
	if item.GetCheckpoint() != nil {
		j.agent.leave(item.GetCheckpoint())
	}
	if item.GetAgentStatus() != job.Continue {
		j.agent.result = item.GetResult()
	}
	if iterates {
		m.endIteration(j, item, last)
	}
	if last {
		m.settle(j, job.Completed, ending{result: item.GetResult(), exit: item.GetExitChain()})
	} else {
		m.goOnIterating(j, item)
	}
	return doneWith(rejected)
}

// doneWith returns the answer for an item that was applied, with the reason for which its usage report was
// rejected.
func doneWith(rejected string) *op.Refusal { return &op.Refusal{UsageRejected: rejected} }

// hasEndedBy reports whether an ack with the proof has ended the job's last attempt. A proof without a token
// counts as the proof of the ack that completed the job, whichever worker it names. After an ack that ended
// only an iteration, the proof must name the worker of that ack.
func (j *modelJob) hasEndedBy(proof *op.LeaseProof) bool {
	switch {
	case j == nil || j.state == job.Active:
		return false
	case len(proof.GetToken()) > 0:
		return (j.state == job.Completed || j.agent.acked) && bytes.Equal(proof.GetToken(), j.token)
	case j.state == job.Completed:
		return true
	}
	return j.agent.acked && proof.GetWorkerId() != "" && proof.GetWorkerId() == j.worker
}

// leave sets a checkpoint that no iteration's record contains yet.
func (a *modelAgent) leave(checkpoint *job.Blob) { a.checkpoint, a.checkpointIn = checkpoint, 0 }

// endIteration keeps the record of an iteration: its documents and its usage.
func (m *model) endIteration(j *modelJob, item *op.AckItem, last bool) {
	a := &j.agent
	a.ended++
	it := &job.Iteration{
		Number: a.ended, Status: item.GetAgentStatus(), HoldReason: item.GetHoldReason(), Attempt: j.attempt, WorkerId: j.worker,
		StartedNs: a.startedNs, CreatedNs: m.clockNs, Trace: item.GetTrace(), TotalCostNanoUsd: j.spent(),
	}
	if last {
		it.Status, a.checkpointIn = job.Done, 0 // from now on the job's own records hold its checkpoint and result
	} else {
		it.Result = item.GetResult()
		if a.checkpoint != nil && a.checkpointIn == 0 {
			it.Checkpoint, a.checkpointIn = a.checkpoint, it.Number
		}
		it.CheckpointIn = a.checkpointIn
	}
	now := modelUsage{tokens: j.tokens, costNano: j.costNano}
	if now != a.counted {
		it.Usage = &job.Usage{
			InputTokens: now.tokens[0] - a.counted.tokens[0], OutputTokens: now.tokens[1] - a.counted.tokens[1],
			CacheCreationTokens: now.tokens[2] - a.counted.tokens[2], CacheReadTokens: now.tokens[3] - a.counted.tokens[3],
			CostNanoUsd: now.costNano - a.counted.costNano, Model: j.model, Provider: j.provider,
		}
	}
	a.counted, a.waived = now, false
	a.kept = append(a.kept, it)
}

// goOnIterating continues a job after an iteration: at once, when its tools have settled, or when a person
// approves.
func (m *model) goOnIterating(j *modelJob, item *op.AckItem) {
	a := &j.agent
	a.acked = true
	if !j.cancelling { // a job that is being cancelled calls no tools
		m.callTools(j, item)
	}
	m.giveUp(j, true, true)
	if j.cancelling {
		m.settle(j, job.Cancelled, ending{})
		return
	}
	j.base = j.attempt
	most, cost := a.bounds.GetMaxIterations(), a.bounds.GetMaxCostNanoUsd()
	switch {
	case item.GetAgentStatus() == job.Suspend:
		m.keep(j, job.Hold_HOLD_AGENT, "")
	case most > 0 && a.ended >= most:
		m.keep(j, job.Hold_HOLD_MAX_ITERATIONS, "")
	case cost > 0 && j.spent() >= cost:
		m.keep(j, job.Hold_HOLD_MAX_COST, "")
	default:
		j.state, j.dueNs = job.Pending, m.clockNs
		if j.blocked > 0 {
			j.state, j.debounce = job.Scheduled, ""
		}
		m.put(j)
	}
}

// tooDear reports whether a job's agent has no money for another attempt.
func (j *modelJob) tooDear() bool {
	most := j.agent.bounds.GetMaxCostNanoUsd()
	return most > 0 && !j.agent.waived && (j.spent() >= most || j.spent()+j.agent.estimate > most)
}

// overBudget reports whether a running attempt has exceeded its agent's maximum cost.
func (j *modelJob) overBudget() bool {
	most := j.agent.bounds.GetMaxCostNanoUsd()
	return most > 0 && !j.agent.waived && j.spent() > most
}

// leased begins an attempt.
func (a *modelAgent) leased(nowNs int64) { a.startedNs, a.acked = nowNs, false }

// untilNs bounds the end of a lease by the iteration's timeout.
func (a *modelAgent) untilNs(endNs int64) int64 {
	if ms := a.bounds.GetIterationTimeoutMs(); ms > 0 {
		return min(endNs, a.startedNs+ms*1e6)
	}
	return endNs
}

// loseLease keeps the error of an attempt whose lease expired, and returns it.
func (j *modelJob) loseLease() string {
	why := "lease expired"
	if ms := j.agent.bounds.GetIterationTimeoutMs(); ms > 0 && j.leaseEndNs == j.agent.startedNs+ms*1e6 {
		why = fmt.Sprintf("iteration timed out after %s", time.Duration(ms)*time.Millisecond)
	}
	if j.agent.lost == nil {
		j.agent.lost = map[uint32]string{}
	}
	j.agent.lost[j.attempt] = why
	return why
}

// startOver resets the agent's part of a job as if the job had never been fetched, except for its usage.
func (j *modelJob) startOver() {
	a := &j.agent
	a.acked, a.result, a.lost = false, nil, nil
	if a.bounds == nil && a.ended == 0 {
		return
	}
	a.kept, a.ended, a.checkpointIn, a.waived = nil, 0, 0, false
	if a.replayFrom > 0 {
		a.ended = a.replayFrom - 1
	}
	a.counted, a.elsewhere = modelUsage{tokens: j.tokens, costNano: j.costNano}, -j.costNano
}

func (m *model) replayJob(o *op.ReplayJob) outcome {
	id := job.ID(o.GetMeta().GetIds()[0])
	done := outcome{result: &op.ReplayJobResult{Id: id[:]}}
	if _, known := m.known(id); known {
		return done
	}
	j := m.jobs[job.ID(o.GetJobId())]
	if j == nil {
		return outcome{refused: api.NotFound}
	}
	a := &j.agent
	if len(a.kept) == 0 {
		return outcome{refused: api.StateConflict}
	}
	// The iteration must be kept, and so must the one before it, unless it is the first.
	first := a.kept[0].GetNumber()
	if o.GetFrom() < first || o.GetFrom() > a.ended || o.GetFrom() == first && first != 1 {
		return outcome{refused: api.NotFound}
	}
	if id.Slot() != job.SlotOf(j.queue) {
		return outcome{refused: api.StateConflict}
	}
	// The copy gets the job's terms and the checkpoint that the iteration began with.
	n := &op.NewJob{
		Queue: j.queue, Priority: j.priority, Retry: j.retry, Tags: j.tags, Headers: j.headers, Origin: j.origin,
		Payload: j.payload, Previous: j.previous, ResultSchema: a.schema,
		Options: &job.Options{
			ExpireAfterMs: j.lifeMs, Agent: a.bounds, CostEstimateNanoUsd: a.estimate, ReplayOf: j.id[:], ReplayFrom: o.GetFrom(),
			Provider: j.options.GetProvider(), Model: j.options.GetModel(),
		},
		FairnessKey: j.fairnessKey, FairnessWeight: j.weight,
	}
	before := a.record(o.GetFrom() - 1)
	n.Checkpoint = a.record(before.GetCheckpointIn()).GetCheckpoint()
	// It goes through the same admission as an enqueued job.
	drops, code := m.admit(&op.Enqueue{Jobs: []*op.NewJob{n}}, []meeting{{}})
	if code != "" {
		return outcome{refused: code}
	}
	for _, queue := range drops {
		m.bury(m.nextToDrop(queue), "dropped: queue full")
	}
	made := m.make(id, n, nil)
	made.agent.ended, made.agent.elsewhere = o.GetFrom()-1, before.GetTotalCostNanoUsd()
	return done
}

// record returns the record of an iteration, or nil.
func (a *modelAgent) record(number uint32) *job.Iteration {
	for _, it := range a.kept {
		if it.GetNumber() == number {
			return it
		}
	}
	return nil
}

func (m *model) scoreJob(o *op.ScoreJob) outcome {
	j := m.jobs[job.ID(o.GetJobId())]
	if j == nil {
		return outcome{refused: api.NotFound}
	}
	score := proto.Clone(o.GetScore()).(*job.Score)
	score.CreatedNs = m.clockNs
	for i, s := range j.agent.scores {
		if s.GetDimension() == score.Dimension && s.GetScorer() == score.Scorer {
			j.agent.scores[i] = score
			return outcome{result: &op.ScoreJobResult{}}
		}
	}
	if len(j.agent.scores) == job.MaxScores {
		return outcome{refused: api.Conflict}
	}
	j.agent.scores = append(j.agent.scores, score)
	return outcome{result: &op.ScoreJobResult{}}
}
