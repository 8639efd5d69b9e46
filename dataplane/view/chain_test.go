package view

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// TestChainIsShownAsAsked checks that a document shows a chain as the client sent it, but without the first
// step's payload, which the job itself has.
func TestChainIsShownAsAsked(t *testing.T) {
	t.Parallel()
	step := func(queue, data string) *job.Step {
		s := &job.Step{Queue: queue, Shard: 3}
		if data != "" {
			s.Payload = payload(data)
		}
		return s
	}
	const steps = `"steps":[{"queue":"a"},{"queue":"b","payload":{"n":1.0}}]`
	for want, chain := range map[string]*job.Chain{
		`{` + steps + `}`:                         {},
		`{` + steps + `,"on_failure":"continue"}`: {OnFailure: job.OnFailure_ON_FAILURE_CONTINUE},
		`{` + steps + `,"on_failure":{"queue":"f","payload":{}},"on_exit":{"queue":"x"}}`: {
			OnFailure: job.OnFailure_ON_FAILURE_QUEUE, Failure: step("f", "{}"), Exit: step("x", ""),
		},
	} {
		chain.Steps = []*job.Step{step("a", `{"first":1}`), step("b", `{"n":1.0}`)}
		data, err := chain.MarshalVT()
		must(t, err)
		id := job.ID{1}
		j := &job.Job{Id: make([]byte, 16), State: job.Pending, Chain: &job.ChainLink{ChainId: id[:], Step: 1}}
		doc, err := Document(j, Blobs{job.ChainConfig: {Data: data}}, nil)
		must(t, err)
		if string(doc.ChainConfig) != want || *doc.ChainStep != 1 || *doc.ChainID != id.ChainText() {
			t.Errorf("step %d of %s: %s, want %s", *doc.ChainStep, *doc.ChainID, doc.ChainConfig, want)
		}
	}
	j := &job.Job{Id: make([]byte, 16), State: job.Pending, Chain: &job.ChainLink{ChainId: make([]byte, 16)}}
	if _, err := Document(j, Blobs{job.ChainConfig: {Data: []byte{1}}}, nil); err == nil || !strings.Contains(err.Error(), "decode the chain") {
		t.Errorf("a chain that is none: %v", err)
	}
}

// TestComposedRefusesWhatIsSealed checks that composed neither adds to a sealed payload nor adds a sealed
// result.
func TestComposedRefusesWhatIsSealed(t *testing.T) {
	t.Parallel()
	j := &job.Job{Origin: &job.Origin{Kind: job.OriginKind_ORIGIN_KIND_STEP, JobId: make([]byte, 16), Queue: "q"}}
	sealed := &job.Blob{KeyId: "k1", Data: []byte("x")}
	for _, blobs := range []Blobs{{job.Payload: sealed}, {job.Payload: payload("{}"), job.Previous: sealed}} {
		if b, err := composed(j, &blobs); err == nil || !strings.Contains(err.Error(), `"k1"`) {
			t.Errorf("composed to %v, %v", b, err)
		}
	}
}
