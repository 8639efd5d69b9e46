package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Changes are the changes to a held job that a person makes when approving it.

// check checks the changes of an op that names the given number of jobs. Nil means no changes and passes.
func (c *Changes) check(p *problems, jobs int) {
	if c == nil {
		return
	}
	if jobs != 1 {
		p.add("changes", fmt.Errorf("are for %d jobs; change one job at a time", jobs))
	}
	for _, b := range [...]struct {
		field string
		blob  *job.Blob
		most  int
	}{
		{"payload", c.Payload, job.MaxPayload}, // the server's own limit may be lower
		{"checkpoint", c.Checkpoint, job.MaxCheckpoint},
	} {
		if b.blob == nil {
			continue
		}
		if n := len(b.blob.Data); n > b.most {
			p.Add(api.PayloadTooLarge, b.field, "has %d bytes; at most %d are allowed", n, b.most)
		}
		p.add(b.field, job.CheckSeal(b.blob))
	}
	if a := c.Agent; a != nil {
		if a.MaxIterations > job.MaxIterations {
			p.add("agent.max_iterations", fmt.Errorf("is %d; at most %d are allowed", a.MaxIterations, job.MaxIterations))
		}
		if a.MaxCostNanoUsd < 0 || a.MaxCostNanoUsd > job.MaxMoney {
			p.add("agent.max_cost_usd", fmt.Errorf("is %d nano-USD; it lies between 0 and %d", a.MaxCostNanoUsd, int64(job.MaxMoney)))
		}
		p.add("agent.iteration_timeout", checkSpan(a.IterationTimeoutMs, 0, job.MaxIterationTime))
	}
	if c.Payload == nil && c.Checkpoint == nil && c.Agent.SizeVT() == 0 {
		p.add("changes", errors.New("change nothing; give payload, checkpoint or agent"))
	}
}

// options returns the options that the job would have with the changes. If the changes do not name the agent,
// options returns the job's own options, which the caller must not change. If the changes name the agent, the
// job must have one. A limit of the agent that is 0 in the changes stays, because a person who raises one
// limit does not mean to lift the others.
func (c *Changes) options(j *job.Job) *job.Options {
	changed := c.GetAgent()
	if changed == nil {
		return j.Options
	}
	options := j.Options.Copy()
	if changed.MaxIterations != 0 {
		options.Agent.MaxIterations = changed.MaxIterations
	}
	if changed.MaxCostNanoUsd != 0 {
		options.Agent.MaxCostNanoUsd = changed.MaxCostNanoUsd
	}
	if changed.IterationTimeoutMs != 0 {
		options.Agent.IterationTimeoutMs = changed.IterationTimeoutMs
	}
	return options
}

// refuse returns nil for changes that do not name the agent, because an approval without new limits allows an
// agent one iteration beyond the limits that it has reached. For changes of the agent the refusal is
// STATE_CONFLICT if the job has no agent, or if the job has already reached a limit on iterations or cost
// that holds after the changes. This includes a limit that the changes leave as it was, because the person
// has then made a mistake.
func (c *Changes) refuse(j *job.Job) *Refusal {
	if c.GetAgent() == nil {
		return nil
	}
	if j.Options.GetAgent() == nil {
		return refuse(api.StateConflict, "job %s is not an agent job: it has no agent to change", job.ID(j.Id))
	}
	agent := c.options(j).GetAgent()
	if most := agent.GetMaxIterations(); most > 0 && j.Detail.GetIteration() >= most {
		return refuse(api.StateConflict, "job %s has done %d iterations and may do %d: raise agent.max_iterations to approve it", job.ID(j.Id), j.Detail.GetIteration(), most)
	}
	if most := agent.GetMaxCostNanoUsd(); most > 0 && j.AgentCost() >= most {
		return refuse(api.StateConflict, "job %s has cost %s USD and may cost %s: raise agent.max_cost_usd to approve it", job.ID(j.Id), money.Nano(j.AgentCost()), money.Nano(most))
	}
	return nil
}

// apply changes the job and returns the events for the feed. The caller puts the job.
func (c *Changes) apply(tx *state.Tx, j *job.Job) ([]state.EventType, error) {
	if c == nil {
		return nil, nil
	}
	j.Options = c.options(j)
	if _, err := putBlob(tx, j, job.Payload, c.Payload); err != nil {
		return nil, err
	}
	saved, err := putBlob(tx, j, job.Checkpoint, c.Checkpoint)
	if err != nil || !saved {
		return nil, err
	}
	return []state.EventType{state.EventType_EVENT_CHECKPOINTED}, nil
}
