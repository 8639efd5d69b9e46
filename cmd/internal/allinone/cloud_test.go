package allinone

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// testTimeout bounds a test. It is generous, because disks of shared machines stall.
const testTimeout = 4 * time.Minute

// start runs a whole cloud until the end of the test.
func start(t testing.TB, tracer trace.TracerProvider) *Cloud {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	c, err := Open(ctx, Config{
		DataDir:  t.TempDir(),
		Listener: listener,
		Version:  "test",
		Tracer:   tracer,
		Logger:   slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func (c *Cloud) client(t *testing.T, key string, opts ...client.Option) *client.Client {
	t.Helper()
	made, err := client.New(c.Endpoint, key, append([]client.Option{client.WithRetries(0)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func (c *Cloud) cloud(t *testing.T) *client.Cloud {
	t.Helper()
	made, err := client.NewCloud(c.Endpoint, c.Access.CloudToken, client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

// namespace creates a namespace and a key, and uses both at once and without a retry, because all that the
// control plane reports as done must work.
func (c *Cloud) namespace(t *testing.T, name string) (id string, key api.CloudKey, tenant *client.Client) {
	t.Helper()
	ctx, cloud := t.Context(), c.cloud(t)
	op, err := cloud.CreateNamespace(ctx, demo, api.CreateNamespaceRequest{Name: name})
	if err == nil {
		op, err = cloud.WaitOperation(ctx, op.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err = cloud.CreateNamespaceKey(ctx, op.Resource.ID, api.CreateCloudKeyRequest{
		CreateKeyRequest: api.CreateKeyRequest{Name: "test", Roles: []string{"admin"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tenant = c.client(t, key.APIKey)
	if _, err := tenant.Enqueue(ctx, api.EnqueueRequest{Queue: "first"}); err != nil {
		t.Fatalf("the first request of namespace %s: %v", name, err)
	}
	return op.Resource.ID, key, tenant
}

func TestWhatIsCreatedWorksAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for _, name := range []string{"a", "b", "c"} {
		c.namespace(t, name)
	}
	// A cloud token gives access to the data plane of every namespace of its organisation.
	queues, err := c.client(t, c.Access.CloudToken, client.WithNamespace("b")).Queues(t.Context(), client.Read{})
	if err != nil || len(queues) != 1 || queues[0].Enqueued != 1 {
		t.Errorf("namespace b by the cloud token: %+v, %v", queues, err)
	}
}

// revokedWithin is how long a revoked key may still give access.
const revokedWithin = 2 * time.Second

// revocationTries is the number of times that a test measures a promise. The promise concerns the cloud, not a
// machine that stands still, so one try must keep it.
const revocationTries = 8

func TestARevokedKeyStopsWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for i := range revocationTries {
		refused, ended := revoke(t, c, fmt.Sprint("n", i))
		t.Logf("refused after %v, the waiting poll after %v", refused, ended)
		if refused < revokedWithin && ended < revokedWithin {
			return
		}
	}
	t.Errorf("a revoked key is not stopped within %v", revokedWithin)
}

// revoke measures how long after the revocation of a key the cloud refuses it, and ends a fetch that waits
// with it.
func revoke(t *testing.T, c *Cloud, namespace string) (refused, ended time.Duration) {
	t.Helper()
	id, key, tenant := c.namespace(t, namespace)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	parked := make(chan error, 1)
	go func() {
		_, err := tenant.Fetch(ctx, api.FetchRequest{Queues: []string{"none"}, WorkerID: "w", Timeout: ptr(60)})
		parked <- err
	}()
	if err := c.cloud(t).RevokeNamespaceKey(ctx, id, key.ID, 0); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	for {
		_, err := tenant.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
		if api.CodeOf(err) == api.Unauthorized {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the key goes on working: %v", err)
		}
	}
	refused = time.Since(revoked)
	if err := <-parked; api.CodeOf(err) != api.Unauthorized {
		t.Errorf("the poll that waited with the key ended with %v", err)
	}
	return refused, time.Since(revoked)
}

// Two namespaces of one cloud, reached through the gateway, share no names, ids or counts. The server's own
// tests send hostile requests.
func TestNamespacesDoNotMeet(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	ctx := t.Context()
	idA, _, a := c.namespace(t, "a")
	_, _, b := c.namespace(t, "b")
	made, err := a.Enqueue(ctx, api.EnqueueRequest{Queue: "shared", Payload: []byte(`{"secret":"of-a"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Job(ctx, made.JobID, client.Read{}); api.CodeOf(err) != api.NotFound {
		t.Errorf("b reads a's job: %v", err)
	}
	if _, err := b.Enqueue(ctx, api.EnqueueRequest{Queue: "shared"}); err != nil {
		t.Fatal(err)
	}
	for name, tenant := range map[string]*client.Client{"a": a, "b": b} {
		queue, err := tenant.Queue(ctx, "shared", client.Read{})
		if err != nil || queue.Enqueued != 1 {
			t.Errorf("%s counts %d jobs of its one (%v)", name, queue.Enqueued, err)
		}
	}
	spoof := c.client(t, c.Access.APIKey, client.WithNamespace(idA))
	if _, err := spoof.Queues(ctx, client.Read{}); api.CodeOf(err) != api.Forbidden {
		t.Errorf("demo's key with the header of a: %v", err)
	}
}

func ptr[T any](v T) *T { return &v }
