//go:build !race

// The race detector allocates memory of its own.

package server

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/tenancy"
)

// TestFrameAllocations compares the allocations of a frame of 64 jobs with a budget, for each kind of part:
// reading the message and building its op, or building the answer. It leaves out the log and the store. If a
// change needs more, raise the budget and give the reason.
func TestFrameAllocations(t *testing.T) {
	const jobs = 64
	n := OpenForTest(t, host.Config{}, host.Spec{}, func(c *Config) { c.Dev = true })
	r := httptest.NewRequest("POST", rpc.Prefix+"StreamLifecycle", nil)
	who := tenancy.Principal{Namespace: tenancy.Default, Open: true}
	shards, err := router.Open(n.Host, who.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	q := request{who: who, shards: shards, meta: &op.Meta{Principal: "open"}}
	x := &stream{server: n.Server, call: &rpcCall{r: r}}

	enqueues, acks := &workerpb.StreamLifecycleRequest{}, &workerpb.StreamLifecycleRequest{WorkerId: "w"}
	for range jobs {
		id := job.NewID(1, "emails.bulk", job.Entropy{})
		enqueues.Enqueues = append(enqueues.Enqueues, &workerpb.EnqueueRequest{Queue: "emails.bulk", PayloadJson: `{"to":"somebody@example.com","n":[1,2,3]}`})
		acks.Acks = append(acks.Acks, &workerpb.AckBatchItem{JobId: id.String(), LeaseToken: "000102030405060708090a0b0c0d0e0f", ResultJson: `{"sent":true}`})
	}
	read := func(m *workerpb.StreamLifecycleRequest) *frame {
		data, err := rpc.Codec{}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		f := &frame{stream: x, who: who, m: workerpb.StreamLifecycleRequestFromVTPool()}
		if err := (rpc.Codec{}).Unmarshal(data, f.m); err != nil {
			t.Fatal(err)
		}
		if err := f.prepare(); err != nil {
			t.Fatal(err)
		}
		return f
	}
	body := `{"jobs":[{"queue":"emails.bulk","payload":{"to":"somebody@example.com"}}` // and so on
	for range jobs - 1 {
		body += `,{"queue":"emails.bulk","payload":{"to":"somebody@example.com"}}`
	}
	ask, made := httptest.NewRequest("POST", "http://localhost/api/v1/enqueue/batch", strings.NewReader(body+`]}`)), httptest.NewRecorder()
	if n.Server.ServeHTTP(made, ask); made.Code != http.StatusCreated {
		t.Fatalf("enqueue: %d %s", made.Code, made.Body)
	}
	leased, err := n.Server.lease(httptest.NewRecorder(), r, &q, &convert.Fetch{Queues: []string{"emails.bulk"}, WorkerID: "worker-1", LeaseMs: 60_000, Count: jobs}, nil)
	if err != nil || len(leased) != jobs {
		t.Fatal(len(leased), err)
	}
	for _, test := range []struct {
		name   string
		budget float64 // of one frame
		do     func()
	}{
		{"enqueues", 16, func() { read(enqueues).m.ReturnToVTPool() }},
		// The rest are the results, which few acks have.
		{"acks", 16 + jobs, func() {
			f := read(acks)
			items, _ := fromAcks(f.m.Acks, f.m.WorkerId)
			into := convert.NewAcks(len(items))
			for i := range items {
				if _, err := f.q.ackItem(r, &into, &items[i], nil); err != nil {
					t.Fatal(err)
				}
			}
			f.m.ReturnToVTPool()
		}},
		// A job's record contains the names of its queue and worker.
		{"fetch", 48 + 2*jobs, func() {
			if out, _, err := n.Server.compose(r, &q, leased, 60_000, nil); err != nil || len(out) != jobs {
				t.Fatal(len(out), err)
			}
		}},
	} {
		got := math.Inf(1)
		for try := 0; got > test.budget && try < 50; try++ { // the node's other work is counted, too
			got = min(got, testing.AllocsPerRun(2, test.do))
		}
		if got > test.budget {
			t.Errorf("%s: %v allocations, the budget is %v", test.name, got, test.budget)
		}
	}
}

// A message that exceeded the bounds of a frame is not used again, because its memory would stay for as long
// as frames come. A message at the bounds is used again.
func TestMessagesAboveTheBoundsAreNotKept(t *testing.T) {
	t.Parallel()
	const acks, enqueues, queues = job.MaxAckItems, job.MaxEnqueueJobs, job.MaxFetchQueues
	for _, c := range []struct {
		acks, enqueues, queues int
		kept                   bool
	}{{acks, enqueues, queues, true}, {acks + 1, 0, 0, false}, {0, enqueues + 1, 0, false}, {0, 0, queues + 1, false}} {
		m := &workerpb.StreamLifecycleRequest{
			Acks: make([]*workerpb.AckBatchItem, c.acks), Enqueues: make([]*workerpb.EnqueueRequest, c.enqueues), Queues: make([]string, c.queues),
		}
		if kept := mayBeKept(m); kept != c.kept {
			t.Errorf("a message of %d acks, %d enqueues and %d queues is kept: %v", c.acks, c.enqueues, c.queues, kept)
		}
	}
}
