package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// composeFile holds all fields that our compose files use; the decoder refuses others.
type composeFile struct {
	Services map[string]*composeService
	Secrets  map[string]struct{ File string }
	Volumes  map[string]any
	Node     any `yaml:"x-node"` // merged into the services by then
}

type composeService struct {
	Image       string
	Command     string
	Ports       []string
	Volumes     []string
	Environment map[string]string
	Secrets     []string
	Healthcheck struct {
		Test              []string
		Interval, Timeout time.Duration
		Retries           int
	}
	Restart         string
	StopGracePeriod time.Duration `yaml:"stop_grace_period"`
}

func readCompose(t *testing.T, name string) *composeFile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var file composeFile
	if err := decoder.Decode(&file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for name, s := range file.Services {
		for _, secret := range s.Secrets {
			if file.Secrets[secret].File == "" {
				t.Errorf("%s has the secret %q, which is no file's", name, secret)
			}
		}
		for _, volume := range s.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			if _, ok := file.Volumes[source]; !ok || target != "/data" {
				t.Errorf("%s has the volume %q; it must be one of the file's, at /data", name, volume)
			}
		}
		if s.StopGracePeriod < stopTime() {
			t.Errorf("%s is killed after %v; it may take %v to stop", name, s.StopGracePeriod, stopTime())
		}
		if h := s.Healthcheck; h.Interval <= 0 || h.Timeout <= healthTimeout || h.Retries < 1 {
			t.Errorf("%s: health check %+v", name, h)
		}
		if s.Restart != "unless-stopped" {
			t.Errorf("%s: restart %q", name, s.Restart)
		}
	}
	return &file
}

// stopTime returns the longest time that a node may take to stop: its requests and then its closing have the
// shutdown timeout each.
func stopTime() time.Duration {
	timeout, err := newServer().Flags().GetDuration("shutdown-timeout")
	if err != nil {
		panic(err)
	}
	return 2 * timeout
}

// composed runs the nodes of a compose file as processes of this machine. Ports of loopback replace its
// names, folders its volumes, a file its secret.
type composed struct {
	file  *composeFile
	image *dockerfile
	base  string
	token string
	raft  map[string]string
}

func newComposed(t *testing.T, name string) *composed {
	t.Helper()
	c := &composed{file: readCompose(t, name), image: readDockerfile(t), base: t.TempDir(), token: tokenFile(t, "compose"), raft: map[string]string{}}
	for service := range c.file.Services {
		c.raft[service] = freePort(t)
	}
	return c
}

func (c *composed) dir(service string) string { return filepath.Join(c.base, service) }

// here translates a word of a service to this machine.
func (c *composed) here(service, word string) string {
	var swap []string
	for _, name := range slices.Sorted(maps.Keys(c.raft)) {
		swap = append(swap, name+":9400", c.raft[name])
	}
	swap = append(swap, ":9400", c.raft[service])
	for _, secret := range c.file.Services[service].Secrets {
		swap = append(swap, "/run/secrets/"+secret, c.token)
	}
	return strings.NewReplacer(append(swap, "/data", c.dir(service), service, "127.0.0.1")...).Replace(word)
}

// start starts a service by its command line and environment.
func (c *composed) start(t *testing.T, service string) *process {
	t.Helper()
	s := c.file.Services[service]
	command := c.image.exec(t, "CMD")
	if s.Command != "" {
		command = strings.Fields(s.Command)
	}
	args := []string{"CORVO_BIND=127.0.0.1:0"}
	for name, value := range c.image.env(t) {
		args = append(args, name+"="+c.here(service, value))
	}
	for name, value := range s.Environment {
		args = append(args, name+"="+c.here(service, value))
	}
	args = append(args, proctest.Build(t, "../..", "./cmd/corvo"))
	for _, word := range command {
		args = append(args, c.here(service, word))
	}
	p, err := proctest.Start(t, "env", "try: ", args...)
	if err != nil {
		t.Fatal(err)
	}
	return &process{Process: p, endpoint: endpointPattern.FindStringSubmatch(strings.Join(p.Greeting, "\n"))[1]}
}

// probe runs a service's health check until it succeeds.
func (c *composed) probe(t *testing.T, service string, p *process) {
	t.Helper()
	test := c.file.Services[service].Healthcheck.Test
	if len(test) < 2 || test[0] != "CMD" || test[1] != c.image.exec(t, "ENTRYPOINT")[0] {
		t.Fatalf("%s: the health check is %q", service, test)
	}
	eventually(t, within(t), "the health check of "+service, func() bool {
		cmd := exec.Command(proctest.Build(t, "../..", "./cmd/corvo"), test[2:]...)
		cmd.Env = []string{"CORVO_ENDPOINT=" + p.endpoint}
		return cmd.Run() == nil
	})
}

// TestTheComposeLinesMakeACluster runs the compose file of three nodes on loopback. Its lines, which equal
// the documented ones to the letter, make a cluster of three voters, which loses its leader, goes on, and
// takes it back.
func TestTheComposeLinesMakeACluster(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*proctest.StartTimeout)
	defer cancel()
	c := newComposed(t, "docker-compose.cluster.yml")
	documented := map[string]string{ // by service
		"corvo-0": "server --bootstrap --node-id node-0 --raft-bind :9400",
		"corvo-1": "server --join corvo-0:9400 --node-id node-1 --raft-bind :9400",
		"corvo-2": "server --join corvo-0:9400 --node-id node-2 --raft-bind :9400",
	}
	services := map[string]string{} // by node
	nodes := map[string]*process{}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		s := c.file.Services[name]
		if s == nil || s.Command != documented[name] {
			t.Fatalf("the service %s is %+v, want the command %q", name, s, documented[name])
		}
		if advertise := s.Environment["CORVO_RAFT_ADVERTISE"]; s.Image != "corvo/corvo" || advertise != name {
			t.Fatalf("the service %s runs %q and advertises %q", name, s.Image, advertise)
		}
		node := strings.Replace(name, "corvo", "node", 1)
		services[node] = name
		nodes[node] = c.start(t, name)
	}
	key := adminKey(t, c.dir("corvo-0"))
	ask := func(node string) *client.Client { return newClient(t, nodes[node].endpoint, key) }

	status := awaitVoters(t, ctx, ask("node-1"), 3)
	if status.Mode != "cluster" || len(status.LeaderAddr) == 0 {
		t.Errorf("%+v", status)
	}
	leader, survivor := status.LeaderID, "node-0"
	if survivor == leader {
		survivor = "node-1"
	}
	nodes[leader].Kill(t)
	alive := ask(survivor)
	eventually(t, ctx, "a write without the first leader", func() bool {
		_, err := alive.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
		return err == nil
	})
	nodes[leader] = c.start(t, services[leader])
	back := ask(leader)
	eventually(t, ctx, "the first leader to have caught up", func() bool {
		queue, err := back.Queue(ctx, "q", client.Read{})
		return err == nil && queue.Pending > 0
	})
	awaitVoters(t, ctx, back, 3)
	c.probe(t, services[leader], nodes[leader])
}

func TestTheComposeFileOfOne(t *testing.T) {
	t.Parallel()
	c := newComposed(t, "docker-compose.yml")
	s := c.file.Services["corvo"]
	if s == nil || s.Image != "corvo/corvo" || !slices.Equal(s.Ports, []string{"8080:8080"}) {
		t.Fatalf("the service is %+v", s)
	}
	p := c.start(t, "corvo")
	c.probe(t, "corvo", p)
	if _, err := newClient(t, p.endpoint, adminKey(t, c.dir("corvo"))).Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Error(err)
	}
	if err := p.Terminate(t); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
}
