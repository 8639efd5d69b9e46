package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/engine/cluster"
)

// membershipOf returns how a node with these arguments joins its cluster.
func membershipOf(t *testing.T, env map[string]string, args ...string) *cluster.Config {
	t.Helper()
	cfg, err := load(t, append(args, "--data-dir", t.TempDir()), env, "")
	if err != nil {
		t.Fatal(err)
	}
	http := &net.TCPAddr{IP: net.IPv4zero, Port: 8080}
	token, err := cfg.ready(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	of, err := cfg.membership(http, token)
	if err != nil {
		t.Fatal(err)
	}
	if of != nil {
		t.Cleanup(func() { of.Listener.Close() })
	}
	return of
}

func TestTheDocumentedLinesSayHowANodeComesIn(t *testing.T) {
	t.Parallel()
	token := map[string]string{settings.JoinTokenVariable: strings.Repeat("t", cluster.MinToken)}
	const here = "127.0.0.1:0"
	founder := membershipOf(t, token, "--bootstrap", "--node-id", "node-0", "--raft-bind", here)
	if !founder.Bootstrap || founder.Find != nil || len(founder.Join) > 0 {
		t.Errorf("founder: bootstrap %v, find %v, join %v", founder.Bootstrap, founder.Find, founder.Join)
	}
	if founder.Token != token[settings.JoinTokenVariable] {
		t.Errorf("the founder's token is %q", founder.Token)
	}
	joiner := membershipOf(t, token, "--join", "corvo-0:9400, corvo-1:9400", "--node-id", "node-1", "--raft-bind", here)
	if joiner.Bootstrap || !slices.Equal(joiner.Join, []string{"corvo-0:9400", "corvo-1:9400"}) {
		t.Errorf("joiner: %+v", joiner)
	}
	pod := membershipOf(t, token, "--discover=dns", "--raft-bind", here)
	if pod.Bootstrap || pod.Find == nil || pod.Find.Expect != 3 {
		t.Errorf("pod: %+v", pod)
	}
	peer := membershipOf(t, token, "--peers", "a:1,b:1", "--expect", "2", "--raft-bind", here)
	if at, err := peer.Find.Addresses(t.Context()); err != nil || !slices.Equal(at, []string{"a:1", "b:1"}) || peer.Find.Expect != 2 {
		t.Errorf("peer: %v, %v", at, err)
	}
	if dev := membershipOf(t, nil, "--dev"); dev != nil {
		t.Errorf("--dev listens for others: %+v", dev)
	}
}

func TestAPodsDomain(t *testing.T) {
	t.Parallel()
	names := []string{"corvo-0", "localhost.", "corvo-0.corvo-internal.ns.svc.cluster.local."}
	if got := domainOf("corvo-0", names); got != "corvo-internal.ns.svc.cluster.local" {
		t.Errorf("%q", got)
	}
	if got := domainOf("corvo-0", names[:2]); got != "" {
		t.Errorf("%q", got)
	}
}

// zone is a fake DNS: addresses by name and names by address.
type zone struct{ hosts, names map[string][]string }

var errNoSuchHost = errors.New("no such host")

func (z zone) LookupHost(_ context.Context, host string) ([]string, error) {
	return z.find(z.hosts, host)
}
func (z zone) LookupAddr(_ context.Context, at string) ([]string, error) { return z.find(z.names, at) }
func (z zone) find(in map[string][]string, key string) ([]string, error) {
	if found := in[key]; found != nil {
		return found, nil
	}
	return nil, errNoSuchHost
}

// TestDiscovery checks that pods find each other by the name of their service, which ends a pod's full name.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	const service = "corvo-nodes.ns.svc.cluster.local"
	z := zone{
		hosts: map[string][]string{"corvo-0": {"10.0.0.7"}, "alone": {"10.0.0.9"}, service: {"10.0.0.7", "2001:db8::8"}},
		names: map[string][]string{"10.0.0.7": {"10-0-0-7.pods.", "corvo-0." + service + "."}},
	}
	ctx := t.Context()
	got, err := discover(ctx, z, service, "9400")
	if want := []string{"10.0.0.7:9400", "[2001:db8::8]:9400"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := domainBehind(ctx, z, "corvo-0"); err != nil || got != service {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := discover(ctx, z, "other."+service, "9400"); !errors.Is(err, errNoSuchHost) {
		t.Errorf("a name that is not there: %v", err)
	}
	for _, host := range []string{"alone", "unknown"} { // has no domain, is not in DNS
		if _, err := domainBehind(ctx, z, host); err == nil || !strings.Contains(err.Error(), "--discover-dns-name") {
			t.Errorf("%s: %v", host, err)
		}
	}
}
