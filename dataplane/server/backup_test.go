package server_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/backup"
	"github.com/corvo/corvo/tenancy"
)

// Only an admin of all queues may take a backup.
func TestBackupIsForWhoMayHaveAll(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.one(n.client(n.admin), "mail")
	var file bytes.Buffer
	if err := n.client(n.admin).Backup(t.Context(), false, func(r io.Reader) error { _, err := io.Copy(&file, r); return err }); err != nil {
		t.Fatal(err)
	}
	h, got, err := backup.Verify(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "version", h.Version, "test")
	equal(t, "namespace", h.Namespace, string(tenancy.Default))
	present(t, "the shard's index", h.Shards[0].Index)
	if got.Pairs[0] < 3 {
		t.Errorf("the file has %d records", got.Pairs[0])
	}
	for name, c := range map[string]struct {
		key    tenancy.Key
		status int
	}{
		"an operator's":   {tenancy.Key{Roles: []tenancy.Role{tenancy.Operator}}, 403},
		"a reader's":      {tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}}, 403},
		"a worker's":      {tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}}, 403},
		"for some queues": {tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mail"}}, 403},
	} {
		if a := n.send("POST", "/api/v1/admin/backup", n.key(c.key), ""); a.status != c.status || strings.Contains(string(a.body), "CORVOBAK") {
			t.Errorf("with a key %s: %d %.100s", name, a.status, a.body)
		}
	}
	if a := n.send("POST", "/api/v1/admin/backup", "", ""); a.status != 401 {
		t.Errorf("without a key: %d", a.status)
	}
	if a := n.send("POST", "/api/v1/admin/restore", n.admin, string(file.Bytes()[:100])); a.status != 501 || !strings.Contains(string(a.body), "corvo admin restore") {
		t.Errorf("a restore into a node that runs: %d %s", a.status, a.body)
	}
	if a := n.send("POST", "/api/v1/admin/backup?consistency=perhaps", n.admin, ""); a.status != 400 {
		t.Errorf("of an unknown consistency: %d", a.status)
	}
	if a := n.send("POST", "/api/v1/admin/backup?consistency=eventual", n.admin, ""); a.status != 200 {
		t.Errorf("of what there is: %d", a.status)
	}
}

// A node takes one backup at a time, and none after it was asked to stop.
func TestBackupsAreOneAtATime(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.server.Backing().Store(true)
	if a := n.send("POST", "/api/v1/admin/backup", n.admin, ""); a.status != 409 || !strings.Contains(string(a.body), string(api.Conflict)) {
		t.Errorf("a second one: %d %s", a.status, a.body)
	}
	n.server.Backing().Store(false)
	for range 2 { // the first has ended
		if a := n.send("POST", "/api/v1/admin/backup", n.admin, ""); a.status != 200 {
			t.Errorf("after it: %d %s", a.status, a.body)
		}
	}
	n.server.Drain()
	if a := n.send("POST", "/api/v1/admin/backup", n.admin, ""); a.status != 503 {
		t.Errorf("of a node that is shutting down: %d %s", a.status, a.body)
	}
}

// A node that is asked to stop does not wait for a client that reads a backup, and the client does not get a
// file that looks complete.
func TestABackupEndsWithTheNode(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for range 40 { // more than the buffers between a server and a client that does not read
		n.ok(nil, "POST", "/enqueue", `{"queue":"mail","payload":"`+strings.Repeat("x", 900<<10)+`"}`)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/api/v1/admin/backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.admin)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if !n.server.Backing().Load() {
		t.Fatal("the backup has ended before it was read: the test needs more jobs")
	}
	n.server.Drain()
	file, err := io.ReadAll(resp.Body)
	if err == nil {
		t.Error("the answer has an end")
	}
	if _, _, err := backup.Verify(bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("what came is %v", err)
	}
}
