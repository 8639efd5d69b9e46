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

// modelAgent is what a job is besides, that runs in iterations or waits for people.
type modelAgent struct {
	bounds       *job.AgentConfig // nil where its client said none
	estimate     int64
	replayOf     []byte
	replayFrom   uint32
	ended        uint32           // iterations
	kept         []*job.Iteration // the last of them: all but those that a replay goes on from
	elsewhere    int64            // what counts against its cost beside what it used; below 0: what does not
	counted      modelUsage       // by the iterations so far
	waived       bool             // a person lets it go beyond its cost, once
	acked        bool             // its last attempt ended an iteration
	startedNs    int64
	checkpoint   *job.Blob
	checkpointIn uint32 // the record that has it; 0 for none
	result       *job.Blob
	schema       *job.Blob
	hold         job.Hold
	holdBy       string
	approved     [][]byte // policies
	scores       []*job.Score
	lost         map[uint32]string // what is kept of attempts whose lease ran out
}

// born takes what an agent's job is made with.
func (a *modelAgent) born(n *op.NewJob) {
	o := n.GetOptions()
	a.bounds, a.estimate, a.replayOf, a.replayFrom = o.GetAgent(), o.GetCostEstimateNanoUsd(), o.GetReplayOf(), o.GetReplayFrom()
	a.checkpoint, a.schema = n.GetCheckpoint(), n.GetResultSchema()
}

// spent is what counts against an agent's cost.
func (j *modelJob) spent() int64 { return j.agent.elsewhere + j.costNano }

// keep has a person decide about a job.
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

// doneWith is the answer for an item that was done, and why its usage report is kept
// aside.
func doneWith(rejected string) *op.Refusal { return &op.Refusal{UsageRejected: rejected} }

// hasEndedBy says whether an ack with the proof has ended the job's last attempt: what
// proves nothing is taken for the one that completed a job, and for no other.
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

// leave has a job have a checkpoint that is in no record yet.
func (a *modelAgent) leave(checkpoint *job.Blob) { a.checkpoint, a.checkpointIn = checkpoint, 0 }

// endIteration keeps what an iteration has left and used.
func (m *model) endIteration(j *modelJob, item *op.AckItem, last bool) {
	a := &j.agent
	a.ended++
	it := &job.Iteration{
		Number: a.ended, Status: item.GetAgentStatus(), HoldReason: item.GetHoldReason(), Attempt: j.attempt, WorkerId: j.worker,
		StartedNs: a.startedNs, CreatedNs: m.clockNs, Trace: item.GetTrace(), TotalCostNanoUsd: j.spent(),
	}
	if last {
		it.Status, a.checkpointIn = job.Done, 0 // the job has both from now on
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

// goOnIterating has a job whose iteration has ended begin the next one: at once, when
// its tools have settled, or when a person says so.
func (m *model) goOnIterating(j *modelJob, item *op.AckItem) {
	a := &j.agent
	a.acked = true
	if !j.cancelling { // else nothing is called for any more
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

// tooDear says whether a job's agent has no money for another attempt.
func (j *modelJob) tooDear() bool {
	most := j.agent.bounds.GetMaxCostNanoUsd()
	return most > 0 && !j.agent.waived && (j.spent() >= most || j.spent()+j.agent.estimate > most)
}

// overBudget says whether a running attempt has cost more than its agent may.
func (j *modelJob) overBudget() bool {
	most := j.agent.bounds.GetMaxCostNanoUsd()
	return most > 0 && !j.agent.waived && j.spent() > most
}

// leased has an attempt begin now.
func (a *modelAgent) leased(nowNs int64) { a.startedNs, a.acked = nowNs, false }

// untilNs is when a lease ends that would end then: with its iteration's time at the
// latest.
func (a *modelAgent) untilNs(endNs int64) int64 {
	if ms := a.bounds.GetIterationTimeoutMs(); ms > 0 {
		return min(endNs, a.startedNs+ms*1e6)
	}
	return endNs
}

// loseLease notes what is to be kept of an attempt whose lease has run out.
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

// startOver has a job be as if it had never been fetched, but for what it used.
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
	first := a.kept[0].GetNumber()
	if o.GetFrom() < first || o.GetFrom() > a.ended || o.GetFrom() == first && first != 1 {
		return outcome{refused: api.NotFound}
	}
	if id.Slot() != job.SlotOf(j.queue) {
		return outcome{refused: api.StateConflict}
	}
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

// record is what is kept of an iteration; nil for nothing.
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
