package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestErrorsSayTheirCodeOnce checks that an error of the RPC has its code once, whether the gateway, the
// authenticator of the host, or a handler refuses the call.
func TestErrorsSayTheirCodeOnce(t *testing.T) {
	t.Parallel()
	refusal := api.Errorf(api.Forbidden, "no")
	inside := connect.NewUnaryHandler(rpc.Prefix+"Enqueue", func(context.Context, *connect.Request[workerpb.EnqueueRequest]) (*connect.Response[workerpb.EnqueueResponse], error) {
		return nil, rpc.Error(refusal)
	})
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	w := newTown(t, ok)
	host := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == rpc.Prefix+"Enqueue" {
			inside.ServeHTTP(w, r)
			return
		}
		rpc.Refuse(w, r, refusal)
	}))
	host.Config.Protocols = both
	host.Start()
	t.Cleanup(host.Close)
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.put("ns_a", func(d *fleet.Doc) { d.Members = memberAt(host.URL, 1) })
	w.settle()
	front := httptest.NewUnstartedServer(w.gateway)
	front.Config.Protocols = both
	front.Start()
	t.Cleanup(front.Close)
	two := new(http.Protocols)
	two.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: two}
	t.Cleanup(transport.CloseIdleConnections)
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(),
	} {
		client := workerpbconnect.NewWorkerServiceClient(&http.Client{Transport: transport}, front.URL, protocol)
		check := func(what string, err error, want api.Code) {
			t.Helper()
			told := new(connect.Error)
			if !errors.As(err, &told) || !slices.Equal(told.Meta().Values(rpc.CodeHeader), []string{string(want)}) {
				t.Errorf("%s, %s: %v with %v, want %s", name, what, err, told.Meta(), want)
			}
		}
		_, err := client.Enqueue(t.Context(), connect.NewRequest(&workerpb.EnqueueRequest{}))
		check("at the gateway", err, api.Unauthorized)
		enqueue, fetch := connect.NewRequest(&workerpb.EnqueueRequest{}), connect.NewRequest(&workerpb.FetchRequest{})
		enqueue.Header().Set("X-Api-Key", key)
		fetch.Header().Set("X-Api-Key", key)
		_, err = client.Fetch(t.Context(), fetch)
		check("by the host's authenticator", err, api.Forbidden)
		_, err = client.Enqueue(t.Context(), enqueue)
		check("behind it", err, api.Forbidden)
	}
}
