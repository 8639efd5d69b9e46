package dataplane_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/agent"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

func TestHostServesWhatItIsTold(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	if a := c.send("GET", "/healthz", "", ""); a.status != 200 {
		t.Errorf("healthz: %d %s", a.status, a.body)
	}
	text, key := c.key(keyring.Namespace)
	token, orgKey := c.key(keyring.Org)
	other, otherKey := c.key(keyring.Namespace)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	d := c.placed("ns_a", 1, key, orgKey)
	d.Trace = parent
	c.plane.Put(d)
	c.plane.Put(c.placed("ns_b", 1, otherKey))
	c.reported("ns_a", fleet.Opened, 1)
	c.reported("ns_b", fleet.Opened, 1)
	c.want(200, "GET", "/readyz", "", "")

	id := c.enqueue(text)
	c.want(200, "GET", "/api/v1/jobs/"+id, text, "")
	c.want(404, "GET", "/api/v1/jobs/"+id, other, "")
	c.want(200, "GET", "/api/v1/jobs/"+id, token, "", "Corvo-Namespace: name-of-ns_a")
	c.want(404, "GET", "/api/v1/jobs/"+id, token, "", "Corvo-Namespace: ns_b") // the token is the organisation's
	c.want(403, "GET", "/api/v1/jobs/"+id, other, "", "Corvo-Namespace: ns_a")
	unknown, _ := c.key(keyring.Namespace)
	for what, a := range map[string]said{
		"an unknown key":            c.send("GET", "/api/v1/queues", unknown, ""),
		"no key":                    c.send("GET", "/api/v1/queues", "", ""),
		"no service token":          c.send("GET", "/api/v1/queues", text, "", fleet.ServiceHeader+": "),
		"a host's service token":    c.send("GET", "/api/v1/queues", text, "", fleet.ServiceHeader+": "+c.join(http.DefaultClient, keyring.Host).Token),
		"a gateway's for the plane": c.send("GET", "/api/v1/queues", text, "", fleet.ServiceHeader+": "+c.join(http.DefaultClient, keyring.Gateway).Token),
		"the key as service token":  c.send("GET", "/api/v1/queues", text, "", fleet.ServiceHeader+": "+text),
	} {
		if a.status != 401 {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}

	for _, route := range []string{"GET /api/v1/auth/keys", "POST /api/v1/auth/keys", "GET /api/v1/auth/keys/" + key.ID, "DELETE /api/v1/auth/keys/" + key.ID} {
		method, path, _ := strings.Cut(route, " ")
		if body := c.want(501, method, path, text, "{}"); !strings.Contains(body, "/cloud/v1/namespaces/ns_a/keys") {
			t.Errorf("%s does not say where the keys are: %s", route, body)
		}
	}
	if body := c.want(200, "GET", "/api/v1/info", "", ""); strings.Contains(body, "auth.keys") {
		t.Errorf("the host says it makes keys: %s", body)
	}
	if body := c.want(200, "GET", "/api/v1/cluster/status", text, ""); strings.Contains(body, `"free"`) || strings.Contains(body, "ns_b") {
		t.Errorf("cluster status: %s", body)
	}
	mine := c.want(200, "GET", "/api/v1/metrics", other, "")
	for _, figure := range []string{telemetry.HTTPRequests.Name, telemetry.DiskFreeBytes.Name, telemetry.EmptyFetches.Name, "process_", "go_", `queue="q"`} {
		if strings.Contains(mine, figure) {
			t.Errorf("a tenant's metrics have %s", figure)
		}
	}
	if !strings.Contains(mine, telemetry.Healthy.Name+" 1") {
		t.Errorf("a tenant's metrics: %s", mine)
	}
	w := httptest.NewRecorder()
	c.host.OperatorMetrics().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if all := w.Body.String(); !strings.Contains(all, telemetry.HTTPRequests.Name) || strings.Contains(all, "ns_a") || strings.Contains(all, `queue="q"`) {
		t.Errorf("the operator's metrics: %s", all)
	}
	c.wasUsed(key.ID, time.Now())
	c.opensIn(parent)
}

// wasUsed waits for the report of a key's last use.
func (c *cloud) wasUsed(id string, about time.Time) {
	c.t.Helper()
	fleettest.Eventually(c.t, "the use of a key is reported", func() bool {
		for _, r := range c.plane.Reports() {
			if at := r.LastUsed[id]; at > about.Add(-time.Hour).Unix() {
				return true
			}
		}
		return false
	})
}

// opensIn checks that the span of a namespace's opening belongs to the operation that caused it.
func (c *cloud) opensIn(parent string) {
	c.t.Helper()
	for _, span := range c.spans.Ended() {
		if span.Name() == telemetry.SpanOpenCell && strings.Contains(parent, span.Parent().SpanID().String()) && strings.Contains(parent, span.SpanContext().TraceID().String()) {
			return
		}
	}
	c.t.Error("no span of an opening is a child of the operation's")
}

// A control plane that is down must not affect any tenant, even if the host restarts meanwhile.
func TestHostServesWithoutTheControlPlane(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	keys := map[string]string{} // namespace -> key
	jobs := map[string]string{}
	for _, ns := range []string{"ns_a", "ns_b"} {
		text, key := c.key(keyring.Namespace)
		c.plane.Put(c.placed(ns, 1, key))
		c.reported(ns, fleet.Opened, 1)
		keys[ns], jobs[ns] = text, c.enqueue(text)
	}
	c.plane.SetDown(true)
	for range 2 {
		c.close()
		c.open()
		for ns, key := range keys {
			c.want(200, "GET", "/api/v1/jobs/"+jobs[ns], key, "")
			c.enqueue(key)
		}
		c.want(200, "GET", "/readyz", "", "")
	}
	joins := c.plane.Joins()
	c.plane.SetDown(false)
	fleettest.Eventually(t, "the host joins again", func() bool { return c.plane.Joins() > joins })
	text, key := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_c", 1, key))
	c.reported("ns_c", fleet.Opened, 1)
	c.enqueue(text)
}

func TestHostThatKnowsNothingLetsNobodyIn(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.plane.SetDown(true)
	c.open()
	text, _ := c.key(keyring.Namespace)
	c.want(503, "GET", "/readyz", "", "")
	c.want(200, "GET", "/healthz", "", "")
	c.want(401, "GET", "/api/v1/queues", text, "")
	c.plane.SetDown(false)
	fleettest.Eventually(t, "it has heard that there is nothing", func() bool { return c.send("GET", "/readyz", "", "").status == 200 })
}

// A controller that missed a later decision must not delete or unlock anything, now or after a restart.
func TestHostRefusesOlderGenerations(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	text, key := c.key(keyring.Namespace)
	stolen, stolenKey := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_a", 3, key))
	c.reported("ns_a", fleet.Opened, 3)
	id := c.enqueue(text)
	c.plane.Put(c.absent("ns_a", 2))
	c.plane.Put(c.placed("ns_a", 2, stolenKey))
	_, after := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_after", 1, after)) // once it is open, the host has handled the earlier documents
	c.reported("ns_after", fleet.Opened, 1)
	for range 2 {
		c.reported("ns_a", fleet.Opened, 3)
		c.want(200, "GET", "/api/v1/jobs/"+id, text, "")
		// After a restart the host cannot know the key until it hears from the control plane.
		fleettest.Eventually(t, "the stolen key is judged", func() bool {
			return c.send("GET", "/api/v1/queues", stolen, "").status != 503
		})
		c.want(401, "GET", "/api/v1/queues", stolen, "")
		c.close()
		c.open()
	}
}

// A namespace that is open on two hosts would split into two.
func TestHostRefusesWhatIsPlacedElsewhere(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	text, key := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_first", 1))
	c.reported("ns_first", fleet.Opened, 1) // so the host follows the control plane
	astray := c.placed("ns_astray", 1, key)
	astray.Members[0].Store, astray.Members[0].Host, astray.Number = "store_2", "host_2", 2
	c.plane.Inject(c.plane.Sign(astray))
	after := c.placed("ns_after", 1)
	after.Number = 3
	c.plane.Inject(c.plane.Sign(after))
	c.reported("ns_after", fleet.Opened, 1)
	for range 2 {
		// After a restart the host cannot know the key until it hears from the control plane.
		fleettest.Eventually(t, "the key is judged", func() bool {
			return c.send("GET", "/api/v1/queues", text, "").status != 503
		})
		c.want(401, "GET", "/api/v1/queues", text, "")
		for _, report := range c.plane.Reports() {
			if len(report.Cells) > 2 {
				t.Fatalf("the host has %+v", report.Cells)
			}
		}
		c.close()
		c.open()
	}
}

// The host deletes every file of a deleted namespace, and no other file.
func TestHostDeletesWhatIsToBeAbsent(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	text, key := c.key(keyring.Namespace)
	kept, keptKey := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_a", 1, key))
	c.plane.Put(c.placed("ns_b", 1, keptKey))
	c.reported("ns_a", fleet.Opened, 1)
	c.reported("ns_b", fleet.Opened, 1)
	id, other := c.enqueue(text), c.enqueue(kept)
	c.plane.Put(c.absent("ns_a", 2))
	c.reported("ns_a", fleet.Gone, 2)
	if left := append(c.left("ns_a"), c.left("trash/")...); len(left) > 0 {
		t.Errorf("of the deleted namespace there is %q", left)
	}
	c.want(401, "GET", "/api/v1/jobs/"+id, text, "")
	c.want(200, "GET", "/api/v1/jobs/"+other, kept, "")
	c.close()
	c.open()
	c.reported("ns_a", fleet.Gone, 2)
	c.plane.Put(c.placed("ns_a", 3, key))
	c.reported("ns_a", fleet.Opened, 3)
	c.want(404, "GET", "/api/v1/jobs/"+id, text, "") // the namespace begins empty
	c.want(200, "GET", "/api/v1/jobs/"+other, kept, "")
}

// The host keeps data that no document names, because it may be the last copy.
func TestHostLeavesStrangersAlone(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	for path, text := range map[string]string{"ns/ns_stranger/0/state/CURRENT": "precious", "ns/not a namespace.bak/x": "too"} {
		path = filepath.Join(c.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := append(c.left("stranger"), c.left("not a")...)
	c.open()
	_, key := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_a", 1, key))
	c.reported("ns_a", fleet.Opened, 1)
	for _, r := range c.plane.Reports() {
		if len(r.Cells) > 1 {
			t.Errorf("reported: %+v", r.Cells)
		}
	}
	if after := append(c.left("stranger"), c.left("not a")...); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("there is %q, there was %q", after, before)
	}
}

// The host reports a namespace that does not open, with the reason, and tries again until it opens.
func TestHostReportsWhatFails(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	inTheWay := filepath.Join(c.dir, "ns", "ns_a")
	if err := os.MkdirAll(filepath.Dir(inTheWay), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.open()
	text, key := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_a", 1, key))
	if at := c.reported("ns_a", fleet.Failed, 1); !strings.Contains(at.Error, "ns_a") {
		t.Errorf("the reason is %q", at.Error)
	}
	if a := c.send("GET", "/api/v1/queues", text, ""); a.status != 503 || !strings.Contains(a.body, `"retryable":true`) {
		t.Errorf("a namespace that is not open: %d %s", a.status, a.body)
	}
	_, bad := c.key(keyring.Namespace)
	c.plane.Put(c.placed("../escape", 1, bad))
	c.reported("../escape", fleet.Failed, 1)
	if found := c.left("escape"); len(found) > 0 {
		t.Errorf("there is %q", found)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	c.reported("ns_a", fleet.Opened, 1)
	c.enqueue(text)
}

// A worker whose key was revoked gets no job and does not keep its connection for the rest of its minute. The
// polls of other workers continue.
func TestRevocationEndsWaitingPolls(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	revoked, revokedKey := c.key(keyring.Namespace)
	good, goodKey := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_a", 1, revokedKey, goodKey))
	c.reported("ns_a", fleet.Opened, 1)
	poll := func(key string) <-chan said {
		out := make(chan said, 1)
		go func() { out <- c.send("POST", "/api/v1/fetch", key, `{"queues":["later"],"timeout":60}`) }()
		return out
	}
	ends, stays := poll(revoked), poll(good)
	parked := telemetry.PollsParked.Name + " 2"
	fleettest.Eventually(t, "both polls wait", func() bool {
		return strings.Contains(c.send("GET", "/api/v1/metrics", good, "").body, parked)
	})
	began := time.Now()
	c.plane.Put(c.placed("ns_a", 1, goodKey))
	if a := <-ends; a.status != 401 || time.Since(began) > 30*time.Second {
		t.Errorf("after %v the revoked poll ends with %d %s", time.Since(began), a.status, a.body)
	}
	t.Logf("the revoked poll ended after %v", time.Since(began))
	select {
	case a := <-stays:
		t.Fatalf("the other poll ended with %d %s", a.status, a.body)
	default:
	}
	c.want(201, "POST", "/api/v1/enqueue", good, `{"queue":"later"}`)
	if a := <-stays; a.status != 200 {
		t.Errorf("the other poll: %d %s", a.status, a.body)
	}

	// The polls of a deleted namespace end, too.
	last := poll(good)
	fleettest.Eventually(t, "the poll waits", func() bool {
		return strings.Contains(c.send("GET", "/api/v1/metrics", good, "").body, telemetry.PollsParked.Name+" 1")
	})
	c.plane.Put(c.absent("ns_a", 2))
	if a := <-last; a.status != 401 && a.status != 503 {
		t.Errorf("a poll of a deleted namespace: %d %s", a.status, a.body)
	}
	c.reported("ns_a", fleet.Gone, 2)
}

// Many namespaces open and close at once. Beyond MaxChanging they wait for each other.
func TestHostOpensAndClosesMany(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	const many = 20
	if many <= agent.MaxChanging {
		t.Fatal("too few to take turns")
	}
	keys := make([]string, many)
	for n := range many {
		var key fleet.Key
		keys[n], key = c.key(keyring.Namespace)
		c.plane.Put(c.placed(fmt.Sprintf("ns_%02d", n), 1, key))
	}
	for n := range many {
		c.reported(fmt.Sprintf("ns_%02d", n), fleet.Opened, 1)
		c.enqueue(keys[n])
	}
	for n := range many {
		c.plane.Put(c.absent(fmt.Sprintf("ns_%02d", n), 2))
	}
	for n := range many {
		c.reported(fmt.Sprintf("ns_%02d", n), fleet.Gone, 2)
	}
	if left := c.left("ns_"); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}

func TestOpenHostRefuses(t *testing.T) {
	t.Parallel()
	good := dataplane.HostConfig{ControlPlane: "http://127.0.0.1:1", Logger: slog.New(slog.DiscardHandler)}
	text, _, _, err := keyring.New(bytes.NewReader(bytes.Repeat([]byte{1}, 4096)), keyring.Host)
	if err != nil {
		t.Fatal(err)
	}
	good.Credential = text
	for what, change := range map[string]func(*dataplane.HostConfig){
		"no control plane": func(c *dataplane.HostConfig) { c.ControlPlane = "" },
		"no credential":    func(c *dataplane.HostConfig) { c.Credential = "" },
		"a broken catalogue": func(c *dataplane.HostConfig) {
			if err := os.WriteFile(filepath.Join(c.DataDir, agent.CatalogueFile), []byte("no catalogue\nat all\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		cfg := good
		cfg.DataDir = t.TempDir()
		change(&cfg)
		if h, err := dataplane.OpenHost(t.Context(), cfg); err == nil {
			t.Errorf("with %s it opens", what)
			h.Close(t.Context())
		}
	}
}
