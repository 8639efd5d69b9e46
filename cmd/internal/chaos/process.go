package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// processes are processes of one binary, each on a node of a Network of its own and with its own directory.
type processes struct {
	Net *Network

	binary string
	nodes  []*node
}

type node struct {
	dir     string
	process *proctest.Process // nil while it is down
	stopped bool              // by SIGSTOP
	client  *client.Client    // nil for a process that serves no tenants
}

// newProcesses returns n processes that are down, on a new Network, with directories below dir.
func newProcesses(t testing.TB, binary, dir string, n int) processes {
	t.Helper()
	p := processes{Net: NewNetwork(t, n), binary: binary}
	for i := range n {
		p.nodes = append(p.nodes, &node{dir: filepath.Join(dir, fmt.Sprint(i))})
	}
	return p
}

// spawn starts a process that is down.
func (p *processes) spawn(t testing.TB, i int, args ...string) {
	t.Helper()
	command, args := p.Net.Inside(i, p.binary, args...)
	running, err := proctest.Spawn(t, command, args...)
	if err != nil {
		t.Fatalf("node %d: %v", i, err)
	}
	p.nodes[i].process, p.nodes[i].stopped = running, false
}

// start starts a process that is down, and waits for the line of its output that begins with ready.
func (p *processes) start(t testing.TB, i int, ready string, args ...string) {
	t.Helper()
	command, args := p.Net.Inside(i, p.binary, args...)
	running, err := proctest.Start(t, command, ready, args...)
	if err != nil {
		t.Fatalf("node %d: %v", i, err)
	}
	p.nodes[i].process, p.nodes[i].stopped = running, false
}

// newTransport returns a transport for one client.
func newTransport() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: 64} }

// newClient returns a client that repeats no request.
func newClient(t testing.TB, url, key string, transport http.RoundTripper) *client.Client {
	t.Helper()
	k, err := client.New(url, key, client.WithRetries(0), client.WithTimeout(requestLimit), client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// Up reports whether a process runs and is not frozen.
func (p *processes) Up(i int) bool { return p.nodes[i].process != nil && !p.nodes[i].stopped }

// Client returns a tenant's client of one process. It repeats no request.
func (p *processes) Client(i int) *client.Client { return p.nodes[i].client }

// Kill ends a process with SIGKILL.
func (p *processes) Kill(t testing.TB, i int) {
	t.Helper()
	p.nodes[i].process.Kill(t)
	p.nodes[i].process = nil
}

// Terminate ends a process with SIGTERM and waits for it.
func (p *processes) Terminate(t testing.TB, i int) {
	t.Helper()
	if err := p.nodes[i].process.Terminate(t); err != nil {
		t.Errorf("node %d after SIGTERM: %v\n%s", i, err, p.nodes[i].process.Log())
	}
	p.nodes[i].process = nil
}

// Freeze stops a process with SIGSTOP until Thaw.
func (p *processes) Freeze(t testing.TB, i int) {
	t.Helper()
	p.nodes[i].process.Signal(t, syscall.SIGSTOP)
	p.nodes[i].stopped = true
}

// Thaw lets a frozen process continue.
func (p *processes) Thaw(t testing.TB, i int) {
	t.Helper()
	p.nodes[i].process.Signal(t, syscall.SIGCONT)
	p.nodes[i].stopped = false
}

// Log returns the log of a process since its last start.
func (p *processes) Log(i int) string {
	if p.nodes[i].process == nil {
		return ""
	}
	return p.nodes[i].process.Log()
}

// tail returns the end of a log.
func tail(log string) string {
	const most = 4 << 10
	return log[max(0, len(log)-most):]
}

// poll asks for a condition of the processes until it holds, because they send no notification. It returns false if
// ctx ends first.
func poll(ctx context.Context, holds func(ctx context.Context) bool) bool {
	for !holds(ctx) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20*time.Millisecond + rand.N(20*time.Millisecond)):
		}
	}
	return true
}
