package view

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// TestDocument compares documents with testdata/job.json: of a job with the fields that most jobs may have,
// of one without any, and of two with fields that few jobs have.
func TestDocument(t *testing.T) {
	t.Parallel()
	id := job.NewID(1_770_804_000_000, "emails.send", job.Entropy{1, 2, 3, 4, 5, 6, 7, 8, 9})
	const at = 1_770_804_000_000_000_000
	full := &job.Job{
		Id: id[:], Number: 12, Queue: "emails.send", State: job.Completed, Priority: job.High, Attempt: 3,
		Retry: &job.Retry{MaxAttempts: 5, Backoff: job.BackoffLinear, BaseDelayMs: 1000, MaxDelayMs: 2000},
		Tags:  []*job.Pair{{Name: "tenant", Value: "acme"}}, Headers: []*job.Pair{{Name: "traceparent", Value: "00-x"}},
		CreatedNs: at, ScheduledNs: at + 1, StartedNs: at + 2e9, CompletedNs: at + 3e9, FailedNs: at + 1e9,
		Lease:  &job.Lease{Token: []byte("secret"), WorkerId: "w", Hostname: "h", ExpiresNs: at + 9e9},
		Usage:  &job.Usage{InputTokens: 1, OutputTokens: 2, CacheCreationTokens: 3, CacheReadTokens: 4, Model: "m", Provider: "p", CostNanoUsd: 1},
		Errors: 2,
	}
	blobs := Blobs{job.Payload: payload(`{"to":1}`), job.Result: payload(`[]`), job.Checkpoint: payload(`null`), job.Progress: payload(`"half"`),
		job.ResultSchema: payload(`{"type":"array"}`)}
	other := job.NewID(1_770_804_000_000, "agents", job.Entropy{9})
	// agent is a job that runs in iterations and that a budget holds.
	agent := &job.Job{Id: id[:], State: job.Held,
		FairnessKey: "acme", FairnessWeight: 3,
		Options: &job.Options{Provider: "anthropic", Model: "opus", CostEstimateNanoUsd: 250_000_000,
			Agent: &job.AgentConfig{MaxIterations: 20, MaxCostNanoUsd: 5_000_000_001, IterationTimeoutMs: 90_000}, ReplayOf: other[:], ReplayFrom: 2},
		Detail: &job.Detail{HoldReason: "the budget queue/agents has no room", Hold: job.Hold_HOLD_BUDGET, HoldBy: "queue/agents", Iteration: 4, SpentBeforeNanoUsd: 2e9},
		Usage:  &job.Usage{CostNanoUsd: 1_000_000_001},
	}
	// parked waits at a gate. Its document does not name the policy that held it before a person approved it.
	parked := &job.Job{Id: id[:], State: job.Pending, Options: &job.Options{Agent: &job.AgentConfig{}},
		Detail: &job.Detail{Hold: job.Hold_HOLD_POLICY, HoldBy: "pol_1", Gate: job.Gate_GATE_PROVIDER, GateName: "anthropic"}}
	var got bytes.Buffer
	for _, c := range []struct {
		j     *job.Job
		blobs Blobs
		errs  []*job.AttemptError
	}{
		{full, blobs, []*job.AttemptError{
			{Attempt: 1, Error: "SMTP timeout", Backtrace: "at send", CreatedNs: at + 1e9, WorkerId: "w0", StartedNs: at + 5e8},
			{Attempt: 2, Error: "no", CreatedNs: at + 2e9, Outcome: job.Rejected},
		}},
		{&job.Job{Id: make([]byte, 16), State: job.Pending}, Blobs{}, nil},
		{agent, Blobs{}, nil},
		{parked, Blobs{}, nil},
	} {
		doc, err := Document(c.j, c.blobs, c.errs)
		must(t, err)
		text, err := json.MarshalIndent(doc, "", "  ")
		must(t, err)
		got.Write(append(text, '\n'))
	}
	if strings.Contains(got.String(), "secret") {
		t.Error("a lease token is shown")
	}
	if *rewrite {
		must(t, os.WriteFile("testdata/job.json", got.Bytes(), 0o600))
	}
	want, err := os.ReadFile("testdata/job.json")
	must(t, err)
	if got.String() != string(want) {
		t.Errorf("the documents are\n%s\nand should be\n%s\n(-rewrite, if that is meant)", got.String(), want)
	}
}

func TestDocumentRefuses(t *testing.T) {
	t.Parallel()
	id := make([]byte, 16)
	if _, err := Document(&job.Job{Id: id[:3], Number: 7}, Blobs{}, nil); err == nil || !strings.Contains(err.Error(), "job number 7") {
		t.Errorf("a job with a short id: %v", err)
	}
	sealed := Blobs{job.Result: {KeyId: "k1", Data: []byte("x")}}
	if _, err := Document(&job.Job{Id: id}, sealed, nil); err == nil || !strings.Contains(err.Error(), `"k1"`) {
		t.Errorf("a sealed blob: %v", err)
	}
}

// TestWaitingWords checks the word of every hold, gate and reaction to an exceeded budget.
func TestWaitingWords(t *testing.T) {
	t.Parallel()
	for h := range job.Hold_name {
		if want := strings.ToLower(strings.TrimPrefix(job.Hold(h).String(), "HOLD_")); job.Hold(h).Word() != want {
			t.Errorf("%v is %q", job.Hold(h), job.Hold(h).Word())
		}
	}
	for g := range job.Gate_name {
		if want := strings.ToLower(strings.TrimPrefix(job.Gate(g).String(), "GATE_")); g != 0 && gateWord(job.Gate(g)) != want {
			t.Errorf("%v is %q", job.Gate(g), gateWord(job.Gate(g)))
		}
	}
	for o := range state.OnExceed_name {
		if want := strings.ToLower(strings.TrimPrefix(state.OnExceed(o).String(), "ON_EXCEED_")); onExceedWord(state.OnExceed(o)) != want {
			t.Errorf("%v is %q", state.OnExceed(o), onExceedWord(state.OnExceed(o)))
		}
	}
	if word := job.Hold(99).Word(); word != "hold(99)" {
		t.Errorf("a hold that does not exist is %q", word)
	}
}
