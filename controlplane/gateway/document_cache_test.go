package gateway

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy/keyring"
)

// keptIn returns a town whose gateway stores its documents in a directory, a valid key, and a key that was
// revoked.
func keptIn(t *testing.T, dir string) (w *town, key, revoked string) {
	t.Helper()
	w = newTown(t, ok, func(c *Config) { c.DataDir = dir })
	revoked = w.key(keyring.Namespace, time.Time{}, "ns_a")
	key = w.key(keyring.Namespace, time.Time{}, "ns_a")
	w.put("ns_a", func(d *fleet.Doc) { d.Keys = d.Keys[1:] })
	w.settle()
	return w, key, revoked
}

// TestServesAfterARestart checks that a gateway that starts while the control plane is down serves with
// the documents of the last run, revocations included, and continues from there.
func TestServesAfterARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gateway")
	w, key, revoked := keptIn(t, dir)
	w.plane.SetDown(true)
	w.stop()
	w.start(func(c *Config) { c.DataDir = dir })
	// A key that is in no document cannot be judged while the control plane is away: it may
	// be new.
	for k, want := range map[string]int{key: 200, revoked: 503} {
		if got := w.send("GET", "/api/v1/queues", k, ""); got.StatusCode != want {
			t.Errorf("%d %s, want %d", got.StatusCode, got.body, want)
		}
	}
	if got := w.send("GET", "/readyz", "", ""); got.StatusCode != 200 || !strings.Contains(got.body, "serving by documents of") || !strings.Contains(got.body, "168h") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if _, err := New(w.gateway.config); err == nil || !strings.Contains(err.Error(), durable.ErrInUse.Error()) {
		t.Errorf("a second gateway takes the directory: %v", err)
	}
	w.plane.SetDown(false)
	fleettest.Eventually(t, "it follows again", w.gateway.member.Connected)
	fleettest.Eventually(t, "the revoked key is refused", func() bool {
		return w.send("GET", "/api/v1/queues", revoked, "").StatusCode == 401
	})
	late := w.key(keyring.Namespace, time.Time{}, "ns_a")
	if got := w.send("GET", "/api/v1/queues", late, ""); got.StatusCode != 200 {
		t.Errorf("a key of after the outage: %d %s", got.StatusCode, got.body)
	}
	if got := w.send("GET", "/readyz", "", ""); !strings.Contains(got.body, `"control_plane":"yes"`) || !strings.Contains(got.body, `"documents_kept":"yes"`) {
		t.Errorf("%s", got.body)
	}
}

// TestServesByADocumentOfAnEarlierVersion checks that the gateway takes a document that names one host instead of a list
// of members, stores it as it was signed, and serves by it after a restart.
func TestServesByADocumentOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gateway")
	w, key, _ := keptIn(t, dir)
	d := w.docs["ns_a"]
	keys, err := json.Marshal(d.Keys)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"number":%d,"namespace":"ns_a","name":"mail","org":"org_a","generation":1,"desired":"open",`+
		`"host":"host_1","address":"%s","store":"store_1","ready":true,"keys":%s}`, d.Number+1, w.host.URL, keys)
	w.plane.PutText(text)
	fleettest.Eventually(t, "the gateway has the document", func() bool { return w.gateway.member.Number() > d.Number })
	w.plane.SetDown(true)
	w.stop()
	if file, err := os.ReadFile(filepath.Join(dir, CatalogueFile)); err != nil || !strings.Contains(string(file), base64.StdEncoding.EncodeToString([]byte(text))) {
		t.Fatalf("the catalogue lacks the document: %v\n%s", err, file)
	}
	w.start(func(c *Config) { c.DataDir = dir })
	if got := w.send("GET", "/api/v1/queues", key, ""); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestFilesThatCannotBeUsed checks that a gateway whose files are missing, damaged, old or another fleet's
// serves nothing until the control plane answers. Afterwards the gateway has written files that can be used.
func TestFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *testing.T, w *town, dir string)
		want string
	}{
		"the catalogue is missing": {func(t *testing.T, _ *town, dir string) { remove(t, dir, CatalogueFile) }, "an old copy"},
		"the session is missing":   {func(t *testing.T, _ *town, dir string) { remove(t, dir, SessionFile) }, "no session"},
		"the catalogue is empty": {func(t *testing.T, _ *town, dir string) {
			edit(t, dir, CatalogueFile, func(b []byte) []byte { return nil })
		}, "empty or damaged"},
		"the catalogue is cut short": {func(t *testing.T, _ *town, dir string) {
			edit(t, dir, CatalogueFile, func(b []byte) []byte { return b[:len(b)-10] })
		}, "an old copy"},
		"the catalogue is damaged": {func(t *testing.T, _ *town, dir string) {
			edit(t, dir, CatalogueFile, func(b []byte) []byte { b[20] ^= 1; return b })
		}, "checksum"},
		"the session is cut short": {func(t *testing.T, _ *town, dir string) {
			edit(t, dir, SessionFile, func(b []byte) []byte { return b[:len(b)/2] })
		}, "damaged"},
		"of another fleet": {func(t *testing.T, w *town, _ string) {
			w.credential = w.plane.Register("gw_2", keyring.Gateway)
		}, "another fleet"},
		"older than what was known": {func(t *testing.T, w *town, dir string) {
			old := read(t, dir, CatalogueFile)
			w.start(func(c *Config) { c.DataDir = dir })
			w.key(keyring.Namespace, time.Time{}, "ns_a")
			w.stop()
			edit(t, dir, CatalogueFile, func([]byte) []byte { return old })
		}, "an old copy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "gateway")
			w, key, _ := keptIn(t, dir)
			w.stop()
			c.harm(t, w, dir)
			w.plane.SetDown(true)
			w.start(func(c *Config) { c.DataDir = dir })
			if err := w.gateway.cache.refused; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused because %v, want %q", err, c.want)
			}
			for _, path := range []string{"/api/v1/queues", "/readyz"} {
				if got := w.send("GET", path, key, ""); got.StatusCode != 503 || !strings.Contains(got.body, "cannot be used") {
					t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
				}
			}
			w.plane.SetDown(false)
			fleettest.Eventually(t, "it has heard", func() bool { return w.gateway.Ready() == nil })
			if got := w.send("GET", "/api/v1/queues", key, ""); got.StatusCode != 200 {
				t.Errorf("with the control plane: %d %s", got.StatusCode, got.body)
			}
			w.plane.SetDown(true)
			w.stop()
			w.start(func(c *Config) { c.DataDir = dir })
			if got := w.send("GET", "/api/v1/queues", key, ""); got.StatusCode != 200 {
				t.Errorf("by the files that were written anew: %d %s", got.StatusCode, got.body)
			}
		})
	}
}

// TestTheAgeOfDocuments checks that a gateway serves with documents of the age fleet.MaxAge, and refuses
// requests when they are a second older.
func TestTheAgeOfDocuments(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gateway")
	w, key, _ := keptIn(t, dir)
	w.plane.SetDown(true)
	w.stop()
	session, err := fleet.ReadSession(filepath.Join(dir, SessionFile))
	if err != nil {
		t.Fatal(err)
	}
	var ahead atomic.Int64
	w.start(func(c *Config) {
		c.DataDir = dir
		c.Now = func() time.Time { return session.LastHeartbeat.Add(time.Duration(ahead.Load())) }
	})
	ahead.Store(int64(fleet.MaxAge))
	if got := w.send("GET", "/api/v1/queues", key, ""); got.StatusCode != 200 {
		t.Errorf("at the bound: %d %s", got.StatusCode, got.body)
	}
	metrics := func() string {
		answer := httptest.NewRecorder()
		w.gateway.config.Metrics.Handler().ServeHTTP(answer, w.request(t.Context(), "GET", "/metrics", "", ""))
		return answer.Body.String()
	}
	if got := metrics(); !strings.Contains(got, "corvo_gateway_documents_age_seconds 604800") {
		t.Errorf("the metrics do not say the age:\n%s", got)
	}
	ahead.Store(int64(fleet.MaxAge + time.Second))
	for _, path := range []string{"/api/v1/queues", "/readyz"} {
		if got := w.send("GET", path, key, ""); got.StatusCode != 503 || !strings.Contains(got.body, "too old") || !strings.Contains(got.body, "168h0m1s") {
			t.Errorf("%s above the bound: %d %s", path, got.StatusCode, got.body)
		}
	}
}

// TestADiskThatFails checks that a revocation takes effect although the gateway cannot write it to its
// directory, and that the gateway writes the revocation once the directory is back.
func TestADiskThatFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gateway")
	var ahead atomic.Int64
	w := newTown(t, ok, func(c *Config) {
		c.DataDir = dir
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	w.put("ns_a", func(d *fleet.Doc) { d.Keys = nil })
	w.settle()
	if got := w.send("GET", "/api/v1/queues", key, ""); got.code() != api.Unauthorized {
		t.Errorf("a revoked key: %d %s", got.StatusCode, got.body)
	}
	kept := func(want string) func() bool {
		return func() bool { return strings.Contains(w.send("GET", "/readyz", "", "").body, `"documents_kept":"`+want) }
	}
	fleettest.Eventually(t, "readyz says so", kept("no"))
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(saveAgain))
	fleettest.Eventually(t, "it is written", kept("yes"))
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func edit(t *testing.T, dir, name string, change func([]byte) []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), change(read(t, dir, name)), 0o600); err != nil {
		t.Fatal(err)
	}
}
