package convert

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// TestAllocations compares the allocations of making an op from a decoded request with their budget. A change
// that needs more raises the budget and gives the reason.
func TestAllocations(t *testing.T) {
	enqueue := EnqueueBody{EnqueueRequest: api.EnqueueRequest{
		Queue: "mail", Payload: []byte(`{"body":"` + strings.Repeat("x", 190) + `"}`),
	}}
	fetch := api.FetchRequest{Queues: []string{"mail"}, WorkerID: "w"}
	token := string(appendLeaseToken(nil, make([]byte, job.TokenSize)))
	ack := AckBody{}
	ack.LeaseToken, ack.Result = token, []byte(`{"sent":true}`)
	meta := &op.Meta{}
	for _, test := range []struct {
		name   string
		budget float64
		make   func(*Faults) pipelineOp
	}{
		{"enqueue", 4, func(f *Faults) pipelineOp {
			return &op.Enqueue{Meta: meta, Jobs: []*op.NewJob{FromEnqueue(f, &enqueue, fuzzNow, job.DefaultMaxPayload)}}
		}},
		{"fetch", 2, func(f *Faults) pipelineOp { ask := FromFetch(f, &fetch); return ask.Op(meta) }},
		{"ack", 4, func(f *Faults) pipelineOp {
			return &op.Ack{Meta: meta, Items: []*op.AckItem{FromAck(f, job.ID{}, &ack)}}
		}},
	} {
		var f Faults
		var made pipelineOp
		got := testing.AllocsPerRun(200, func() { made = test.make(&f) })
		if err := f.Err(); err != nil || made.SizeVT() == 0 {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got > test.budget {
			t.Errorf("%s allocates %v times, its budget is %v", test.name, got, test.budget)
		}
	}
}

type pipelineOp interface{ SizeVT() int }
