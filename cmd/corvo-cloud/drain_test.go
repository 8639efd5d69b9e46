package main

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
)

// TestStreamsOfAGatewayThatDrains checks that a gateway which shuts down answers the frames it has received
// on its streams and tells the clients in time to go elsewhere. A client opens a stream at the next gateway
// and goes on.
func TestStreamsOfAGatewayThatDrains(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p := startParts(t)
	org, err := p.operator.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	tenant := p.newTenant(ctx, org.ID, "a")
	made := p.newKey(ctx, tenant.id, "raw", "worker")
	two := new(http.Protocols)
	two.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: two}
	defer transport.CloseIdleConnections()
	raws := map[string]*connect.BidiStreamForClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]{}
	for name, options := range map[string][]connect.ClientOption{"connect": nil, "gRPC": {connect.WithGRPC()}} {
		raw := workerpbconnect.NewWorkerServiceClient(&http.Client{Transport: transport}, "http://"+listening(p.gateway), options...).StreamLifecycle(ctx)
		raw.RequestHeader().Set("Authorization", "Bearer "+made.APIKey)
		if err := raw.Send(&workerpb.StreamLifecycleRequest{RequestId: 1, Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}}); err != nil {
			t.Fatal(err)
		}
		if out, err := raw.Receive(); err != nil || len(out.EnqueuedJobIds) != 1 {
			t.Fatalf("%s: %v, %v", name, out, err)
		}
		raws[name] = raw
	}
	stream := tenant.Stream()
	defer stream.Close()
	fetch := func() error {
		out, err := stream.Do(ctx, client.Frame{Fetch: &api.FetchRequest{Queues: []string{"q"}, WorkerID: "w"}})
		if err == nil && len(out.Jobs) != 1 {
			t.Errorf("a frame brought %d jobs, want 1", len(out.Jobs))
		}
		return err
	}
	if err := fetch(); err != nil {
		t.Fatal(err)
	}
	old := p.gateway
	p.gatewayDir = filepath.Join(p.dir, "another") // both gateways run for a moment
	p.startGateway()
	if err := old.Terminate(t); err != nil {
		t.Errorf("the gateway did not shut down in order: %v", err)
	}
	for name, raw := range raws {
		if out, err := raw.Receive(); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%s: the stream ended with %v, %v", name, out, err)
		}
	}
	for err = fetch(); err != nil && ctx.Err() == nil; err = fetch() { // one frame may meet the end of the old stream
		t.Logf("a frame at the end of its stream: %v", err)
	}
	if err != nil {
		t.Errorf("the client has not gone on: %v", err)
	}
}
