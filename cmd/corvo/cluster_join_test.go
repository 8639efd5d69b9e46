package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/engine/cluster"
)

// TestWhoHasTheTokenComesIn checks that a founder creates the join token, that nodes with it join, asked or
// invited, and that the cluster refuses nodes without it at once.
func TestWhoHasTheTokenComesIn(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := func(name string) string { return filepath.Join(base, name) }
	raft := freePort(t)
	founder := startServer(t, "--bootstrap", "--node-id", "node-0", "--raft-bind", raft, "--data-dir", dir("node-0"))
	token := filepath.Join(dir("node-0"), cluster.TokenFile)
	if info, err := os.Stat(token); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	key := adminKey(t, dir("node-0"))
	admin := newClient(t, founder.endpoint, key)
	if _, err := admin.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}

	begun := time.Now()
	refused(t, []string{"--join", raft, "--node-id", "node-1", "--raft-bind", "127.0.0.1:0", "--data-dir", dir("stranger"),
		"--join-token-file", tokenFile(t, "another secret ")}, "UNAUTHORIZED", "another join token")
	refused(t, []string{"--join", raft, "--node-id", "node-1", "--raft-bind", "127.0.0.1:0", "--data-dir", dir("nobody")}, "needs the cluster's join token")
	refused(t, []string{"--join", raft, "--node-id", "node-1", "--raft-bind", "127.0.0.1:0", "--data-dir", dir("sharded"),
		"--join-token-file", token, "--shards", "2"}, "1 shards, not 2")
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("three refusals took %v", took)
	}

	waits := freePort(t)
	invited := make(chan *process)
	go func() {
		p, err := launch(t, "--bootstrap=false", "--node-id", "node-1", "--raft-bind", waits, "--data-dir", dir("node-1"), "--join-token-file", token)
		if err != nil {
			t.Error(err)
		}
		invited <- p
	}()
	env := []string{"CORVO_ENDPOINT=" + founder.endpoint, "CORVO_API_KEY=" + key}
	ctx := within(t)
	eventually(t, ctx, "the node that waits to listen", func() bool {
		a := corvo(t, env, "cluster", "add", waits)
		if a.code != 0 && !strings.HasPrefix(a.stderr, "corvo: LEADER_UNAVAILABLE: ") {
			t.Fatalf("%+v", a)
		}
		return a.code == 0
	})
	p := <-invited
	if p == nil {
		return
	}
	to := newClient(t, p.endpoint, key)
	awaitVoters(t, ctx, to, 2)
	got, err := to.Queue(ctx, "q", client.Read{Strong: true})
	if err != nil || got.Pending != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if a := corvo(t, env, "cluster", "add", waits); a.code != 0 || a.stdout != "invited\n" {
		t.Errorf("invited again: %+v", a)
	}
	if got := clusterID(t, dir("node-1")); got != clusterID(t, dir("node-0")) {
		t.Errorf("it is in cluster %s", got)
	}
}

// TestLogStores checks that every log store, and an unsynced log, keeps acknowledged writes when its process
// is killed.
func TestLogStores(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"pebble": {"--raft-store", "pebble"}, "bolt": {"--raft-store", "bolt"}, "badger": {"--raft-store", "badger"},
		"relaxed": {"--durability", "relaxed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := append([]string{"--data-dir", dir}, flags...)
			p := startServer(t, args...)
			key := adminKey(t, dir)
			if _, err := newClient(t, p.endpoint, key).Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
			p.Kill(t)
			p = startServer(t, args...)
			to := newClient(t, p.endpoint, key)
			if got, err := to.Queue(t.Context(), "q", client.Read{}); err != nil || got.Pending != 1 {
				t.Errorf("%+v, %v", got, err)
			}
			status, err := to.ClusterStatus(t.Context())
			if err != nil || status.RaftNoSync != (name == "relaxed") || name != "relaxed" && status.RaftStore != name {
				t.Errorf("%+v, %v", status, err)
			}
			p.Kill(t)
			if name != "relaxed" {
				refused(t, []string{"--raft-bind", "off", "--data-dir", dir}, `a log of kind "`+name+`", not "wal"`)
			}
		})
	}
}
