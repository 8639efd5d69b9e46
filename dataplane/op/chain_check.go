package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// checkChain checks the chain of a new job. The job is the chain's first step, or the later step that its
// link names.
func (nj *NewJob) checkChain(p *problems, i int) {
	c := nj.GetChain()
	if c == nil {
		if nj.GetLink() != nil {
			p.item("jobs", i, "link", errors.New("is there without a chain"))
		}
		return
	}
	if n := len(c.Steps); n < 1 || n > job.MaxChainSteps {
		p.item("jobs", i, "chain.steps", fmt.Errorf("has %d elements; a chain has 1 to %d", n, job.MaxChainSteps))
		return
	}
	for n, step := range c.Steps {
		checkStep(p, i, fmt.Sprintf("chain.steps[%d]", n), step)
	}
	if c.Exit != nil {
		checkStep(p, i, "chain.exit", c.Exit)
	}
	nj.checkOnFailure(p, i)
	nj.checkPlaceInChain(p, i)
}

func checkStep(p *problems, i int, field string, s *job.Step) {
	p.item("jobs", i, field+".queue", job.CheckStoredQueueName(s.GetQueue()))
	p.item("jobs", i, field+".shard", checkShard(s.GetShard()))
	if s.GetPayload() != nil {
		p.item("jobs", i, field+".payload", job.CheckSeal(s.Payload))
	}
}

func (nj *NewJob) checkOnFailure(p *problems, i int) {
	c := nj.Chain
	if c.Failure != nil {
		checkStep(p, i, "chain.failure", c.Failure)
	}
	switch c.OnFailure {
	case job.OnFailure_ON_FAILURE_STOP, job.OnFailure_ON_FAILURE_CONTINUE:
		if c.Failure != nil {
			p.item("jobs", i, "chain.failure", errors.New("is there, and on_failure does not ask for it"))
		}
	case job.OnFailure_ON_FAILURE_QUEUE:
		if c.Failure == nil {
			p.item("jobs", i, "chain.failure", errors.New("is missing, and on_failure asks for it"))
		}
	default:
		p.item("jobs", i, "chain.on_failure", fmt.Errorf("%d is unknown", c.OnFailure))
	}
}

// checkPlaceInChain checks that the job matches its step of the chain, and bounds the bytes that the chain
// carries.
func (nj *NewJob) checkPlaceInChain(p *problems, i int) {
	c, step, size := nj.Chain, uint32(0), nj.Chain.PayloadBytes()
	switch link := nj.Link; {
	case link == nil:
		if c.Steps[0].GetPayload() != nil {
			p.item("jobs", i, "chain.steps[0].payload", errors.New("is there; the first step is the job itself: leave it out"))
		}
		size += len(nj.GetPayload().GetData())
	case len(link.ChainId) != len(job.ID{}) || link.Ended || link.Step == 0 || int(link.Step) >= len(c.Steps):
		p.item("jobs", i, "link", fmt.Errorf("is to step %d of %d, of a chain id of %d bytes, ended: %v: no such step can be made", link.Step, len(c.Steps), len(link.ChainId), link.Ended))
		return
	default:
		step = link.Step
		if c.Steps[0].GetPayload() == nil {
			p.item("jobs", i, "chain.steps[0].payload", errors.New("is missing; the first step has made it"))
		}
	}
	if want := c.Steps[step].GetQueue(); want != nj.GetQueue() {
		p.item("jobs", i, fmt.Sprintf("chain.steps[%d].queue", step), fmt.Errorf("is %q, and the job is for queue %q", want, nj.GetQueue()))
	}
	p.size("jobs", i, "chain", size, job.MaxChainBytes)
}

// checkMade checks fields of a new job that clients never set: previous, schedule_id and origin.
func (nj *NewJob) checkMade(p *problems, i int) {
	p.blob("jobs", i, "previous", nj.GetPrevious(), job.MaxResult)
	if n := len(nj.GetOptions().GetScheduleId()); n != 0 && n != len(job.ID{}) {
		p.item("jobs", i, "schedule_id", fmt.Errorf("has %d bytes; an id has %d", n, len(job.ID{})))
	}
	o := nj.GetOrigin()
	if o == nil {
		return
	}
	before, of := o.JobId, "job_id"
	switch o.Kind {
	case job.OriginKind_ORIGIN_KIND_STEP, job.OriginKind_ORIGIN_KIND_FAILURE, job.OriginKind_ORIGIN_KIND_EXIT:
		p.item("jobs", i, "origin.queue", job.CheckStoredQueueName(o.Queue))
	case job.OriginKind_ORIGIN_KIND_BATCH:
		before, of = o.BatchId, "batch_id"
	default:
		p.item("jobs", i, "origin.kind", fmt.Errorf("%d is unknown", o.Kind))
		return
	}
	if len(before) != len(job.ID{}) {
		p.item("jobs", i, "origin."+of, fmt.Errorf("has %d bytes; an id has %d", len(before), len(job.ID{})))
	}
	p.item("jobs", i, "origin.error", job.CheckText(o.Error, job.MaxErrorText))
}
