package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/internal/proctest"
)

// ends runs a command line that must end by itself, and returns its exit code and output.
func ends(t *testing.T, env []string, args ...string) (code int, says string) {
	t.Helper()
	return proctest.Run(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"), env, args...)
}

// TestMisuseEndsWith2 checks that misuse ends with 2, as in corvo, and with advice.
func TestMisuseEndsWith2(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := []string{"server", "--data-dir", filepath.Join(dir, "data"), "--insecure", "--bind", "127.0.0.1:0", "--endpoint", "http://127.0.0.1:1"}
	host := []string{"host", "--data-dir", filepath.Join(dir, "data"), "--insecure", "--bind", "127.0.0.1:0", "--control-plane", "http://127.0.0.1:1"}
	gateway := []string{"gateway", "--data-dir", filepath.Join(dir, "gateway"), "--insecure", "--bind", "127.0.0.1:0", "--control-plane", "http://127.0.0.1:1",
		"--credential-file", file("gateway.credential", gatewayCredential(t))}
	dev := []string{"dev", "--data-dir", filepath.Join(dir, "data")}
	for _, c := range []struct {
		env  []string
		line []string
		more []string
		says string
	}{
		{line: []string{"frob"}, says: `there is no command "frob" in corvo-cloud; see corvo-cloud --help`},
		{line: []string{"serve"}, says: "is it server?"},
		{line: []string{"completion", "frob"}, says: `there is no command "frob"`},
		{line: []string{"--frob"}, says: "see corvo-cloud --help"},
		{line: []string{"version", "x"}, says: "see corvo-cloud version --help"},
		{line: dev, more: []string{"--frob"}, says: "unknown flag: --frob; see corvo-cloud dev --help"},
		{line: dev, more: []string{"--dta-dir", "x"}, says: "unknown flag: --dta-dir, is it --data-dir?; see corvo-cloud dev --help"},
		{line: []string{"gatway"}, says: "is it gateway?"},
		{line: dev, more: []string{"--shutdown-timeout", "5"}, says: `--shutdown-timeout is "5"; it must be a duration`},
		{line: dev, more: []string{"--shutdown-timeout", "0s"}, says: "--shutdown-timeout is 0s; it must be positive"},
		{line: dev, more: []string{"--log-level", "loud"}, says: "--log-level"},
		{line: dev, more: []string{"--otel-endpoint", "frob"}, says: "--otel-endpoint"},
		{line: dev, more: []string{"--bind", ":8080"}, says: "loopback"},
		{line: dev, more: []string{"--hosts", "0"}, says: "--hosts is 0; it must be 1 to 9"},
		{line: dev, more: []string{"--hosts", "10"}, says: "--hosts is 10; it must be 1 to 9"},
		{line: dev, more: []string{"--config", "/nope"}, says: "--config: open /nope"},
		{line: dev, more: []string{"--config", file("corvo.yaml", "bindd: x\n")}, says: `unknown setting "bindd"`},
		{line: dev, env: []string{"CORVO_SHUTDOWN_TIMEOUT=soon"}, says: "CORVO_SHUTDOWN_TIMEOUT"},
		{line: []string{"dev", "--data-dir", ""}, says: "--data-dir is empty"},
		{line: []string{"server"}, says: "--endpoint is missing"},
		{line: []string{"gateway"}, more: []string{"--tls-cert-file", "x"}, says: "--tls-key-file is missing"},
		{line: []string{"gateway"}, more: []string{"--tls-key-file", "x"}, says: "--tls-cert-file is missing"},
		{line: gateway, more: []string{"--tls-cert-file", "/nope", "--tls-key-file", "/nope"}, says: "--tls-cert-file, --tls-key-file: certificate: stat /nope"},
		{line: dev, more: []string{"--bind", "127.0.0.1:70000"}, says: `--bind is "127.0.0.1:70000"; it must be host:port`},
		{line: server, more: []string{"--bind", "127.0.0.1:70000"}, says: `--bind is "127.0.0.1:70000"; it must be host:port`},
		{line: server, more: []string{"--bind", "0.0.0.0:0"}, says: `--insecure needs a loopback address, and --bind is "0.0.0.0:0"`},
		{line: server, more: []string{"--advertise", "http://10.0.0.7"}, says: `--insecure needs http URLs of loopback addresses, and --advertise is "http://10.0.0.7"`},
		{line: server, more: []string{"--insecure=false", "--advertise", "http://127.0.0.1:1"}, says: `--advertise is "http://127.0.0.1:1"; it must be an https URL`},
		{line: server, more: []string{"--insecure=false", "--node-id", "a b"}, says: `--node-id is "a b"; it must be 1 to 64 letters`},
		{line: server, more: []string{"--bind", "frob"}, says: `--bind is "frob"; it must be host:port or :port`},
		{line: server, more: []string{"--bootstrap", "--join", "a:1"}, says: "--bootstrap and --join exclude each other"},
		{line: server, more: []string{"--raft-bind", ":1"}, says: "--raft-bind, --raft-advertise and --join-token-file need --bootstrap or --join"},
		{line: server, more: []string{"--join", "frob"}, says: `--join has "frob"; it must be host:port`},
		{line: server, more: []string{"--bootstrap", "--raft-bind", "frob"}, says: `--raft-bind is "frob"; it must be host:port or :port`},
		{line: server, more: []string{"--bootstrap", "--raft-bind", "127.0.0.1:0", "--join-token-file", "/nope"}, says: "--join-token-file: open /nope"},
		{line: server, more: []string{"--bootstrap", "--raft-bind", "127.0.0.1:0", "--join-token-file", file("token", "short")}, says: "the join token has 5 bytes"},
		{line: server, more: []string{"--bootstrap", "--advertise", "frob"}, says: `--advertise is "frob"; it must be a URL`},
		{line: server, more: []string{"--host-grace", "9.999s"}, says: "--host-grace is 9.999s; it must be at least 10s"},
		{line: server, more: []string{"--endpoint", "frob"}, says: `--endpoint is "frob"; it must be a URL`},
		{line: []string{"gateway"}, says: "--control-plane is missing"},
		{line: []string{"gateway", "--rate-limit-per-key=-1"}, says: "--rate-limit-per-key is -1"},
		{line: []string{"gateway", "--rate-limit-per-org=-1"}, says: "--rate-limit-per-org is -1"},
		{line: []string{"gateway", "--rate-limit-per-namespace=1000001"}, says: "--rate-limit-per-namespace is 1000001"},
		{line: []string{"gateway", "--max-requests-per-namespace=0"}, says: "--max-requests-per-namespace is 0"},
		{line: []string{"gateway", "--host-wait=0s"}, says: "--host-wait is 0s"},
		{line: host, says: "--credential-file is missing: register the host with"},
		{line: []string{"gateway", "--control-plane", "http://127.0.0.1:1"}, says: "--credential-file is missing: register the gateway with"},
		{line: host, more: []string{"--credential-file", "/nope"}, says: "--credential-file: open /nope"},
		{line: host, more: []string{"--credential-file", file("credential", "frob")}, says: "copied whole"},
		{line: host, more: []string{"--bind", ":0"}, says: `--insecure needs a loopback address, and --bind is ":0"`},
		{line: host, more: []string{"--control-plane", "http://127.0.0.1:1,http://10.0.0.7"}, says: `--insecure needs http URLs of loopback addresses, and --control-plane is "http://10.0.0.7"`},
		{line: host, more: []string{"--control-plane", "https://127.0.0.1:1"}, says: `--insecure needs http URLs of loopback addresses, and --control-plane is "https://127.0.0.1:1"`},
		{line: host, more: []string{"--insecure=false"}, says: `--control-plane is "http://127.0.0.1:1"; it must be an https URL`},
		{line: gateway, more: []string{"--insecure=false", "--control-plane", "https://a"}, says: "--fleet-root is missing, and there is no certificate in"},
		{line: gateway, more: []string{"--insecure=false", "--control-plane", "https://a", "--fleet-root", "frob"}, says: `--fleet-root is "frob"; it must be the SHA-256`},
		{line: host, more: []string{"--control-plane", "frob"}, says: `--control-plane is "frob"; it must be a URL`},
		{line: host, more: []string{"--control-plane", "http://a,b"}, says: `--control-plane is "b"; it must be a URL`},
		{line: host, more: []string{"--control-plane", strings.Repeat("http://a,", 16) + "http://a"}, says: "--control-plane has 17 URLs; it must have at most 16"},
		{line: host, more: []string{"--advertise", "10.0.0.7:8082"}, says: `--advertise is "10.0.0.7:8082"; it must be a URL`},
		{line: host, more: []string{"--raft-bind", "frob"}, says: `--raft-bind is "frob"; it must be host:port or :port`},
		{line: host, more: []string{"--raft-bind", "127.0.0.1:0"}, says: "--raft-bind and --raft-advertise need a certificate"},
		{line: host, more: []string{"--raft-advertise", ":1"}, says: `--raft-advertise is ":1"; it must be a name or an address`},
		{line: host, more: []string{"--metrics-bind", "frob"}, says: `--metrics-bind is "frob"; it must be host:port`},
	} {
		args := append(append([]string{}, c.line...), c.more...)
		if code, says := ends(t, c.env, args...); code != 2 || !strings.Contains(says, c.says) {
			t.Errorf("%v %v: exit %d: %s; it should be 2 and say %q", c.env, args, code, says, c.says)
		}
	}
}

// TestFailureEndsWith1 checks that a valid command that fails ends with 1.
func TestFailureEndsWith1(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	code, says := ends(t, nil, "dev", "--data-dir", t.TempDir(), "--bind", taken.Addr().String())
	if code != 1 || !strings.Contains(says, "--bind") {
		t.Errorf("exit %d: %s", code, says)
	}
}
