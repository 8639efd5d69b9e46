package view

import (
	"encoding/json"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// composed returns a job's payload as its worker receives it: with the members that the job's origin adds, if
// it has one.
func composed(j *job.Job, blobs *Blobs) (*job.Blob, error) {
	if j.Origin == nil {
		return blobs[job.Payload], nil
	}
	payload, err := plain(blobs[job.Payload])
	if err != nil {
		return nil, err
	}
	previous, err := plain(blobs[job.Previous])
	if err != nil {
		return nil, err
	}
	return &job.Blob{Data: job.Compose(payload, j.Origin, previous)}, nil
}

// documentChain fills in the job's chain if the job is a step of one.
func documentChain(doc *api.Job, j *job.Job, config *job.Blob) error {
	if j.Chain == nil {
		return nil
	}
	id, err := job.IDFromBytes(j.Chain.ChainId)
	if err != nil {
		return fmt.Errorf("chain: %w", err)
	}
	text, step := id.ChainText(), int(j.Chain.Step)
	doc.ChainID, doc.ChainStep = &text, &step
	doc.ChainConfig, err = chainConfig(config)
	return err
}

// continueWord is the on_failure value of a chain whose next step runs even after a failed one.
const continueWord = `"continue"`

// chainConfig converts a stored chain to the JSON that the client sent, or returns nil if there is no chain.
// It omits the first step's payload, because the job that began the chain has it.
func chainConfig(config *job.Blob) (json.RawMessage, error) {
	data, err := plain(config)
	if data == nil || err != nil {
		return nil, err
	}
	c := &job.Chain{}
	if err := c.UnmarshalVT(data); err != nil {
		return nil, fmt.Errorf("decode the chain: %w", err)
	}
	out := api.Chain{Steps: make([]api.ChainStep, len(c.Steps))}
	for i, s := range c.Steps {
		out.Steps[i] = *chainStep(s)
	}
	out.Steps[0].Payload = nil
	if c.Exit != nil {
		out.OnExit = chainStep(c.Exit)
	}
	switch c.OnFailure {
	case job.OnFailure_ON_FAILURE_CONTINUE:
		out.OnFailure = json.RawMessage(continueWord)
	case job.OnFailure_ON_FAILURE_QUEUE:
		if out.OnFailure, err = json.Marshal(chainStep(c.Failure)); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

func chainStep(s *job.Step) *api.ChainStep {
	return &api.ChainStep{Queue: s.GetQueue(), Payload: s.GetPayload().GetData()}
}
