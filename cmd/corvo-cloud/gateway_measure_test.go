package main

import (
	"encoding/json"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

var gatewayRounds = flag.Int("gateway.rounds", 0, "rounds of TestMeasureGateway; 0 = it is skipped")

// TestMeasureGateway compares enqueues through a gateway, which speaks TLS with its host, with the same enqueues to a bare
// node. Control plane, gateway, host, node and the clients (corvo bench) are processes of their own. The measures take
// turns, so that both see the same machine.
//
//	go test ./cmd/corvo-cloud -run TestMeasureGateway -v -gateway.rounds=3
func TestMeasureGateway(t *testing.T) {
	if *gatewayRounds == 0 {
		t.Skip("-gateway.rounds is 0")
	}
	binary := proctest.Build(t, "../..", "./cmd/corvo")
	measured := map[string][]string{"through the gateway": measuredCloud(t), "to a node": measuredNode(t, binary)}
	for round := range *gatewayRounds {
		for _, clients := range []string{"1", "32"} {
			type figures struct {
				JobsPerSecond float64                    `json:"jobs_per_second"`
				Failed        int                        `json:"failed"`
				Latency       struct{ P50, P99 float64 } `json:"latency_ms"`
			}
			got := map[string]figures{}
			for _, name := range []string{"to a node", "through the gateway"} {
				cmd := exec.CommandContext(t.Context(), binary, "bench", "--output", "json", "--clients", clients, "--for", "10s")
				cmd.Env, cmd.Stderr = append(os.Environ(), measured[name]...), t.Output()
				text, err := cmd.Output()
				var of figures
				if err != nil || json.Unmarshal(text, &of) != nil || of.Failed != 0 {
					t.Fatalf("%s: %v %s", name, err, text)
				}
				got[name] = of
				t.Logf("round %d, %s clients, %-19s %6.0f jobs/s  p50 %.2f ms  p99 %.2f ms", round+1, clients, name, of.JobsPerSecond, of.Latency.P50, of.Latency.P99)
			}
			node, cloud := got["to a node"], got["through the gateway"]
			t.Logf("round %d, %s clients: rate ratio %.2f, p50 %+.2f ms", round+1, clients, cloud.JobsPerSecond/node.JobsPerSecond, cloud.Latency.P50-node.Latency.P50)
		}
	}
}

// measuredCloud starts a cloud whose gateway reaches its host without a relay between them, and returns the variables
// with which a client reaches the gateway.
func measuredCloud(t *testing.T) (env []string) {
	p := newParts(t)
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	reserved.Close()
	p.host = start(t, "the host listens on", "host", "--bind", address, "--raft-bind", "127.0.0.1:0", "--advertise", "https://"+address, "--fleet-root", p.root,
		"--data-dir", filepath.Join(p.dir, "host"), "--control-plane", secure(p.control), "--credential-file", p.hostCredential)
	p.startGateway()
	org, err := p.operator.CreateOrg(t.Context(), api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	made := p.newKey(t.Context(), p.newTenant(t.Context(), org.ID, "measured").id, "measure", "admin")
	return []string{"CORVO_ENDPOINT=http://" + listening(p.gateway), "CORVO_API_KEY=" + made.APIKey}
}

// measuredNode starts a bare node, and returns the variables with which a client reaches it.
func measuredNode(t *testing.T, binary string) (env []string) {
	dir := t.TempDir()
	node, err := proctest.Start(t, binary, "try: ", "server", "--bind", "127.0.0.1:0", "--raft-bind", "off", "--data-dir", dir, "--log-level", "warn")
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	endpoint := regexp.MustCompile(`http://[0-9.:]+`).FindString(strings.Join(node.Greeting, "\n"))
	return []string{"CORVO_ENDPOINT=" + endpoint, "CORVO_API_KEY=" + strings.TrimSpace(string(key))}
}
