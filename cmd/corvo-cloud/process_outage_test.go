package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
)

// startDirectHost starts the host without a relay, so that a gateway learns from its connections that the host is away.
// A restarted host has another address.
func (p *parts) startDirectHost() {
	p.t.Helper()
	p.host = start(p.t, "the host listens on", "host", "--bind", "127.0.0.1:0", "--raft-bind", "127.0.0.1:0", "--fleet-root", p.root,
		"--data-dir", filepath.Join(p.dir, "host"), "--control-plane", secure(p.control), "--credential-file", p.hostCredential)
}

// TestNoRequestFailsWhilePartsRestart sends requests through two gateways, by clients that never repeat a request. It
// kills the control plane and starts it again, and then shuts the host down and starts it again. No request fails.
func TestNoRequestFailsWhilePartsRestart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p := newParts(t)
	p.startDirectHost()
	org, err := p.operator.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	tenant := p.newTenant(ctx, org.ID, "a")
	made := p.newKey(ctx, tenant.id, "load", "admin")
	load := &outageLoad{t: t}
	working, stop := context.WithCancel(ctx)
	for _, name := range []string{"gateway-1", "gateway-2"} {
		if name != "gateway-1" {
			p.gatewayCredential = p.register("gateway", name)
		}
		p.gatewayDir = filepath.Join(p.dir, name)
		p.startGateway("--host-wait", "1m") // this machine may be slow
		for n := range 2 {
			c := newClient(t, "http://"+listening(p.gateway), made.APIKey)
			eventually(t, ctx, "the gateway has the documents", func() bool { _, err := c.Queues(ctx, client.Read{}); return err == nil })
			load.work(working, fmt.Sprintf("%s-%d", name, n), func(queue string) error { return round(working, c, queue) })
		}
		calls := newCalls(t, "http://"+listening(p.gateway))
		load.work(working, name+"-rpc", func(queue string) error { return roundOfCalls(working, calls, made.APIKey, queue) })
	}
	defer load.all.Wait()
	defer stop()
	load.progress(ctx, "at first")
	p.server.Kill(t)
	load.progress(ctx, "without the control plane")
	p.startServer()
	load.progress(ctx, "with the control plane again")
	if err := p.host.Terminate(t); err != nil {
		t.Errorf("the host did not shut down in order: %v", err)
	}
	p.startDirectHost()
	load.progress(ctx, "after the restart of the host")
}

// outageLoad is a set of workers that never repeat a request, each with a queue of its own.
type outageLoad struct {
	t      *testing.T
	all    sync.WaitGroup
	rounds []*atomic.Int64

	mu      sync.Mutex
	slowest time.Duration // of a job's life since the last progress
}

// work takes jobs through their lives until ctx ends or a request fails.
func (l *outageLoad) work(ctx context.Context, queue string, round func(queue string) error) {
	rounds := new(atomic.Int64)
	l.rounds = append(l.rounds, rounds)
	l.all.Go(func() {
		for ctx.Err() == nil {
			begun := time.Now()
			if err := round(queue); err != nil && ctx.Err() == nil {
				l.t.Errorf("%s, after %v: %v", queue, time.Since(begun), err)
				rounds.Store(math.MaxInt64) // so that nobody waits for this worker
				return
			}
			rounds.Add(1)
			l.mu.Lock()
			l.slowest = max(l.slowest, time.Since(begun))
			l.mu.Unlock()
		}
	})
}

// round takes one job through its life.
func round(ctx context.Context, c *client.Client, queue string) error {
	made, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: queue})
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	for {
		job, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{queue}, WorkerID: "w"})
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if job == nil { // the host shut down
			continue
		}
		if err := c.Ack(ctx, job.JobID, api.AckRequest{LeaseToken: job.LeaseToken}); err != nil {
			return fmt.Errorf("ack: %w", err)
		}
		if job.JobID != made.JobID {
			return fmt.Errorf("fetched %s, enqueued %s", job.JobID, made.JobID)
		}
		return nil
	}
}

// newCalls returns a client of the RPC, which repeats nothing.
func newCalls(t *testing.T, endpoint string) workerpbconnect.WorkerServiceClient {
	two := new(http.Protocols)
	two.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: two}
	t.Cleanup(transport.CloseIdleConnections)
	return workerpbconnect.NewWorkerServiceClient(&http.Client{Transport: transport}, endpoint)
}

// roundOfCalls takes one job through its life by the RPC.
func roundOfCalls(ctx context.Context, c workerpbconnect.WorkerServiceClient, key, queue string) error {
	made, err := c.Enqueue(ctx, withKey(&workerpb.EnqueueRequest{Queue: queue}, key))
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	for {
		job, err := c.Fetch(ctx, withKey(&workerpb.FetchRequest{Queues: []string{queue}, WorkerId: "w"}, key))
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if job.Msg.JobId == "" { // the host shut down
			continue
		}
		if _, err := c.Ack(ctx, withKey(&workerpb.AckRequest{JobId: job.Msg.JobId, LeaseToken: job.Msg.LeaseToken}, key)); err != nil {
			return fmt.Errorf("ack: %w", err)
		}
		if job.Msg.JobId != made.Msg.JobId {
			return fmt.Errorf("fetched %s, enqueued %s", job.Msg.JobId, made.Msg.JobId)
		}
		return nil
	}
}

func withKey[T any](m *T, key string) *connect.Request[T] {
	r := connect.NewRequest(m)
	r.Header().Set("Authorization", "Bearer "+key)
	return r
}

// progress waits until each worker has taken some more jobs through their lives.
func (l *outageLoad) progress(ctx context.Context, when string) {
	l.t.Helper()
	for _, rounds := range l.rounds {
		least := min(rounds.Load(), math.MaxInt64-10) + 10
		eventually(l.t, ctx, "jobs "+when, func() bool { return rounds.Load() >= least })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Logf("%s: the slowest job took %v", when, l.slowest)
	l.slowest = 0
}
