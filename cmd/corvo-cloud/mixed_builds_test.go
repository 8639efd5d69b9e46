package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
	"github.com/corvo/corvo/dataplane/op"
)

// buildNewer builds a binary that knows one feature level more than this source.
func buildNewer(t *testing.T) string {
	t.Helper()
	const file = "dataplane/op/feature_level.go"
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	constant := "const FeatureLevel = %d\n"
	before, after, ok := strings.Cut(string(text), fmt.Sprintf(constant, op.FeatureLevel))
	if !ok {
		t.Fatalf("%s has no constant of the feature level", file)
	}
	return proctest.BuildWith(t, "../..", "./cmd/corvo-cloud", file, before+fmt.Sprintf(constant, op.FeatureLevel+1)+after)
}

// mixedHost is a host that a test restarts with another binary. It keeps its Raft address.
type mixedHost struct {
	name, credential, raft string
	process                *proctest.Process
}

// startMixed starts a host with a binary.
func (p *parts) startMixed(h *mixedHost, binary string) {
	p.t.Helper()
	const told = "other hosts reach it at "
	var err error
	h.process, err = proctest.Start(p.t, binary, "the host listens on", "host", "--bind", "127.0.0.1:0", "--raft-bind", h.raft, "--fleet-root", p.root,
		"--data-dir", filepath.Join(p.dir, h.name), "--control-plane", secure(p.control), "--credential-file", h.credential)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range h.process.Greeting {
		if address, ok := strings.CutPrefix(line, told); ok {
			h.raft = address
		}
	}
}

// mixedCloud is a namespace with a replica on each of three hosts, whose binaries may differ.
type mixedCloud struct {
	*parts
	ctx       context.Context
	hosts     []*mixedHost
	namespace string
	client    *client.Client
}

// startMixedCloud starts the hosts with a binary, and creates the namespace.
func startMixedCloud(ctx context.Context, t *testing.T, binary string) *mixedCloud {
	t.Helper()
	p := newParts(t)
	m := &mixedCloud{parts: p, ctx: ctx, hosts: []*mixedHost{{name: "host-1", credential: p.hostCredential}, {name: "host-2"}, {name: "host-3"}}}
	for i, h := range m.hosts {
		h.raft = "127.0.0.1:0"
		if i > 0 {
			h.credential = p.register("host", h.name)
		}
		p.startMixed(h, binary)
	}
	p.startGateway("--host-wait", "1m") // this machine may be slow
	org, err := p.operator.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.operator.CreateNamespace(ctx, org.ID, api.CreateNamespaceRequest{Name: "a", Spec: &api.NewNamespaceSpec{Replicas: new(3)}})
	if err == nil {
		_, err = p.operator.WaitOperation(ctx, made.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.namespace = made.Resource.ID
	m.client = newClient(t, p.gatewayRelay.URL, p.newKey(ctx, m.namespace, "test", "admin").APIKey, client.WithRetries(8), client.WithKeyedWrites())
	return m
}

// work takes jobs through their lives.
func (m *mixedCloud) work() {
	m.t.Helper()
	for range 5 {
		if err := round(m.ctx, m.client, "q"); err != nil {
			m.t.Fatal(err)
		}
	}
}

// members waits until each member is open, or the named one has failed, and returns the reason of that one.
func (m *mixedCloud) members(failed string) (reason string) {
	m.t.Helper()
	eventually(m.t, m.ctx, "members, of which the failed one is "+failed, func() bool {
		reason = ""
		now, err := m.operator.Cluster(m.ctx, m.namespace)
		if err != nil || len(now.Status.Members) != len(m.hosts) || now.Status.Groups[0].Leader == "" {
			return false
		}
		for _, member := range now.Status.Members {
			if member.HostName == failed {
				reason = member.Error
			} else if member.HostState != "serving" || member.State != "open" {
				return false
			}
		}
		return (failed == "") == (reason == "")
	})
	return reason
}

// restart restarts a host with a binary. The others work in between.
func (m *mixedCloud) restart(h *mixedHost, binary string) {
	m.t.Helper()
	if err := h.process.Terminate(m.t); err != nil {
		m.t.Fatal(err)
	}
	m.work()
	m.startMixed(h, binary)
}

// leads reports whether a host leads the namespace.
func (m *mixedCloud) leads(h *mixedHost) bool {
	now, err := m.operator.Cluster(m.ctx, m.namespace)
	return err == nil && len(now.Status.Groups) > 0 && now.Status.Groups[0].LeaderHost == h.name
}

// logged reports whether a host has logged a text with a feature level.
func (m *mixedCloud) logged(text string, level int) bool {
	for _, h := range m.hosts {
		for line := range strings.Lines(h.process.Log()) {
			if strings.Contains(line, text) && strings.Contains(line, fmt.Sprintf("feature_level=%d", level)) {
				return true
			}
		}
	}
	return false
}

// TestMixedBinariesWithThreeMembers upgrades the hosts of a namespace with three replicas one after the other, while
// jobs are done. While one host runs an older binary, the feature level stays under a newer leader, and that host works
// on. When all are upgraded, the level rises. A host that is put back to the older binary then says so and takes no part,
// the others serve on, and the host comes back with the newer binary.
func TestMixedBinariesWithThreeMembers(t *testing.T) {
	t.Parallel()
	older, newer := proctest.Build(t, "../..", "./cmd/corvo-cloud"), buildNewer(t)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	m := startMixedCloud(ctx, t, older)
	m.members("")
	m.work()
	for _, h := range m.hosts[:2] {
		m.restart(h, newer)
		m.members("")
		m.work()
	}
	for m.leads(m.hosts[2]) { // a newer binary raises the level, if any does
		m.restart(m.hosts[2], older)
		m.members("")
	}
	risen := func() bool { return m.logged("the feature level has risen", op.FeatureLevel+1) }
	eventually(t, ctx, "a newer binary has compared the levels of all members", func() bool {
		return m.logged("the feature level stays", op.FeatureLevel) || risen()
	})
	if risen() {
		t.Error("the feature level has risen although a host has an older binary")
	}
	m.work()
	m.members("")
	m.restart(m.hosts[2], newer)
	eventually(t, ctx, "the feature level has risen", risen)
	m.members("")
	m.work()

	m.restart(m.hosts[0], older)
	if reason := m.members(m.hosts[0].name); !strings.Contains(reason, fmt.Sprintf("this binary knows %d", op.FeatureLevel)) {
		t.Errorf("the reason of the older binary is %q", reason)
	}
	m.work()
	m.restart(m.hosts[0], newer)
	m.members("")
	m.work()
}
