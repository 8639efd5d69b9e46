package convert

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// fromChain gives a job the chain of its request, unless that chain is empty. The caller adds the shards of
// the steps' queues. The first step is the job itself: the request must repeat the job's queue there, and the
// chain stores the step without a payload. All payloads, including the job's, must be objects and may have
// job.MaxChainBytes in total.
func fromChain(f *Faults, b *EnqueueBody, n *op.NewJob, maxPayload int) {
	c := b.Chain
	if c == nil || len(c.Steps) == 0 && len(c.OnFailure) == 0 && c.OnExit == nil {
		return
	}
	if len(c.Steps) == 0 || len(c.Steps) > job.MaxChainSteps {
		f.Invalid("chain.steps", "has %d entries; a chain takes 1 to %d", len(c.Steps), job.MaxChainSteps)
		return
	}
	if c.Steps[0].Queue != b.Queue {
		f.Invalid("chain.steps[0].queue", "is %s; the first step is the job itself, and repeats its queue", text.Quote(c.Steps[0].Queue))
	}
	// Published clients send an empty object here, because they give every step a payload.
	if first := c.Steps[0].Payload; !Absent(first) && !noMembers(first) && !bytes.Equal(first, b.Payload) {
		f.Invalid("chain.steps[0].payload", "is not the job's: the first step is the job itself, leave its payload out here")
	}
	isObject(f, "payload", b.Payload)
	chain := &job.Chain{Steps: []*job.Step{{Queue: b.Queue}}}
	for i, s := range c.Steps[1:] {
		chain.Steps = append(chain.Steps, step(f, fmt.Sprintf("chain.steps[%d]", i+1), &s, maxPayload))
	}
	onFailure(f, chain, c.OnFailure, maxPayload)
	if c.OnExit != nil {
		chain.Exit = step(f, "chain.on_exit", c.OnExit, maxPayload)
	}
	if size := chain.PayloadBytes() + len(n.GetPayload().GetData()); size > job.MaxChainBytes {
		f.TooLong("chain", size, job.MaxChainBytes)
	}
	n.Chain = chain
}

// noMembers reports whether JSON is an object without members.
func noMembers(raw json.RawMessage) bool {
	return len(raw) >= 2 && raw[0] == '{' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
}

func step(f *Faults, field string, s *api.ChainStep, maxPayload int) *job.Step {
	if err := job.CheckQueueName(s.Queue); err != nil {
		f.Invalid(field+".queue", "%v", err)
	}
	isObject(f, field+".payload", s.Payload)
	return &job.Step{Queue: s.Queue, Payload: blob(f, field+".payload", s.Payload, maxPayload)}
}

// isObject refuses a payload that is not an object, because the server adds members to it. An absent payload
// is accepted.
func isObject(f *Faults, field string, payload json.RawMessage) {
	if !Absent(payload) && payload[0] != '{' {
		f.Invalid(field, "is not an object; the payloads of a chain must be objects, because results of earlier steps are added to them")
	}
}

// onFailure converts the reaction to a dead step: the word stop (the default), the word continue, or a job in
// a queue, which is given by the queue's name or as a step.
func onFailure(f *Faults, chain *job.Chain, raw json.RawMessage, maxPayload int) {
	const field = "chain.on_failure"
	if Absent(raw) {
		return
	}
	var word string
	var s api.ChainStep
	switch raw[0] {
	case '"':
		if err := json.Unmarshal(raw, &word); err != nil {
			f.Invalid(field, "is not a string: %v", err)
			return
		}
	case '{':
		if err := json.Unmarshal(raw, &s); err != nil {
			f.Invalid(field, "is not a step of a chain: %v", err)
			return
		}
		chain.OnFailure, chain.Failure = job.OnFailure_ON_FAILURE_QUEUE, step(f, field, &s, maxPayload)
		return
	default:
		f.Invalid(field, "is neither a word nor a step: use stop, continue, a queue's name, or an object with a queue")
		return
	}
	switch word {
	case "", "stop":
	case "continue":
		chain.OnFailure = job.OnFailure_ON_FAILURE_CONTINUE
	default:
		if err := job.CheckQueueName(word); err != nil {
			f.Invalid(field, "%v; use stop, continue or a queue's name", err)
		}
		chain.OnFailure, chain.Failure = job.OnFailure_ON_FAILURE_QUEUE, &job.Step{Queue: word}
	}
}

// exits reports whether an ack ends its job's chain. It refuses an unknown step_status.
func exits(f *Faults, stepStatus string) bool {
	switch stepStatus {
	case "", api.StepContinue:
	case api.StepExit:
		return true
	default:
		f.Invalid("step_status", "is %s; use %s or %s", text.Quote(stepStatus), api.StepContinue, api.StepExit)
	}
	return false
}

// appendPayload appends a job's payload as its worker receives it: with the members that the job's origin
// adds.
func appendPayload(b []byte, from state.Reader, id job.ID, j *job.Job) ([]byte, error) {
	if j.Origin == nil {
		return appendBlob(b, from, id, j, job.Payload)
	}
	payload, err := appendBlob(nil, from, id, j, job.Payload)
	if err != nil {
		return b, err
	}
	var previous []byte
	if j.Blobs&(1<<job.Previous) != 0 {
		if previous, err = appendBlob(nil, from, id, j, job.Previous); err != nil {
			return b, err
		}
	}
	return append(b, job.Compose(payload, j.Origin, previous)...), nil
}
