package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
)

// TestFollowersGoOnAfterAHostRestarts follows the events of a namespace through a gateway by each kind of client, while
// the host shuts down and starts again. Each stream ends in order, the client's next one is served without an error, and
// each follower sees each event once, in order, and no RESET.
func TestFollowersGoOnAfterAHostRestarts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p := newParts(t)
	p.startDirectHost()
	p.startGateway("--host-wait", "1m") // this machine may be slow
	org, err := p.operator.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	tenant := p.newTenant(ctx, org.ID, "a")
	made := p.newKey(ctx, tenant.id, "follower", "admin")
	endpoint := "http://" + listening(p.gateway)
	c := newClient(t, endpoint, made.APIKey)
	var enqueued []string
	enqueue := func() {
		t.Helper()
		for range 5 {
			job, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
			if err != nil {
				t.Fatal(err)
			}
			enqueued = append(enqueued, job.JobID)
		}
	}
	followers := map[string]*follower{}
	var all sync.WaitGroup
	for name, follow := range map[string]func(context.Context, *follower) error{
		"the Go client": func(ctx context.Context, f *follower) error { return f.byClient(ctx, c) },
		"raw SSE":       func(ctx context.Context, f *follower) error { return f.bySSE(ctx, endpoint, made.APIKey) },
		"Subscribe":     func(ctx context.Context, f *follower) error { return f.bySubscribe(ctx, endpoint, made.APIKey) },
	} {
		f := &follower{}
		followers[name] = f
		following, stop := context.WithCancel(ctx)
		defer stop()
		f.stop = stop
		all.Go(func() {
			if err := follow(following, f); err != nil && following.Err() == nil {
				t.Errorf("%s: %v", name, err)
				cancel()
			}
		})
	}
	seen := func(when string) {
		t.Helper()
		for name, f := range followers {
			eventually(t, ctx, name+" sees the jobs "+when, func() bool { return len(f.jobs()) >= len(enqueued) })
		}
	}
	enqueue()
	seen("at first")
	if err := p.host.Terminate(t); err != nil {
		t.Errorf("the host did not shut down in order: %v", err)
	}
	p.startDirectHost()
	enqueue()
	seen("after the restart")
	for _, f := range followers {
		f.stop()
	}
	all.Wait()
	for name, f := range followers {
		if !slices.Equal(f.jobs(), enqueued) || f.reset {
			t.Errorf("%s saw %v, RESET %v, want %v", name, f.jobs(), f.reset, enqueued)
		}
	}
}

// follower collects the jobs of which a client saw an enqueued event.
type follower struct {
	stop  context.CancelFunc
	reset bool

	mu  sync.Mutex
	ids []string
}

func (f *follower) add(kind, job string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch kind {
	case "enqueued":
		f.ids = append(f.ids, job)
	case api.EventReset:
		f.reset = true
	}
}

func (f *follower) jobs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ids)
}

// byClient follows by the Go client, which opens a new stream by itself.
func (f *follower) byClient(ctx context.Context, c *client.Client) error {
	for e, err := range c.Events(ctx, client.EventQuery{After: "0"}) {
		if err != nil {
			return err
		}
		f.add(e.Type, e.JobID)
	}
	return nil
}

// bySSE follows as a browser does. Each of its streams must end in order, and each request must be answered 200.
func (f *follower) bySSE(ctx context.Context, endpoint, key string) error {
	for last := "0"; ; {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/api/v1/events", nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Last-Event-ID", last)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				last = id
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e api.Event
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					return err
				}
				f.add(e.Type, e.JobID)
			}
		}
		answer.Body.Close()
		if err := lines.Err(); err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("the stream ended with %d, %w", answer.StatusCode, err)
		}
	}
}

// bySubscribe follows by the RPC. Each of its streams must end with unavailable.
func (f *follower) bySubscribe(ctx context.Context, endpoint, key string) error {
	two := new(http.Protocols)
	two.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: two}
	defer transport.CloseIdleConnections()
	rpc := workerpbconnect.NewWorkerServiceClient(&http.Client{Transport: transport}, endpoint)
	for cursor := "0"; ; {
		ask := connect.NewRequest(&workerpb.SubscribeRequest{Cursor: cursor})
		ask.Header().Set("Authorization", "Bearer "+key)
		stream, err := rpc.Subscribe(ctx, ask)
		if err != nil {
			return err
		}
		came := false
		for stream.Receive() {
			came = true
			e := stream.Msg()
			f.add(e.Type, e.JobId)
			cursor = e.Cursor
		}
		err = stream.Err()
		if closed := stream.Close(); closed != nil && !errors.Is(closed, io.EOF) && ctx.Err() == nil {
			return closed
		}
		if !came || connect.CodeOf(err) != connect.CodeUnavailable {
			return fmt.Errorf("the stream ended with %w after events: %v", err, came)
		}
	}
}
