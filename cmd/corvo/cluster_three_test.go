package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/router"
)

// trio is three processes that know each other by --peers.
type trio struct {
	t     *testing.T // the processes end with this test
	base  string
	names []string
	raft  map[string]string
	flags []string
	nodes map[string]*process
	key   string
}

// newTrio forms a cluster of three nodes that start at the same time.
func newTrio(t *testing.T, flags ...string) *trio {
	t.Helper()
	proctest.Build(t, "../..", "./cmd/corvo") // may fail the test, so not in a goroutine
	c := &trio{t: t, base: t.TempDir(), names: []string{"node-0", "node-1", "node-2"}, raft: map[string]string{}, nodes: map[string]*process{}}
	for _, name := range c.names {
		c.raft[name] = freePort(t)
	}
	c.flags = append([]string{"--join-token-file", tokenFile(t, "trio")}, flags...)
	c.start(t, c.names...)
	for _, name := range c.names {
		if _, err := os.Stat(filepath.Join(c.dir(name), "admin.key")); err == nil {
			if c.key != "" {
				t.Fatal("two nodes have made a first key")
			}
			c.key = adminKey(t, c.dir(name))
		}
	}
	awaitVoters(t, within(t), c.client(t, "node-0"), 3)
	return c
}

// tokenFile writes a join token to a file.
func tokenFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(strings.Repeat(secret, 16)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *trio) dir(name string) string { return filepath.Join(c.base, name) }

// args returns a node's flags, without those for joining.
func (c *trio) args(name string) []string {
	return append([]string{"--node-id", name, "--raft-bind", c.raft[name], "--data-dir", c.dir(name)}, c.flags...)
}

func (c *trio) peers() string {
	var all []string
	for _, name := range c.names {
		all = append(all, c.raft[name])
	}
	return strings.Join(all, ",")
}

// start starts nodes at the same time and waits for all.
func (c *trio) start(t *testing.T, names ...string) {
	t.Helper()
	c.launch(t, names, "--peers", c.peers())
}

func (c *trio) launch(t *testing.T, names []string, flags ...string) {
	t.Helper()
	started := make([]*process, len(names))
	errs := make([]error, len(names))
	var starting sync.WaitGroup
	for i, name := range names {
		starting.Go(func() { started[i], errs[i] = launch(c.t, append(c.args(name), flags...)...) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		c.nodes[name] = started[i]
	}
}

func (c *trio) client(t *testing.T, name string) *client.Client {
	t.Helper()
	return newClient(t, c.nodes[name].endpoint, c.key)
}

// others returns all nodes but one.
func (c *trio) others(name string) []string {
	return slices.DeleteFunc(slices.Clone(c.names), func(s string) bool { return s == name })
}

// leader returns the leader of the first shard.
func (c *trio) leader(t *testing.T) (name string) {
	t.Helper()
	ctx := within(t)
	eventually(t, ctx, "a leader", func() bool {
		status, err := c.client(t, c.names[0]).ClusterStatus(ctx)
		name = status.LeaderID
		return err == nil && name != ""
	})
	return name
}

// clusterID returns the cluster that a data directory records.
func clusterID(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Cluster string `json:"cluster_id"`
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Cluster == "" {
		t.Fatalf("%s: %v", data, err)
	}
	return r.Cluster
}

// answer is a command's output and exit code.
type answer struct {
	stdout, stderr string
	code           int
}

// corvo runs a command line as a user would, and kills it after the test's time.
func corvo(t *testing.T, env []string, args ...string) answer {
	t.Helper()
	return corvoFed(t, nil, env, args...)
}

// corvoFed runs a command line whose stdin is a pipe with some text, or nothing.
func corvoFed(t *testing.T, stdin io.Reader, env []string, args ...string) answer {
	t.Helper()
	cmd := exec.CommandContext(within(t), proctest.Build(t, "../..", "./cmd/corvo"), args...)
	cmd.Stdin = stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), env...)
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// refused runs a server that must end with an error that contains all these texts.
func refused(t *testing.T, args []string, says ...string) {
	t.Helper()
	a := corvo(t, nil, append([]string{"server", "--bind", "127.0.0.1:0", "--log-level", "error"}, args...)...)
	want := 1
	if strings.Contains(a.stderr, "VALIDATION_ERROR") {
		want = 2
	}
	if a.code != want {
		t.Errorf("%v ended with %d, want %d:\n%s", args, a.code, want, a.stderr)
	}
	for _, s := range says {
		if !strings.Contains(a.stderr, s) {
			t.Errorf("%v: %q does not say %q", args, a.stderr, s)
		}
	}
}

// do runs a command against a node and returns its output.
func (c *trio) do(t *testing.T, name string, args ...string) string {
	t.Helper()
	a := corvo(t, []string{"CORVO_ENDPOINT=" + c.nodes[name].endpoint, "CORVO_API_KEY=" + c.key}, args...)
	if a.code != 0 {
		t.Fatalf("corvo %v ended with %d: %s", args, a.code, a.stderr)
	}
	return a.stdout
}

// queuesOn returns the names of two queues, one on each of two shards.
func queuesOn(prefix string) (names []string) {
	for i := 0; len(names) < 2; i++ {
		name := fmt.Sprintf("%s%d", prefix, i)
		if router.ShardOf(job.SlotOf(name), 2) == len(names) {
			names = append(names, name)
		}
	}
	return names
}
