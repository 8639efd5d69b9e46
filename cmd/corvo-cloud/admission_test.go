package main

import (
	"bufio"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/tenancy/keyring"
)

// TestGatewayAdmission checks that a gateway takes the same admission flags as a node.
func TestGatewayAdmission(t *testing.T) {
	t.Parallel()
	cmd := newGateway()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--rate-limit-per-key=-1", "--max-connections=-1", "--trusted-proxies=0.0.0.0/0"})
	err := cmd.Execute()
	for _, fault := range []string{"--rate-limit-per-key is -1", "--max-connections is -1", "--trusted-proxies: 0.0.0.0/0 matches every address"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v, want %q", err, fault)
		}
	}
	credential, _, _, err := keyring.New(rand.Reader, keyring.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte(credential), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "the gateway listens on", "gateway", "--insecure", "--bind", "127.0.0.1:0", "--control-plane", "http://127.0.0.1:1", "--credential-file", file, "--max-connections", "1", "--data-dir", t.TempDir())
	var last net.Conn
	for _, want := range []int{200, 429} {
		conn, err := net.Dial("tcp", listening(p))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if last == nil {
			if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != want {
			t.Fatalf("%v, %v, want %d", answer, err, want)
		}
		last = conn
	}
}
