package op

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// An approval policy selects jobs that a person has to approve before they run. It is checked when a job is
// next in its queue, and again when the job may leave a gate. A matching job is held. After the approval this
// policy never holds the job again, however many attempts it takes. Each policy needs its own approval. A job
// whose agent becomes expensive is held before its next attempt, and no running attempt is interrupted.

// checkApprovalPolicy checks a declared approval policy.
func checkApprovalPolicy(p *problems, o *PutResource) {
	a := o.GetResource().GetApprovalPolicy()
	p.only(o, a != nil)
	if a == nil {
		return
	}
	if a.Label == "" {
		p.add("approval_policy.label", errors.New("is missing: people know the policy by it"))
	}
	p.add("approval_policy.label", job.CheckText(a.Label, job.MaxLabel))
	if a.Queue != "" {
		p.add("approval_policy.queue", job.CheckStoredQueueName(a.Queue))
	}
	p.add("approval_policy.tag_key", job.CheckText(a.TagKey, job.MaxTagName))
	p.add("approval_policy.tag_value", job.CheckText(a.TagValue, job.MaxTagValue))
	if a.TagValue != "" && a.TagKey == "" {
		p.add("approval_policy.tag_value", errors.New("goes with tag_key, which is missing"))
	}
	if a.CostNanoUsdOver < 0 || a.CostNanoUsdOver > job.MaxMoney || a.CostNanoUsdOver != 0 && !a.CostSaid {
		p.add("approval_policy.cost_usd_gt", fmt.Errorf("is %d nano-USD; it lies between 0 and %d", a.CostNanoUsdOver, int64(job.MaxMoney)))
	}
	if a.IterationOver > job.MaxIterations || a.IterationOver != 0 && !a.IterationSaid {
		p.add("approval_policy.agent_iteration_gt", fmt.Errorf("is %d; it lies between 0 and %d", a.IterationOver, job.MaxIterations))
	}
	if a.Queue == "" && a.TagKey == "" && !a.CostSaid && !a.IterationSaid {
		p.add("approval_policy", errors.New("has no condition and would hold every job: give queue, tag_key, cost_usd_gt or agent_iteration_gt"))
	}
}

// admitApprovalPolicy refuses with CONFLICT a policy with the label of another one, because the reason of a
// held job names the policy by its label.
func admitApprovalPolicy(tx *state.Tx, o *PutResource, _ *state.Resource) error {
	r := o.Resource
	if other := policyLabelled(tx, r.ApprovalPolicy.Label); other != nil && other.Name != r.Name {
		return api.Errorf(api.Conflict, "approval policy %s is named %q already: choose another name", other.Name, r.ApprovalPolicy.Label)
	}
	return nil
}

// policyLabelled returns the approval policy with a label, or nil.
func policyLabelled(g DecisionState, label string) *state.Resource {
	for _, r := range g.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY) {
		if r.ApprovalPolicy.GetLabel() == label {
			return r
		}
	}
	return nil
}

// checkPolicies holds a job that an enabled policy selects, unless a person has waived that policy for the
// job.
func checkPolicies(g DecisionState, j *job.Job) (Verdict, error) {
	for _, r := range g.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY) {
		a := r.GetApprovalPolicy()
		if a.GetDisabled() || !governedBy(a, j) || approvedFor(j, r.Id) {
			continue
		}
		return Verdict{
			Do: Hold, Reason: ReasonPolicy, Name: r.Name, Hold: job.Hold_HOLD_POLICY,
			Text: fmt.Sprintf("approval policy %q asks for a person's approval: approve or reject the job", a.GetLabel()),
		}, nil
	}
	return Verdict{}, nil
}

// governedBy reports whether a job meets the conditions that a policy has: all of them if the policy asks for
// all, else at least one. It is false for a policy without conditions.
func governedBy(a *state.ApprovalPolicy, j *job.Job) bool {
	met := false
	for _, c := range [...]struct{ said, holds bool }{
		{a.GetQueue() != "", j.Queue == a.GetQueue()},
		{a.GetTagKey() != "", tagged(j, a.GetTagKey(), a.GetTagValue())},
		{a.GetCostSaid(), j.AgentCost() > a.GetCostNanoUsdOver()},
		{a.GetIterationSaid(), j.Detail.GetIteration() > a.GetIterationOver()},
	} {
		switch {
		case !c.said:
		case c.holds && !a.GetAll():
			return true
		case !c.holds && a.GetAll():
			return false
		default:
			met = c.holds
		}
	}
	return met && a.GetAll()
}

// tagged reports whether a job has a tag; an empty value matches every value.
func tagged(j *job.Job, name, value string) bool {
	return slices.ContainsFunc(j.Tags, func(t *job.Pair) bool {
		return t.GetName() == name && (value == "" || t.GetValue() == value)
	})
}

// approvedFor reports whether a person has waived a policy for the job.
func approvedFor(j *job.Job, policy []byte) bool {
	return slices.ContainsFunc(j.Detail.GetApproved(), func(id []byte) bool { return bytes.Equal(id, policy) })
}

// waive records that a person has approved a job which a policy holds. It records the policy's id, because
// the label may change. It drops the ids of policies that no longer exist, so that the list holds at most one
// id for each policy and one for the job's model (see waiveModel).
func waive(tx *state.Tx, j *job.Job) {
	if j.Detail.GetHold() != job.Hold_HOLD_POLICY {
		return
	}
	d := j.Details()
	kept := make([][]byte, 0, len(d.Approved)+1)
	for _, id := range d.Approved {
		if tx.ResourceIndex().ResourceByID([16]byte(id)) != nil || waivesModel(j, id) {
			kept = append(kept, id)
		}
	}
	if r := tx.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY, d.HoldBy); r != nil && !approvedFor(j, r.Id) {
		kept = append(kept, slices.Clone(r.Id))
	}
	d.Approved = kept
}
