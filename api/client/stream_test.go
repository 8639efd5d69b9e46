package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
)

type serverStream = connect.BidiStream[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]

// director answers streams under the control of a test, at moments that are hard to reach with a real
// server, and records the returned jobs. dataplane/server tests streams of a real server.
type director struct {
	workerpbconnect.UnimplementedWorkerServiceHandler
	url    string
	stream func(s *serverStream) error

	mu    sync.Mutex
	back  map[string]string // lease tokens of jobs that were given back
	fails map[string]string // errors of jobs that failed
	heard []http.Header     // of the streams that were opened
}

func direct(t *testing.T, stream func(s *serverStream) error) *director {
	t.Helper()
	d := &director{stream: stream, back: map[string]string{}, fails: map[string]string{}}
	mux := http.NewServeMux()
	mux.Handle(workerpbconnect.NewWorkerServiceHandler(d))
	mux.HandleFunc("POST /api/v1/fail/{id}", func(w http.ResponseWriter, r *http.Request) {
		var req api.FailRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		id := path.Base(r.URL.Path)
		if req.Error == api.WorkerShutdown {
			d.back[id] = req.LeaseToken
		} else if d.fails[id] = req.Error; req.LeaseToken != "token of "+id {
			t.Errorf("job %s fails with lease token %q", id, req.LeaseToken)
		}
		io.WriteString(w, `{"status":"pending"}`)
	})
	front := httptest.NewUnstartedServer(mux)
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetHTTP1(true)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Start()
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	d.url = front.URL
	return d
}

func (d *director) StreamLifecycle(_ context.Context, s *serverStream) error {
	d.mu.Lock()
	d.heard = append(d.heard, s.RequestHeader().Clone())
	d.mu.Unlock()
	return d.stream(s)
}

func (d *director) opened() []http.Header {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard
}

func (d *director) client(t *testing.T) *Client {
	t.Helper()
	c, err := New(d.url, "key", WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// within fails the test if done is not closed within 20 seconds.
func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal(what + " does not come")
	}
}

func job(id string) *workerpb.FetchBatchJob {
	return &workerpb.FetchBatchJob{JobId: id, Queue: "q", LeaseDuration: 60, LeaseToken: "token of " + id}
}

// The jobs of a response that no caller waits for return to their queues. The stream continues, and Close
// returns them first.
func TestStreamGivesLateJobsBack(t *testing.T) {
	t.Parallel()
	came, late := make(chan struct{}), make(chan struct{})
	d := direct(t, func(s *serverStream) error {
		for {
			m, err := s.Receive()
			if err != nil {
				return nil
			}
			out := &workerpb.StreamLifecycleResponse{RequestId: m.RequestId}
			if m.FetchCount > 0 {
				close(came)
				<-late
				out.Jobs = []*workerpb.FetchBatchJob{job("job_1"), job("job_2")}
			}
			if err := s.Send(out); err != nil {
				return err
			}
		}
	})
	s := d.client(t).Stream()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	if out, err := s.Do(ctx, Frame{Fetch: &api.FetchRequest{Queues: []string{"q"}}, Count: 2}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", out, err)
	}
	close(late)
	if _, err := s.Do(t.Context(), Frame{}); err != nil {
		t.Errorf("the next frame: %v", err)
	}
	s.Close()
	if len(d.back) != 2 || d.back["job_1"] != "token of job_1" || d.back["job_2"] != "token of job_2" {
		t.Errorf("%v came back", d.back)
	}
	if n := len(d.opened()); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
}

// A job that cannot be decoded fails alone: the jobs beside it reach the caller or return to their queues.
// The failed attempt counts, so that the job does not come back for ever.
func TestStreamFailsAJobThatItCannotRead(t *testing.T) {
	t.Parallel()
	var came, late chan struct{} // nil: the answer comes at once
	d := direct(t, func(s *serverStream) error {
		for {
			m, err := s.Receive()
			if err != nil {
				return nil
			}
			out := &workerpb.StreamLifecycleResponse{RequestId: m.RequestId, Acked: int32(len(m.Acks))}
			if m.FetchCount > 0 {
				out.Jobs = []*workerpb.FetchBatchJob{job("job_1"), job("job_2"), job("job_3"), job("job_4"), job("job_5")}
				out.Jobs[1].TagsJson = `["a"]`
				out.Jobs[3].Agent = &workerpb.AgentState{MaxCostUsd: math.NaN()}
				if late != nil {
					close(came)
					<-late
				}
			}
			if err := s.Send(out); err != nil {
				return err
			}
		}
	})
	failed := func() {
		t.Helper()
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.fails) != 2 || !strings.Contains(d.fails["job_2"], "tags") || !strings.Contains(d.fails["job_4"], "max_cost_usd") {
			t.Errorf("%v have failed", d.fails)
		}
		clear(d.fails)
	}
	s := d.client(t).Stream()
	f := Frame{Acks: []api.AckItem{{JobID: "job_0"}}, Fetch: &api.FetchRequest{Queues: []string{"q"}}, Count: 5}
	out, err := s.Do(t.Context(), f)
	if err != nil || out.Acked != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	var ids []string
	for _, j := range out.Jobs {
		ids = append(ids, j.JobID)
	}
	if diff := cmp.Diff([]string{"job_1", "job_3", "job_5"}, ids); diff != "" {
		t.Errorf("the jobs that can be read (-want +got):\n%s", diff)
	}
	checkUnreadable(t, out.JobErrors)
	s.Close() // waits until the server was told
	failed()

	s = d.client(t).Stream()
	came, late = make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	if out, err := s.Do(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", out, err)
	}
	close(late)
	if _, err := s.Do(t.Context(), Frame{}); err != nil {
		t.Errorf("the next frame: %v", err)
	}
	s.Close()
	failed()
	var back []string
	for id, reason := range d.back {
		if reason != "" {
			back = append(back, id)
		}
	}
	slices.Sort(back)
	if diff := cmp.Diff([]string{"job_1", "job_3", "job_5"}, back); diff != "" || len(d.back) != 3 {
		t.Errorf("%v came back (-want +got):\n%s", d.back, diff)
	}
}

// checkUnreadable checks the errors of jobs 2 and 4.
func checkUnreadable(t *testing.T, errs []api.ItemError) {
	t.Helper()
	if len(errs) != 2 {
		t.Fatalf("the jobs that cannot be read: %+v, want two", errs)
	}
	first, second := errs[0], errs[1]
	if first.JobID != "job_2" || second.JobID != "job_4" {
		t.Errorf("%s and %s cannot be read, want job_2 and job_4", first.JobID, second.JobID)
	}
	if first.Code != api.ParseError || !strings.Contains(first.Error, "tags") {
		t.Errorf("%+v, want %s of the tags", first, api.ParseError)
	}
}

// leases returns a stream that answers each frame with a job and calls then at the same moment. all returns
// the number of jobs so far.
func leases(then func()) (stream func(s *serverStream) error, all func() int) {
	var mu sync.Mutex
	n := 0
	stream = func(s *serverStream) error {
		for {
			m, err := s.Receive()
			if err != nil {
				return nil
			}
			mu.Lock()
			n++
			id := "job_" + strings.Repeat("x", n)
			mu.Unlock()
			go then()
			if err := s.Send(&workerpb.StreamLifecycleResponse{RequestId: m.RequestId, Acked: int32(len(m.Acks)), Jobs: []*workerpb.FetchBatchJob{job(id)}}); err != nil {
				return err
			}
		}
	}
	return stream, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// Whenever the context of a frame ends, the caller has its jobs or they return to their queues.
func TestStreamLosesNoJob(t *testing.T) {
	t.Parallel()
	var cancel context.CancelFunc
	var mu sync.Mutex
	stream, all := leases(func() { mu.Lock(); defer mu.Unlock(); cancel() })
	d := direct(t, stream)
	s := d.client(t).Stream()
	kept := 0
	for range 200 {
		ctx, end := context.WithCancel(t.Context())
		mu.Lock()
		cancel = end
		mu.Unlock()
		out, err := s.Do(ctx, Frame{Fetch: &api.FetchRequest{Queues: []string{"q"}}})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		kept += len(out.Jobs)
		end()
	}
	if _, err := s.Do(t.Context(), Frame{}); err != nil { // this response comes after all earlier ones
		t.Fatal(err)
	}
	s.Close()
	if got := kept + 1 + len(d.back); got != all() {
		t.Errorf("of %d jobs %d were kept and %d came back", all(), kept+1, len(d.back))
	}
}

// A worker's acks lose no job either, although their contexts end with its run.
func TestStreamedAckLosesNoJob(t *testing.T) {
	t.Parallel()
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, all := leases(cancel)
		d := direct(t, stream)
		w := &Worker{Client: d.client(t), Stream: true}
		w.Handle("q", untilDone)
		r, err := w.newRun(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		acked := &Job{FetchedJob: leased("job_acked"), slot: true}
		r.transport.ack(ctx, []ackItem{{job: acked, AckItem: api.AckItem{JobID: acked.JobID}}})
		held := r.held()
		r.stop()
		r.transport.close()
		if got := len(held) + len(d.back); got != all() {
			t.Fatalf("of %d jobs %d are held and %d came back", all(), len(held), len(d.back))
		}
		for _, j := range held {
			j.cancel(ErrShutdown)
		}
	}
}

// A server that does not read blocks neither callers whose contexts end nor Close.
func TestStreamLeavesASlowServer(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	d := direct(t, func(*serverStream) error { <-over; return nil })
	defer close(over)
	s := d.client(t).Stream()
	// More than the buffers on the way can hold.
	much := Frame{Enqueues: []api.EnqueueRequest{{Queue: "q", Payload: json.RawMessage(`"` + strings.Repeat("x", 4<<20) + `"`)}}}
	failed := make(chan error, streamWindow)
	for range streamWindow - 1 {
		go func() { _, err := s.Do(t.Context(), much); failed <- err }()
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = s.Do(ctx, Frame{}) }()
	within(t, "the end of a frame whose context has ended", gone)
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	within(t, "the end of Close", closed)
	for range streamWindow - 1 {
		if err := <-failed; err == nil {
			t.Error("a frame was answered")
		}
	}
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	over chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.over }

func (e expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A connection without a response in time is closed for the server too, so that the server knows that the
// jobs it leased there were not delivered.
func TestStreamTellsThatNobodyWaits(t *testing.T) {
	t.Parallel()
	ctx, told := expiring{t.Context(), make(chan struct{})}, make(chan struct{})
	d := direct(t, func(s *serverStream) error {
		defer close(told)
		if err := s.Send(nil); err != nil { // which sends the headers
			return err
		}
		_, _ = s.Receive()
		close(ctx.over)
		_, err := s.Receive()
		return err
	})
	s := d.client(t).Stream()
	defer s.Close()
	if _, err := s.Do(ctx, Frame{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	within(t, "the end of the connection", told)
}

// answers sends the same response to every frame.
func answers(out *workerpb.StreamLifecycleResponse) func(s *serverStream) error {
	return func(s *serverStream) error {
		for {
			m, err := s.Receive()
			if err != nil {
				return nil
			}
			one := proto.CloneOf(out)
			one.RequestId, one.Acked = m.RequestId, one.Acked*int32(len(m.Acks))
			if err := s.Send(one); err != nil {
				return err
			}
		}
	}
}

// A frame follows NOT_LEADER to the leader, and later frames go there at once, with all the headers of
// the stream.
func TestStreamFollowsTheLeader(t *testing.T) {
	t.Parallel()
	leader := direct(t, answers(&workerpb.StreamLifecycleResponse{Acked: 1}))
	follower := direct(t, answers(&workerpb.StreamLifecycleResponse{Error: "NOT_LEADER", LeaderAddr: leader.url + "/"}))
	c, err := New(follower.url, "key", WithNamespace("ns"))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Stream()
	defer s.Close()
	for range 3 {
		if out, err := s.Do(t.Context(), Frame{Acks: []api.AckItem{{JobID: "job_1"}, {JobID: "job_2"}}}); err != nil || out.Acked != 2 {
			t.Errorf("%+v, %v", out, err)
		}
	}
	if n := len(follower.opened()); n != 1 {
		t.Errorf("the follower was asked over %d connections", n)
	}
	heard := leader.opened()
	if len(heard) != 1 {
		t.Fatalf("the leader was asked over %d connections", len(heard))
	}
	for name, want := range map[string]string{"Authorization": "Bearer key", api.NamespaceHeader: "ns", "X-Corvo-Client-Name": "corvo-go"} {
		if got := heard[0].Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// The stream does not follow nodes that name each other for ever, nor an address that is no URL, and it
// does not send the key without TLS.
func TestStreamFollowsNotBlindly(t *testing.T) {
	t.Parallel()
	var one, other *director
	notLeader := func(leader **director) func(s *serverStream) error {
		return func(s *serverStream) error {
			return answers(&workerpb.StreamLifecycleResponse{Error: "NOT_LEADER", LeaderAddr: (*leader).url})(s)
		}
	}
	one, other = direct(t, notLeader(&other)), direct(t, notLeader(&one))
	s := one.client(t).Stream()
	defer s.Close()
	if _, err := s.Do(t.Context(), Frame{}); api.CodeOf(err) != api.LeaderUnavailable {
		t.Errorf("after a round: %v", err)
	}
	if n := len(one.opened()) + len(other.opened()); n != maxRedirects+1 {
		t.Errorf("%d connections were opened", n)
	}
	for _, leader := range []string{"", "nowhere", "ftp://there"} {
		d := direct(t, answers(&workerpb.StreamLifecycleResponse{Error: "NOT_LEADER", LeaderAddr: leader}))
		s := d.client(t).Stream()
		defer s.Close()
		if _, err := s.Do(t.Context(), Frame{}); api.CodeOf(err) != api.LeaderUnavailable {
			t.Errorf("%q leads: %v", leader, err)
		}
	}
	secure, err := New("https://corvo.example", "key")
	if err != nil {
		t.Fatal(err)
	}
	s = secure.Stream()
	if err := s.redirect("http://corvo.example"); err == nil || s.at != "https://corvo.example" {
		t.Errorf("the key goes to %s: %v", s.at, err)
	}
}

// When the leader is gone, the stream returns to its first endpoint.
func TestStreamReturnsFromALeader(t *testing.T) {
	t.Parallel()
	leader := direct(t, func(s *serverStream) error { _, err := s.Receive(); return err })
	first := true
	follower := direct(t, func(s *serverStream) error {
		out := &workerpb.StreamLifecycleResponse{Acked: 1}
		if first {
			first, out = false, &workerpb.StreamLifecycleResponse{Error: "NOT_LEADER", LeaderAddr: leader.url}
		}
		return answers(out)(s)
	})
	s := follower.client(t).Stream()
	defer s.Close()
	acks := Frame{Acks: []api.AckItem{{JobID: "job_1"}}}
	if _, err := s.Do(t.Context(), acks); err == nil {
		t.Error("a leader that hangs up has answered")
	}
	if out, err := s.Do(t.Context(), acks); err != nil || out.Acked != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Close also ends frames that wait at a node which the stream has left, and returns the jobs that they
// fetch there.
func TestStreamClosesWhatItTurnedFrom(t *testing.T) {
	t.Parallel()
	leader := direct(t, answers(&workerpb.StreamLifecycleResponse{Acked: 1}))
	came, late := make(chan struct{}), make(chan struct{})
	before := direct(t, func(s *serverStream) error {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		close(came)
		<-late
		return s.Send(&workerpb.StreamLifecycleResponse{RequestId: m.RequestId, Jobs: []*workerpb.FetchBatchJob{job("job_1")}})
	})
	s := before.client(t).Stream()
	failed := make(chan error, 1)
	go func() {
		_, err := s.Do(t.Context(), Frame{Fetch: &api.FetchRequest{Queues: []string{"q"}}})
		failed <- err
	}()
	within(t, "the frame", came)
	if err := s.redirect(leader.url); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Do(t.Context(), Frame{Acks: []api.AckItem{{JobID: "job_2"}}}); err != nil || out.Acked != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	if err := <-failed; !errors.Is(err, errClosed) {
		t.Errorf("the frame that waits: %v", err)
	}
	close(late)
	within(t, "the end of Close", closed)
	if len(before.back) != 1 {
		t.Errorf("%v came back", before.back)
	}
}

// A proxy that buffers a stream until its end costs a worker time but no job: the worker acks without it.
func TestWorkerWithoutAnswersOverItsStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork("job_1", "job_2", "job_3", "job_4") // which reads a request to its end
		stop := c.runs(t, &Worker{Stream: true, Concurrency: 1}, func(context.Context, *Job) error { return nil })
		time.Sleep(streamTries*DefaultTimeout + time.Second)
		stop()
		acks := c.of("ack")
		if len(acks) != 4 {
			t.Fatalf("%d of 4 jobs are acked", len(acks))
		}
		for i, ack := range acks {
			if i < streamTries && ack.at < time.Duration(i+1)*DefaultTimeout || ack.at > time.Duration(min(i+1, streamTries))*DefaultTimeout+time.Second {
				t.Errorf("ack %d comes after %v", i, ack.at)
			}
		}
	})
}
