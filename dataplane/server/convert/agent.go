package convert

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/view"
)

// agent converts the bounds of an agent's job; a bound of 0 is no limit. It returns nil if the request sets
// none, because clients that always write every field do not mean to create an agent's job.
func agent(f *Faults, a *api.Agent) *job.AgentConfig {
	if a == nil || *a == (api.Agent{}) {
		return nil
	}
	out := &job.AgentConfig{
		MaxCostNanoUsd:     int64(a.MaxCostUSD),
		IterationTimeoutMs: millis(f, "agent.iteration_timeout", a.IterationTimeout, 0, job.MaxIterationTime),
	}
	if a.MaxIterations < 0 || a.MaxIterations > job.MaxIterations {
		f.Invalid("agent.max_iterations", "is %d; it must be between 0, for no limit, and %d", a.MaxIterations, job.MaxIterations)
	} else {
		out.MaxIterations = uint32(a.MaxIterations)
	}
	f.all("agent", job.CheckAgent(out))
	return out
}

// agentStatus converts the outcome of an iteration. An ack without one gets the unspecified status, which the
// op takes as done. agentStatus refuses a hold_reason without the status hold, and refuses to end the chain
// of a job whose iterations go on.
func agentStatus(f *Faults, b *api.AckRequest) job.IterationStatus {
	if err := job.CheckText(b.HoldReason, job.MaxHoldReason); err != nil {
		f.Invalid("hold_reason", "%v", err)
	}
	status, known := job.ParseIterationStatus(b.AgentStatus)
	if b.AgentStatus != "" && !known {
		f.Invalid("agent_status", "is %s; use %s, %s or %s", text.Quote(b.AgentStatus), api.AgentContinue, api.AgentHold, api.AgentDone)
	}
	if b.HoldReason != "" && status != job.Suspend {
		f.Invalid("hold_reason", "goes with agent_status %s", api.AgentHold)
	}
	if b.StepStatus == api.StepExit && (status == job.Suspend || status == job.Continue) {
		f.Invalid("step_status", "ends a chain, which a job does that is done; leave it out until then")
	}
	return status
}

// fetchedAgent returns the agent fields of a leased job for its worker. ok is false for a job that has no
// agent's bounds and has ended no iteration.
func fetchedAgent(j *job.Job) (told api.FetchedAgent, ok bool) {
	a := j.Options.GetAgent()
	if a == nil && j.Detail.GetIteration() == 0 {
		return told, false
	}
	return api.FetchedAgent{
		MaxIterations:    int(a.GetMaxIterations()),
		MaxCostUSD:       money.Nano(a.GetMaxCostNanoUsd()),
		IterationTimeout: api.DurationOf(j.IterationTimeout()),
		Iteration:        int(j.Detail.GetIteration()) + 1,
		TotalCostUSD:     money.Nano(j.AgentCost()),
	}, true
}

// appendAgent appends the JSON member "agent" for the worker of a leased job. It appends nothing if
// fetchedAgent has no fields.
func appendAgent(b []byte, j *job.Job) ([]byte, error) {
	told, ok := fetchedAgent(j)
	if !ok {
		return b, nil
	}
	object, err := json.Marshal(told)
	if err != nil {
		return b, err
	}
	return append(append(b, `,"agent":`...), object...), nil
}

// leaseLength returns the length of j's lease in milliseconds as the worker learns it: leaseMs, or the
// iteration timeout if that is shorter. The timeout counts as at least 1000 ms, because workers receive whole
// seconds; the op ends the lease at the exact timeout.
func leaseLength(j *job.Job, leaseMs int64) int64 {
	if most := j.IterationTimeout(); most > 0 {
		return min(leaseMs, max(most.Milliseconds(), 1000))
	}
	return leaseMs
}

// ToIteration converts an iteration of a job to its API form; an absent document becomes null. For an
// iteration with the status done it also reads the job's result and checkpoint into the record, so from must
// not be a state.JobReader, which returns both in the same memory. It fails if a document is sealed with a
// key.
func ToIteration(from state.Reader, id job.ID, it *job.Iteration) (api.Iteration, error) {
	out := api.Iteration{
		Iteration: int(it.Number),
		Status:    it.Status.Word(),
		Usage:     view.ToUsage(it.Usage),
		CostUSD:   money.Nano(it.Usage.GetCostNanoUsd()),
		Attempt:   int(it.Attempt),
		StartedAt: api.TimeOf(time.Unix(0, it.StartedNs)),
		CreatedAt: api.TimeOf(time.Unix(0, it.CreatedNs)),
	}
	if it.HoldReason != "" {
		out.HoldReason = &it.HoldReason
	}
	if it.WorkerId != "" {
		out.WorkerID = &it.WorkerId
	}
	if it.Status == job.Done {
		// The record does not repeat the final result and checkpoint, because the job has them.
		var err error
		if it.Result, err = from.Blob(id, job.Result); err != nil {
			return out, err
		}
		if it.Checkpoint, err = from.Blob(id, job.Checkpoint); err != nil {
			return out, err
		}
	}
	for _, document := range [...]struct {
		blob *job.Blob
		into *json.RawMessage
	}{{it.Checkpoint, &out.Checkpoint}, {it.Trace, &out.Trace}, {it.Result, &out.Result}} {
		switch {
		case document.blob == nil:
			*document.into = json.RawMessage("null")
		case document.blob.KeyId != "":
			return out, fmt.Errorf("iteration %d of %s is sealed with key %q, which this node does not have", it.Number, id, document.blob.KeyId)
		default:
			*document.into = document.blob.Data
		}
	}
	return out, nil
}

// FromReplay builds the op that replays a job from one of its iterations. of is the job to replay. id is the
// id of the new job, which FromReplay sets in meta. The op checks that the job has the iteration.
func FromReplay(f *Faults, of, id job.ID, b *api.ReplayRequest, meta *op.Meta) *op.ReplayJob {
	if b.From < 1 || b.From > job.MaxIterations {
		f.Invalid("from", "is %d; name an iteration, from 1 to %d", b.From, job.MaxIterations)
		return nil
	}
	meta.Ids = [][]byte{id[:]}
	return &op.ReplayJob{Meta: meta, JobId: of[:], From: uint32(b.From)}
}

// FromScore builds the op that stores a score of a job. It refuses a missing value, because the op could not
// tell it from 0; the op checks the other fields.
func FromScore(f *Faults, id job.ID, b *api.ScoreRequest, meta *op.Meta) *op.ScoreJob {
	if b.Value == nil {
		f.Invalid("value", "is missing; give a number")
		return nil
	}
	return &op.ScoreJob{Meta: meta, JobId: id[:], Score: &job.Score{Dimension: b.Dimension, Value: *b.Value, Scorer: b.Scorer}}
}

// ToScores converts the scores of a job to their API form. scores may be nil.
func ToScores(scores *state.Scores) api.Scores {
	out := api.Scores{Scores: []api.Score{}}
	for _, s := range scores.GetScores() {
		out.Scores = append(out.Scores, api.Score{Dimension: s.Dimension, Value: s.Value, Scorer: s.Scorer, CreatedAt: api.TimeOf(time.Unix(0, s.CreatedNs))})
	}
	return out
}
