package server_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// cuttable is a listener whose connections can be cut.
type cuttable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cuttable) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// streams serves the node with HTTP/1.1 and HTTP/2, as its process does.
func (n *node) streams() (*client.Client, *cuttable) {
	n.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	cut := &cuttable{Listener: l}
	front := &http.Server{Handler: n.server, Protocols: new(http.Protocols)}
	front.Protocols.SetHTTP1(true)
	front.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = front.Serve(cut) }()
	n.t.Cleanup(func() { n.server.Drain(); front.Close(); <-ended })
	c, err := client.New("http://"+l.Addr().String(), n.admin, client.WithRetries(0))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	return c, cut
}

// A stream enqueues, fetches and acks as separate requests would.
func TestClientStream(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, cut := n.streams()
	s := c.Stream()
	defer s.Close()
	made, err := s.Do(t.Context(), client.Frame{Enqueues: []api.EnqueueRequest{
		{Queue: "q", Payload: json.RawMessage(`{"n":1}`), Tags: api.Strings{"a": "b"}, Headers: api.Strings{"h": "v"}, Checkpoint: json.RawMessage(`7`)},
		{Queue: "q", Agent: &api.Agent{MaxIterations: 3, MaxCostUSD: money.Dollar / 10}, Priority: api.High},
	}})
	if err != nil || len(made.JobIDs) != 2 {
		t.Fatalf("%+v, %v", made, err)
	}
	ask := &api.FetchRequest{Queues: []string{"q"}, WorkerID: "w1", LeaseDuration: 30}
	got, err := s.Do(t.Context(), client.Frame{Fetch: ask, Count: 5})
	if err != nil || len(got.Jobs) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	agent, plain := got.Jobs[0], got.Jobs[1]
	equal(t, "the plain job's tag", plain.Tags["a"], "b")
	equal(t, "the plain job's header", plain.Headers["h"], "v")
	wantFields(t, "the plain job", plain, func(want *api.FetchedJob) {
		want.JobID, want.Payload, want.Checkpoint = made.JobIDs[0], json.RawMessage(`{"n":1}`), json.RawMessage("7")
		want.LeaseDuration, want.Attempt, want.MaxRetries = 30, 1, 3
	})
	if agent.Agent == nil {
		t.Fatalf("the agent's job is %+v", agent)
	}
	wantFields(t, "the agent", *agent.Agent, func(want *api.FetchedAgent) {
		want.MaxIterations, want.Iteration, want.MaxCostUSD = 3, 1, money.Dollar/10
	})
	cost := money.Reported(1) // smaller than a double near a dollar can show
	acks := []api.AckItem{
		{JobID: plain.JobID, AckRequest: api.AckRequest{LeaseToken: plain.LeaseToken, Result: json.RawMessage(`{"r":1}`), Usage: &api.ReportedUsage{InputTokens: 5, Model: "m", Provider: "p", CostUSD: &cost}}},
		{JobID: agent.JobID, AckRequest: api.AckRequest{LeaseToken: plain.LeaseToken}},
	}
	done, err := s.Do(t.Context(), client.Frame{Acks: acks})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "acked", done.Acked, 1)
	if len(done.AckErrors) != 1 || done.AckErrors[0].JobID != agent.JobID || done.AckErrors[0].Code != api.LeaseLost {
		t.Errorf("the refused acks are %+v, want %s of %s", done.AckErrors, api.LeaseLost, agent.JobID)
	}
	if j := n.settled(plain.JobID, "completed"); string(j.Result) != `{"r":1}` || money.Reported(j.Usage.CostUSD) != cost {
		t.Errorf("%s, %+v", j.Result, j.Usage)
	}
	if _, err := s.Do(t.Context(), client.Frame{Enqueues: []api.EnqueueRequest{{Queue: "no queue"}}}); api.CodeOf(err) != api.ValidationError {
		t.Errorf("a frame that is wrong: %v", err)
	}
	cut.cut()
	// A frame during the break gets an error, and the next one opens a new connection.
	_, _ = s.Do(t.Context(), client.Frame{Acks: acks[:1]})
	if done, err := s.Do(t.Context(), client.Frame{Acks: acks[:1]}); err != nil || done.Acked != 1 {
		t.Errorf("after the connection was cut: %+v, %v", done, err)
	}
}

// Many callers share a stream, and each gets the answer to its own frame.
func TestClientStreamIsShared(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, _ := n.streams()
	s := c.Stream()
	defer s.Close()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			queue := fmt.Sprint("q", i)
			ask := &api.FetchRequest{Queues: []string{queue}, WorkerID: "w"}
			out, err := s.Do(t.Context(), client.Frame{Enqueues: []api.EnqueueRequest{{Queue: queue}}, Fetch: ask})
			if err != nil {
				t.Errorf("%s: %v", queue, err)
				return
			}
			if len(out.Jobs) != 1 || out.Jobs[0].Queue != queue || out.Jobs[0].JobID != out.JobIDs[0] {
				t.Errorf("%s: %+v, want the job of the same frame", queue, out)
			}
		})
	}
	all.Wait()
}

// A refused stream returns the reason.
func TestClientStreamIsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.admin = n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	c, _ := n.streams()
	s := c.Stream()
	if _, err := s.Do(t.Context(), client.Frame{Enqueues: []api.EnqueueRequest{{Queue: "q"}}}); api.CodeOf(err) != api.Forbidden {
		t.Errorf("%v", err)
	}
	s.Close()
	if _, err := s.Do(t.Context(), client.Frame{}); err == nil {
		t.Error("a closed stream takes a frame")
	}
}
