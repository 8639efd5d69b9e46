package dataplane_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// cloud is a host with the control plane that it follows, and a gateway's access to it.
type cloud struct {
	t          *testing.T
	plane      *fleettest.ControlPlane
	dir        string
	store      string // id of dir
	credential string // the host's
	pass       string // a gateway's service token for hosts
	tune       func(*dataplane.HostConfig)
	spans      *tracetest.SpanRecorder
	logger     *slog.Logger
	host       *dataplane.CloudHost
	front      *httptest.Server
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{t: t, plane: fleettest.New(t), dir: filepath.Join(t.TempDir(), "data"), spans: tracetest.NewSpanRecorder(), logger: slog.New(slog.DiscardHandler)}
	c.makeStore()
	c.credential = c.plane.Register("host_1", keyring.Host)
	c.pass = c.join(http.DefaultClient, keyring.Gateway).HostToken
	t.Cleanup(c.close)
	return c
}

// makeStore makes the host's data directory with the id of its store.
func (c *cloud) makeStore() {
	c.t.Helper()
	err := os.MkdirAll(c.dir, 0o700)
	if err == nil {
		c.store, err = host.OpenStore(c.dir, rand.Reader, 1)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// join registers a member with the control plane, to which the client connects, and returns its service tokens.
func (c *cloud) join(client *http.Client, kind keyring.Kind) (a fleet.JoinAnswer) {
	c.t.Helper()
	r, err := http.NewRequest("POST", c.plane.URL+fleet.JoinPath, strings.NewReader("{}"))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.plane.Register("m_"+string(kind), kind))
	resp, err := client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *cloud) open() {
	c.t.Helper()
	cfg := dataplane.HostConfig{
		DataDir: c.dir, ControlPlane: c.plane.URL, Credential: c.credential,
		Address: "http://127.0.0.1:1", Version: "test", Logger: c.logger,
		Tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(c.spans)),
	}
	if c.tune != nil {
		c.tune(&cfg)
	}
	h, err := dataplane.OpenHost(context.Background(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.host, c.front = h, httptest.NewServer(h.Handler())
}

func (c *cloud) close() {
	if c.host == nil {
		return
	}
	c.host.Drain()
	c.front.Close()
	if err := c.host.Close(context.Background()); err != nil {
		c.t.Errorf("close the host: %v", err)
	}
	c.host = nil
}

// key creates a key with all permissions and returns its text and its form in documents.
func (c *cloud) key(kind keyring.Kind) (string, fleet.Key) {
	c.t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, kind)
	if err != nil {
		c.t.Fatal(err)
	}
	return text, fleet.Key{ID: id, Name: "test", Roles: []string{string(tenancy.Admin)}, Hash: hash[:], CreatedNs: 1}
}

// placed returns the document of a namespace whose only member, the host, may found it.
func (c *cloud) placed(ns string, generation int64, keys ...fleet.Key) fleet.Doc {
	return fleet.Doc{
		Namespace: ns, Name: "name-of-" + ns, Org: "org_1", Generation: generation, Desired: fleet.Open, Epoch: 1, Keys: keys,
		Members: []fleet.GroupMember{{Store: c.store, Host: "host_1", URL: "http://127.0.0.1:1", Role: fleet.Found}},
	}
}

// earlier returns the text of a document as earlier versions wrote it: without a list of members, a role and
// incarnations.
func earlier(t *testing.T, number int64, ns, store string, ready bool, key fleet.Key) string {
	t.Helper()
	text, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"number":%d,"namespace":"%s","name":"name-of-%s","org":"org_1","generation":1,"desired":"open",`+
		`"host":"host_1","address":"http://127.0.0.1:1","store":"%s","ready":%t,"keys":[%s]}`, number, ns, ns, store, ready, text)
}

func (c *cloud) absent(ns string, generation int64) fleet.Doc {
	d := c.placed(ns, generation)
	d.Desired = fleet.Absent
	return d
}

// reported waits until the host has reported the state and generation of a namespace.
func (c *cloud) reported(ns, state string, generation int64) (at fleet.CellReport) {
	c.t.Helper()
	fleettest.Eventually(c.t, fmt.Sprintf("namespace %s is reported %s in generation %d", ns, state, generation), func() bool {
		all := c.plane.Reports()
		if len(all) == 0 {
			return false
		}
		for _, at = range all[len(all)-1].Cells {
			if at.Namespace == ns {
				return at.State == state && at.Generation == generation
			}
		}
		return false
	})
	return at
}

type said struct {
	status int
	body   string
}

// send sends a tenant's request to the host as a gateway would. Headers have the form "Name: value".
func (c *cloud) send(method, path, key, body string, headers ...string) said {
	c.t.Helper()
	r, err := http.NewRequest(method, c.front.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set(fleet.ServiceHeader, c.pass)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Error(err)
		return said{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Error(err)
	}
	return said{resp.StatusCode, string(text)}
}

func (c *cloud) want(status int, method, path, key, body string, headers ...string) string {
	c.t.Helper()
	a := c.send(method, path, key, body, headers...)
	if a.status != status {
		c.t.Errorf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	return a.body
}

func (c *cloud) enqueue(key string) (jobID string) {
	c.t.Helper()
	var made api.EnqueueResponse
	if err := json.Unmarshal([]byte(c.want(201, "POST", "/api/v1/enqueue", key, `{"queue":"q"}`)), &made); err != nil {
		c.t.Fatal(err)
	}
	return made.JobID
}

// left returns the paths below the data directory that contain the word.
func (c *cloud) left(word string) (found []string) {
	c.t.Helper()
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if rest := strings.TrimPrefix(path, c.dir); strings.Contains(rest, word) {
			found = append(found, rest)
		}
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}
