package op_test

import (
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// Commands of stories about approval policies, approvals that change a job, results that are checked, and
// tools that an iteration calls.
func init() {
	builders["policy"] = (*story).policy
	builders["drop-policy"] = func(s *story, items []item) op.Op {
		return &op.DeleteResource{
			Meta: s.meta(items[0]), Kind: state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY, Name: items[0].words[0], Shards: 1,
			IfVersion: items[0].number(s.t, "version", 0),
		}
	}
	builders["approve-with"] = (*story).approveWith
	builders["enqueue-checked"] = func(s *story, items []item) op.Op {
		o := builders["enqueue"](s, items).(*op.Enqueue)
		for _, nj := range o.Jobs {
			nj.ResultSchema = items[0].blob(s.t, "schema")
		}
		return o
	}
	builders["ack-checked"] = func(s *story, items []item) op.Op {
		o := s.ackOp(items).(*op.Ack)
		for _, i := range o.Items {
			i.ResultChecked = true
		}
		return o
	}
	builders["misfit"] = func(s *story, items []item) op.Op {
		o := s.failOp(items).(*op.Fail)
		o.Meta.RequestId = []byte(op.MisfitRequest)
		return o
	}
	builders["call"] = (*story).call
}

// policy reads the name of a policy (its id in paths) and its fields: label=, mode=, disabled, queue=,
// tag=key or key:value, cost-over=, iteration-over=, create, version=.
func (s *story) policy(items []item) op.Op {
	i := items[0]
	p := &state.ApprovalPolicy{
		Label: repeated(i.text("label", "")), All: i.text("mode", "any") == "all", Disabled: i.has("disabled"), Queue: repeated(i.text("queue", "")),
		CostNanoUsdOver: int64(i.number(s.t, "cost-over", 0)), IterationOver: uint32(i.number(s.t, "iteration-over", 0)),
	}
	_, p.CostSaid = i.settings["cost-over"]
	_, p.IterationSaid = i.settings["iteration-over"]
	p.TagKey, p.TagValue, _ = strings.Cut(i.text("tag", ""), ":")
	p.TagKey, p.TagValue = repeated(p.TagKey), repeated(p.TagValue)
	id := s.newID("")
	o := &op.PutResource{Meta: s.meta(i), Create: i.has("create"), IfVersion: i.number(s.t, "version", 0), Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY, Name: i.words[0], Shards: uint32(i.number(s.t, "shards", 1)), ApprovalPolicy: p,
	}}
	o.Meta.Ids = [][]byte{id[:]}
	return o
}

// approveWith reads payload=, checkpoint=, max-iterations=, max-cost= and timeout=.
func (s *story) approveWith(items []item) op.Op {
	i := items[0]
	c := &op.Changes{Payload: i.blob(s.t, "payload"), Checkpoint: i.blob(s.t, "checkpoint")}
	agent := &job.AgentConfig{
		MaxIterations:      uint32(i.number(s.t, "max-iterations", 0)),
		MaxCostNanoUsd:     int64(i.number(s.t, "max-cost", 0)),
		IterationTimeoutMs: i.millis(s.t, "timeout", 0),
	}
	if agent.SizeVT() > 0 {
		c.Agent = agent
	}
	return &op.ReleaseJobs{Meta: s.meta(i), JobIds: s.jobIDs(i), Changes: c}
}

// call builds an ack that goes on and calls for tools. Each further part names one: the name of its job,
// tool=, queue=, shard=, payload=, parent= and unique=.
func (s *story) call(items []item) op.Op {
	o := s.ackOp(items[:1]).(*op.Ack)
	if items[0].text("agent", "") == "" {
		o.Items[0].AgentStatus = job.Continue
	}
	for _, i := range items[1:] {
		made := builders["enqueue"](s, []item{i}).(*op.Enqueue)
		nj := made.Jobs[0]
		nj.Opt().ParentId = o.Items[0].Proof.Id
		if name, ok := i.settings["parent"]; ok {
			nj.Opt().ParentId = s.idOf(name)
		}
		for range i.number(s.t, "times", 1) {
			o.Items[0].ToolCalls = append(o.Items[0].ToolCalls, &op.ToolCall{
				Name: repeated(i.text("tool", "")), Shard: uint32(i.number(s.t, "shard", 0)), Id: made.Meta.Ids[0], Job: nj,
			})
		}
	}
	return o
}

// printTools prints the tools that the last iterations of jobs called.
func (s *story) printTools(names []string) {
	for _, name := range names {
		all, err := s.store.Iterations(s.jobs[name])
		if err != nil {
			s.t.Fatal(err)
		}
		for _, it := range all {
			fmt.Fprintf(&s.out, "iteration %d of %s calls", it.Number, name)
			for _, c := range it.ToolCalls {
				fmt.Fprintf(&s.out, " %s (%s in %s of shard %d)", c.Name, s.name(c.JobId), c.Queue, c.Shard)
			}
			s.out.WriteString("\n")
		}
	}
}

// printApproved prints the budget or policy that holds each job, and the policies waived for it.
func (s *story) printApproved(names []string) {
	for _, name := range names {
		j, err := s.store.Job(s.jobs[name])
		if err != nil {
			s.t.Fatal(err)
		}
		d := j.GetDetail()
		fmt.Fprintf(&s.out, "%s: %s, %s by %q: %s; waived", name, j.State.Word(), d.GetHold(), d.GetHoldBy(), d.GetHoldReason())
		for _, id := range d.GetApproved() {
			word := "a policy that is gone"
			if r := s.store.ResourceIndex().ResourceByID([16]byte(id)); r != nil {
				word = r.Name
			}
			fmt.Fprintf(&s.out, " %s", word)
		}
		s.out.WriteString("\n")
	}
}
