package view

import (
	"encoding/json"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// composed is a job's payload as its worker gets it, of the blobs of its record.
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

// documentChain says of what chain a job is a step.
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

// continueWord is on_failure where the next step comes all the same.
const continueWord = `"continue"`

// chainConfig is a chain as it was asked for; nil where there is none. The first
// step is the job it began with, so its payload is not repeated.
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
