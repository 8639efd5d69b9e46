package view

import (
	"encoding/json"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// chainText converts a stored chain to the text of its column, or to NULL if there is no chain. The text is
// the JSON that documents show. It lacks the shards of the queues and the first step's payload, because no
// document shows them.
func chainText(b *job.Blob) (any, error) {
	text, err := chainConfig(b)
	if text == nil || err != nil {
		return nil, err
	}
	return string(text), nil
}

// fromChainText converts the text of chainText back to an encoded job.Chain, without the parts that no
// document shows.
func fromChainText(text string) (*job.Blob, error) {
	var in api.Chain
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, err
	}
	chain := &job.Chain{Exit: toStep(in.OnExit)}
	for i := range in.Steps {
		chain.Steps = append(chain.Steps, toStep(&in.Steps[i]))
	}
	switch on := string(in.OnFailure); on {
	case "", "null":
	case continueWord:
		chain.OnFailure = job.OnFailure_ON_FAILURE_CONTINUE
	default:
		var failure api.ChainStep
		if err := json.Unmarshal(in.OnFailure, &failure); err != nil {
			return nil, err
		}
		chain.OnFailure, chain.Failure = job.OnFailure_ON_FAILURE_QUEUE, toStep(&failure)
	}
	data, err := chain.MarshalVT()
	return &job.Blob{Data: data}, err
}

func toStep(s *api.ChainStep) *job.Step {
	if s == nil {
		return nil
	}
	step := &job.Step{Queue: s.Queue}
	if s.Payload != nil {
		step.Payload = &job.Blob{Data: s.Payload}
	}
	return step
}
