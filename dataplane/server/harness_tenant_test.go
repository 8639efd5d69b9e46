package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// directoryAuth authenticates by the directory, as a host of the cloud does, but without a gateway.
type directoryAuth struct{ *fleet.Directory }

func (d directoryAuth) Authenticate(r *http.Request) (tenancy.Principal, error) {
	who, _, err := d.Directory.Authenticate(serve.Credential(r), r.Header.Get(api.NamespaceHeader), time.Now())
	return who, err
}

func (d directoryAuth) Used(string, time.Time) {}

func (d directoryAuth) Ready() error { return nil }

// tenant is a namespace with data of its own. No request of another tenant contains its secrets, so no answer
// to another tenant may contain them either.
type tenant struct {
	t      testing.TB
	server *server.Server
	cell   *cell.Cell
	ns     tenancy.NamespaceID
	key    string // with all rights
	keyID  string
	secret string
	queue  string
	values []string // values that another tenant may know: ids, names, positions
	token  string   // of a lease
	index  string   // a Corvo-Index
	shared string   // an Idempotency-Key that others use too
}

// openTenants starts a server with two filled namespaces. change may alter its configuration.
func openTenants(t *testing.T, change func(*server.Config)) (a, b *tenant) {
	t.Helper()
	ctx, logger := context.Background(), slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	h, err := host.Open(host.Config{DataDir: t.TempDir(), NodeID: "n1", Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(ctx); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	directory := fleet.NewDirectory()
	// A position of another namespace never comes, so the wait is short.
	cfg := server.Config{Host: h, Authenticator: directoryAuth{directory}, ProposeTimeout: time.Minute, ReadWait: 20 * time.Millisecond, EventHeartbeat: server.TestHeartbeat, Logger: logger}
	if change != nil {
		change(&cfg)
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var both []*tenant
	for n, name := range []string{"a", "b"} {
		v := &tenant{t: t, server: s, ns: tenancy.NamespaceID("ns_" + name), secret: "secret-of-" + name, queue: "queue-of-" + name, shared: "shared-key"}
		v.register(directory, fleet.Doc{Number: int64(n + 1), Name: "name-" + name})
		if err := add(ctx, h, v.ns); err != nil {
			t.Fatal(err)
		}
		if v.cell, err = home(h, v.ns); err != nil {
			t.Fatal(err)
		}
		v.fill(7 + 4*n)
		both = append(both, v)
	}
	return both[0], both[1]
}

// register puts the tenant's namespace into a directory, with a key of its own.
func (v *tenant) register(directory *fleet.Directory, d fleet.Doc) {
	v.t.Helper()
	key, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		v.t.Fatal(err)
	}
	v.key, v.keyID = key, id
	d.Namespace, d.Org, d.Generation, d.Desired = string(v.ns), "org", 1, fleet.Open
	d.Keys = []fleet.Key{{ID: id, Name: v.secret, Roles: []string{string(tenancy.Admin)}, Hash: hash[:]}}
	directory.Put(d)
}

// ask sends a request without the network.
func (v *tenant) ask(method, path, body string, header ...string) answer {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+v.key)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	w := serveOnce(v.server, r)
	return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
}

// must sends a request that must succeed.
func (v *tenant) must(into any, method, path, body string, header ...string) answer {
	v.t.Helper()
	var a answer
	eventually(v.t, "the view of a busy machine follows", func() bool {
		a = v.ask(method, path, body, header...)
		return !bytes.Contains(a.body, []byte(api.ViewBehind))
	})
	if a.status < 200 || a.status > 299 {
		v.t.Fatalf("%s %s %s: %d %s", method, path, body, a.status, a.body)
	}
	if into != nil {
		if err := json.Unmarshal(a.body, into); err != nil {
			v.t.Fatal(err)
		}
	}
	return a
}

// fill creates jobs in many states with secrets in every field, and the given number of waiting jobs.
func (v *tenant) fill(more int) {
	v.t.Helper()
	document := fmt.Sprintf(`"payload":{"x":"%[1]s"},"tags":{"t":"%[1]s"},"headers":{"h":"%[1]s"},"checkpoint":"%[1]s","retry_base_delay":"1h"`, v.secret)
	enqueue := func(more string) string {
		var made api.EnqueueResponse
		v.must(&made, "POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,%s%s}`, v.queue, document, more))
		v.values = append(v.values, made.JobID)
		return made.JobID
	}
	fetch := func() (f api.FetchedJob) {
		v.must(&f, "POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"timeout":0,"lease_duration":3600,"worker_id":%q,"hostname":%q}`, v.queue, v.secret, v.secret))
		return f
	}
	enqueue("")
	done := fetch()
	v.must(nil, "POST", "/api/v1/ack/"+done.JobID, fmt.Sprintf(`{"lease_token":%q,"result":%q}`, done.LeaseToken, v.secret))
	for _, retries := range []string{`,"max_retries":1`, `,"max_retries":5`} { // dead, retrying
		enqueue(retries)
		f := fetch()
		v.must(nil, "POST", "/api/v1/fail/"+f.JobID, fmt.Sprintf(`{"lease_token":%q,"error":%q,"backtrace":%q}`, f.LeaseToken, v.secret, v.secret))
	}
	enqueue("")
	held := fetch()
	v.token = held.LeaseToken
	v.must(nil, "POST", "/api/v1/heartbeat", fmt.Sprintf(`{"jobs":{%q:{"lease_token":%q,"lease_duration":3600,"progress":%q}}}`, held.JobID, held.LeaseToken, v.secret))
	enqueue(fmt.Sprintf(`,"scheduled_at":%q`, time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)))
	for range more {
		enqueue("")
	}
	var batch api.EnqueueBatchResponse
	v.must(&batch, "POST", "/api/v1/enqueue/batch", fmt.Sprintf(`{"jobs":[{"queue":"batched"}],"batch":{"open":true,"callback_queue":%q,"callback_payload":{"x":%q}}}`, v.queue, v.secret))
	v.values = append(v.values, batch.BatchID)
	var bulk api.BulkStarted
	v.must(&bulk, "POST", "/api/v1/jobs/bulk", fmt.Sprintf(`{"action":"retry","async":true,"filter":{"queue":%q}}`, v.queue))
	v.values = append(v.values, bulk.BulkOperationID)
	a := v.must(nil, "POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,%s}`, "idempotent", document), "Idempotency-Key: "+v.shared)
	v.index = a.header.Get(server.IndexHeader)
	v.must(nil, "POST", "/api/v1/fetch", `{"queues":["idempotent"],"timeout":0,"lease_duration":3600}`, "Idempotency-Key: fetch-"+v.shared)
	// A key in the store gives no access on a host; it is data like any other.
	_, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		v.t.Fatal(err)
	}
	record := convert.ToKeyRecord(tenancy.Key{ID: id, Name: v.secret, Roles: []tenancy.Role{tenancy.Admin}, Hash: hash, Enabled: true})
	if _, _, err := cell.Propose[*op.CreateKeyResult](context.Background(), v.cell, &op.CreateKey{Meta: &op.Meta{Principal: "test"}, Key: record}); err != nil {
		v.t.Fatal(err)
	}
	var page api.SearchResponse
	v.caughtUp()
	v.must(&page, "POST", "/api/v1/jobs/search", `{"limit":2}`)
	v.values = append(v.values, v.queue, v.token, page.Cursor, v.index, id, v.keyID, string(v.ns), string(v.ns)+"/"+v.queue, "../"+string(v.ns))
}
