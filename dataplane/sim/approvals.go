package sim

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

const approvalPolicy = state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY

// decidePerson decides whether a person must approve a job before it runs.
func (m *model) decidePerson(j *modelJob) verdict {
	for _, r := range m.declaredOf(approvalPolicy) {
		if p := r.GetApprovalPolicy(); !p.GetDisabled() && covers(p, j) && !j.agent.hasWaived(r.GetId()) {
			return verdict{to: job.Held, hold: job.Hold_HOLD_POLICY, by: r.GetName()}
		}
	}
	if model := j.options.GetModel(); model != "" && m.settings.GetUnknownModel() == state.UnknownModel_UNKNOWN_MODEL_HOLD &&
		!m.knowsModel(model) && !j.agent.hasWaived(modelWaiver(model)) {
		return verdict{to: job.Held, hold: job.Hold_HOLD_POLICY, by: "model/" + model}
	}
	return verdict{}
}

// covers reports whether a job meets a policy's conditions: one of them, or all.
func covers(p *state.ApprovalPolicy, j *modelJob) bool {
	said, met := 0, 0
	condition := func(is, holds bool) {
		if is {
			said++
			if holds {
				met++
			}
		}
	}
	condition(p.GetQueue() != "", p.GetQueue() == j.queue)
	condition(p.GetTagKey() != "", slices.ContainsFunc(j.tags, func(t *job.Pair) bool {
		return t.GetName() == p.GetTagKey() && (p.GetTagValue() == "" || p.GetTagValue() == t.GetValue())
	}))
	condition(p.GetCostSaid(), j.spent() > p.GetCostNanoUsdOver())
	condition(p.GetIterationSaid(), j.agent.ended > p.GetIterationOver())
	return met > 0 && (met == said || !p.GetAll())
}

// modelWaiver returns the id that stands for a model in the list of approved policies, by the documented
// formula.
func modelWaiver(model string) []byte {
	sum := sha256.Sum256([]byte("model/" + model))
	return sum[:16]
}

func (a *modelAgent) hasWaived(policy []byte) bool {
	return slices.ContainsFunc(a.approved, func(id []byte) bool { return bytes.Equal(id, policy) })
}

// release makes a held job pending, with the changes that a person asks for.
func (m *model) release(j *modelJob, c *op.Changes) (*op.JobDone, api.Code) {
	a := &j.agent
	if j.state != job.Held {
		return nil, api.StateConflict
	}
	was := a.bounds
	if said := c.GetAgent(); said != nil {
		if a.bounds == nil {
			return nil, api.StateConflict
		}
		b := proto.Clone(a.bounds).(*job.AgentConfig)
		proto.Merge(b, said) // 0 leaves a value as it is
		if b.MaxIterations > 0 && a.ended >= b.MaxIterations || b.MaxCostNanoUsd > 0 && j.spent() >= b.MaxCostNanoUsd {
			return nil, api.StateConflict
		}
		a.bounds = b
	}
	if a.hold == job.Hold_HOLD_BUDGET && m.stillShort(j) {
		a.bounds = was
		return nil, api.BudgetExceeded
	}
	if c.GetPayload() != nil {
		j.payload = c.GetPayload()
	}
	if c.GetCheckpoint() != nil {
		a.leave(c.GetCheckpoint())
	}
	m.waive(j)
	a.waived = c.GetAgent() == nil && (a.waived || a.hold == job.Hold_HOLD_MAX_COST)
	j.state, j.blocked, j.dueNs = job.Pending, 0, m.clockNs
	m.put(j)
	return &op.JobDone{State: job.Pending}, ""
}

// waive records that the policy that holds the job has been approved, so that it does not hold the job again.
// It drops the approvals of policies that no longer exist.
func (m *model) waive(j *modelJob) {
	a, waiver := &j.agent, modelWaiver(j.options.GetModel())
	if a.hold != job.Hold_HOLD_POLICY {
		return
	}
	policies := m.declaredOf(approvalPolicy)
	var approved [][]byte
	for _, id := range a.approved {
		if bytes.Equal(id, waiver) || slices.ContainsFunc(policies, func(r *state.Resource) bool { return bytes.Equal(r.GetId(), id) }) {
			approved = append(approved, id)
		}
	}
	for _, r := range policies {
		if r.GetName() == a.holdBy && !a.hasWaived(r.GetId()) {
			approved = append(approved, r.GetId())
		}
	}
	if a.holdBy == "model/"+j.options.GetModel() {
		approved = append(approved, waiver)
	}
	a.approved = approved
}

func (w *workload) policy() *op.PutResource {
	name := w.oneOf()
	p := &state.ApprovalPolicy{Label: "label of " + name, All: w.chance(2), Disabled: w.chance(6)}
	if w.chance(4) {
		p.Label = "label of one-0"
	}
	for p.Queue == "" && p.TagKey == "" && !p.CostSaid && !p.IterationSaid {
		if w.chance(2) {
			p.Queue = pick(w, w.queues)
		}
		if w.chance(3) {
			p.TagKey, p.TagValue = "tenant", pick(w, []string{"", "0", "1"})
		}
		if w.chance(4) {
			p.CostSaid, p.CostNanoUsdOver = true, w.rng.Int64N(150)
		}
		if w.chance(3) {
			p.IterationSaid, p.IterationOver = true, uint32(w.rng.IntN(3))
		}
	}
	return &op.PutResource{Resource: &state.Resource{Kind: approvalPolicy, Name: name, ApprovalPolicy: p}}
}

// changes draws changes that a person makes to a job, or nil.
func (w *workload) changes(id []byte) *op.Changes {
	c := &op.Changes{}
	if w.chance(2) {
		c.Payload = w.payload()
	}
	if w.chance(2) {
		c.Checkpoint = w.checkpoint()
	}
	if j := w.m.jobs[job.ID(id)]; j != nil && (j.agent.bounds != nil || w.chance(5)) && w.chance(2) {
		c.Agent = &job.AgentConfig{MaxIterations: j.agent.ended + uint32(w.rng.IntN(3)), IterationTimeoutMs: w.rng.Int64N(20_000)}
		if w.chance(2) {
			c.Agent.MaxCostNanoUsd = max(0, j.spent()) + w.rng.Int64N(250)
		}
	}
	if c.Payload == nil && c.Checkpoint == nil && proto.Size(c.Agent) == 0 {
		return nil
	}
	return c
}

func (w *workload) checkpoint() *job.Blob {
	return &job.Blob{Data: fmt.Appendf(nil, `{"at":%d}`, w.rng.IntN(1000))}
}

func (w *workload) releaseJobs() op.Op {
	o := &op.ReleaseJobs{Meta: w.meta(), JobIds: w.byHand(3, isHeld)}
	if w.chance(2) {
		o.JobIds = o.JobIds[:1]
		o.Changes = w.changes(o.JobIds[0])
	}
	return o
}
