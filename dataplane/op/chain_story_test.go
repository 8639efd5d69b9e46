package op_test

import (
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// Commands of stories about chains and the jobs that follow from others.
func init() {
	builders["chain"] = (*story).chain
	builders["create-jobs"] = (*story).createJobs
	builders["come-back"] = (*story).comeBack
	builders["ack-exit"] = func(s *story, items []item) op.Op {
		o := s.ackOp(items).(*op.Ack)
		for _, i := range o.Items {
			i.ExitChain = true
		}
		return o
	}
	moreValid = append(moreValid, func(w *world) op.Op {
		o := w.newJobs("q", 1)
		return &op.CreateJobs{Meta: o.Meta, Jobs: o.Jobs}
	})
}

// chain builds an enqueue of a job from the first part, with a chain from the others: the later steps,
// "failure", "exit" and "continue".
func (s *story) chain(items []item) op.Op {
	o := s.enqueue(items[:1]).(*op.Enqueue)
	for _, nj := range o.Jobs {
		nj.Chain = &job.Chain{Steps: []*job.Step{{Queue: items[0].text("first", nj.Queue)}}}
		for _, i := range items[1:] {
			step := &job.Step{Queue: repeated(i.text("queue", "")), Shard: uint32(i.number(s.t, "shard", 0)), Payload: i.blob(s.t, "payload")}
			switch {
			case i.has("failure"):
				nj.Chain.Failure, nj.Chain.OnFailure = step, job.OnFailure_ON_FAILURE_QUEUE
			case i.has("continue"):
				nj.Chain.OnFailure = job.OnFailure_ON_FAILURE_CONTINUE
			case i.has("exit"):
				nj.Chain.Exit = step
			default:
				nj.Chain.Steps = append(nj.Chain.Steps, step)
			}
		}
	}
	return o
}

// createJobs builds an enqueue's jobs as another shard sends them, with unique= and, for jobs that follow another,
// after= and previous=.
func (s *story) createJobs(items []item) op.Op {
	asked := s.enqueue(items).(*op.Enqueue)
	o := &op.CreateJobs{Meta: asked.Meta, Jobs: asked.Jobs}
	for _, nj := range o.Jobs {
		i := items[0]
		nj.Opt().UniqueKey = i.text("unique", "")
		nj.Previous = i.blob(s.t, "previous")
		if queue, ok := i.settings["after"]; ok {
			nj.Origin = &job.Origin{Kind: job.OriginKind_ORIGIN_KIND_STEP, JobId: o.Meta.Ids[0], Queue: queue}
		}
	}
	return o
}

// printChain prints a job's position in its chain and the job before it.
func (s *story) printChain(v *state.Snapshot, j *job.Job) {
	if c := j.Chain; c != nil {
		b, err := v.Blob(job.ID(j.Id), job.ChainConfig)
		chain := &job.Chain{}
		if err == nil {
			err = chain.UnmarshalVT(b.GetData())
		}
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&s.out, "  step %d of %d of the chain of %s, ended: %v\n", c.Step, len(chain.Steps), s.name(c.ChainId), c.Ended)
	}
	if o := j.Origin; o != nil {
		fmt.Fprintf(&s.out, "  origin %s\n", s.origin(o))
	}
}

// origin prints the job that a job follows.
func (s *story) origin(o *job.Origin) string {
	if o == nil {
		return "nothing"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s in %s", strings.ToLower(strings.TrimPrefix(o.Kind.String(), "ORIGIN_KIND_")), s.name(o.JobId), o.Queue)
	if o.Kind == job.OriginKind_ORIGIN_KIND_FAILURE {
		fmt.Fprintf(&b, ", attempt %d, error %q", o.Attempt, o.Error)
	}
	if o.Outcome != "" {
		fmt.Fprintf(&b, ", outcome %s", o.Outcome)
	}
	return b.String()
}

// printSent prints an op on its way to another shard.
func (s *story) printSent(seq uint64, o op.Op) {
	fmt.Fprintf(&s.out, "  %d %s", seq, op.KindFor(o).Name)
	if created, ok := o.(*op.CreateJobs); ok {
		for i, nj := range created.Jobs {
			fmt.Fprintf(&s.out, " %s for %s: %s, previous %s, after %s", s.name(created.Meta.Ids[i]), nj.Queue, nj.Payload.GetData(), nj.Previous.GetData(), s.origin(nj.Origin))
		}
	}
	if grant, ok := o.(*op.GrantBudget); ok {
		fmt.Fprintf(&s.out, " %d, ask %d, recall %d, denied %d", grant.AmountNanoUsd, grant.Ask, grant.Recall, grant.Denial.GetAmountNanoUsd())
	}
	s.out.WriteString("\n")
}

// comeBack builds the arrival of a pending job that has ended its chain once: a step that was retried after
// it had settled.
func (s *story) comeBack(items []item) op.Op {
	o := s.arrival(items[0])
	o.Job.Chain = &job.ChainLink{ChainId: o.Job.Id, Ended: true}
	chain := &job.Chain{Steps: []*job.Step{{Queue: o.Job.Queue, Payload: &job.Blob{Data: []byte("{}")}}, {Queue: "r"}}}
	data, err := chain.MarshalVT()
	if err != nil {
		s.t.Fatal(err)
	}
	o.Blobs = append(o.Blobs, &op.KindBlob{Kind: uint32(job.ChainConfig), Blob: &job.Blob{Data: data}})
	return o
}
