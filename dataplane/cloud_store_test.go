package dataplane_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/agent"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/tenancy/keyring"
)

// A host opens the namespaces of an earlier version, whose cells have the name that --node-id had given them,
// under the id of its store. It follows the document of an earlier version, and after a restart without the control
// plane it serves by that document, which its catalogue has as it was signed.
func TestHostAdoptsTheCellsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.dir = filepath.Join(t.TempDir(), "earlier") // without the id of a store
	h, err := host.Open(host.Config{DataDir: c.dir, NodeID: "host-1", Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = errors.Join(h.Add(t.Context(), "ns_a", host.Spec{}), h.Ready(t.Context(), "ns_a"), h.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	text, key := c.key(keyring.Namespace)
	was := earlier(t, 1, "ns_a", "", true, key)
	c.plane.PutText(was)
	c.open()
	c.reported("ns_a", fleet.Opened, 1)
	id := c.enqueue(text)
	c.close()
	if file, err := os.ReadFile(filepath.Join(c.dir, agent.CatalogueFile)); err != nil || !strings.Contains(string(file), base64.StdEncoding.EncodeToString([]byte(was))) {
		t.Fatalf("the catalogue lacks the document: %v\n%s", err, file)
	}
	c.plane.SetDown(true)
	c.open()
	c.want(200, "GET", "/api/v1/jobs/"+id, text, "")
	c.enqueue(text)
	c.close()
	node, err := engine.NodeOf(filepath.Join(c.dir, "ns", "ns_a", "0", "raft"))
	if err != nil || !host.IsStore(node) {
		t.Errorf("the cell is of node %q (%v)", node, err)
	}
}

// A second process on the directory of a running host is refused before it opens anything there.
func TestAHostLocksItsDirectory(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	second, err := dataplane.OpenHost(t.Context(), dataplane.HostConfig{
		DataDir: c.dir, ControlPlane: c.plane.URL, Credential: c.credential, Address: "http://127.0.0.1:2", Logger: c.logger,
	})
	if err == nil {
		err = second.Close(t.Context())
		t.Fatalf("a second process opened the directory too; closed with %v", err)
	}
	if !errors.Is(err, durable.ErrInUse) || !strings.Contains(err.Error(), c.dir) {
		t.Errorf("the refusal is %v", err)
	}
	c.close()
	c.open()
}

// A copy of a data directory that is started beside its original fences the original off: the original stops
// serving within one report and says so, with both addresses. It does not serve again as long as its process
// runs.
func TestACopiedDirectoryStopsTheOlderProcess(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	log := &lockedBuffer{}
	c.logger = slog.New(slog.NewTextHandler(log, nil))
	c.open()
	text, key := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_a", 1, key))
	c.reported("ns_a", fleet.Opened, 1)
	c.enqueue(text)
	second := *c
	second.host, second.dir = nil, filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(second.dir, os.DirFS(c.dir)); err != nil {
		t.Fatal(err)
	}
	second.open()
	t.Cleanup(second.close)
	fleettest.Eventually(t, "the older process stops serving", func() bool {
		return c.send("GET", "/api/v1/queues", text, "").status == 503
	})
	for _, part := range []string{"level=ERROR", "address=http://127.0.0.1:1", "other_address=http://newer", "store=" + c.plane.Store("host_1")} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %q:\n%s", part, log)
		}
	}
	joins := c.plane.Joins()
	second.enqueue(text)
	c.plane.End() // both would connect again
	fleettest.Eventually(t, "the newer process follows again", func() bool { return c.plane.Streams() >= 3 })
	if got := c.plane.Joins(); got != joins {
		t.Errorf("%d joins after the older process was refused", got-joins)
	}
}

// lockedBuffer collects the log of several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A host with an empty disk is a new store. It founds nothing for a namespace whose data is on the old one,
// even if that was never ready, answers 503 for it, and reports the reason. With the old directory the
// namespace is back.
func TestAnEmptyDiskFoundsNothing(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.open()
	text, key := c.key(keyring.Namespace)
	c.plane.Put(c.placed("ns_a", 1, key))
	c.reported("ns_a", fleet.Opened, 1)
	id := c.enqueue(text)
	c.close()
	kept := c.dir
	c.dir = filepath.Join(t.TempDir(), "empty")
	c.open()
	if at := c.reported("ns_a", fleet.Waiting, 1); !strings.Contains(at.Error, c.store) || !strings.Contains(at.Error, c.plane.Store("host_1")) {
		t.Errorf("the reason is %q", at.Error)
	}
	if a := c.send("GET", "/api/v1/jobs/"+id, text, ""); a.status != 503 {
		t.Errorf("a job of it: %d %s", a.status, a.body)
	}
	if left, err := os.ReadDir(filepath.Join(c.dir, "ns")); err == nil && len(left) > 0 {
		t.Errorf("the empty disk has %v", left)
	}
	c.close()
	c.dir = kept
	c.open()
	c.reported("ns_a", fleet.Opened, 1)
	c.want(200, "GET", "/api/v1/jobs/"+id, text, "")
}
