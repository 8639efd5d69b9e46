package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// rotation is a fleet whose root is replaced: a control plane of three processes, three hosts with a namespace of three
// replicas, and gateways. Operators reach the control plane through the first gateway.
type rotation struct {
	*members
	ctx       context.Context
	door      *proctest.Relay // of the first gateway
	operator  *client.Cloud
	hosts     []*proctest.Process
	first     *proctest.Process // the first gateway
	namespace string
	key       string // of the namespace
	load      *outageLoad
}

// join starts a registered host or gateway for the first time or again, and returns when it listens.
func (r *rotation) join(kind, name string) *proctest.Process {
	r.t.Helper()
	args := []string{kind, "--bind", "127.0.0.1:0", "--data-dir", filepath.Join(r.dir, name+".data"), "--control-plane", r.urls(),
		"--fleet-root", r.root, "--credential-file", filepath.Join(r.dir, name)}
	if kind == "host" {
		args = append(args, "--raft-bind", "127.0.0.1:0")
	} else {
		args = append(args, "--host-wait", "1m") // this machine may be slow
	}
	return start(r.t, "the "+kind+" listens on", args...)
}

// serves waits until a gateway serves the namespace, and returns a client that repeats nothing.
func (r *rotation) serves(gateway *proctest.Process) *client.Client {
	r.t.Helper()
	c := newClient(r.t, "http://"+listening(gateway), r.key)
	eventually(r.t, r.ctx, "the gateway serves the namespace", func() bool { _, err := c.Queues(r.ctx, client.Read{}); return err == nil })
	return c
}

func startRotation(ctx context.Context, t *testing.T) *rotation {
	t.Helper()
	r := &rotation{ctx: ctx, door: proctest.NewRelay(t), load: &outageLoad{t: t}}
	r.members = startMembers(t, 3, r.door.URL)
	for i := range 3 {
		name := fmt.Sprintf("host-%d", i+1)
		r.register(ctx, "host", name)
		r.hosts = append(r.hosts, r.join("host", name))
	}
	r.register(ctx, "gateway", "gateway-1")
	r.first = r.join("gateway", "gateway-1")
	r.door.To(listening(r.first))
	key, err := os.ReadFile(filepath.Join(r.dataDir(0), operatorKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	r.operator = newCloud(t, r.door.URL, strings.TrimSpace(string(key)), client.WithRetries(8))
	org, err := r.operator.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := r.operator.CreateNamespace(ctx, org.ID, api.CreateNamespaceRequest{Name: "a", Spec: &api.NewNamespaceSpec{Replicas: new(3)}})
	if err == nil {
		_, err = r.operator.WaitOperation(ctx, made.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.namespace = made.Resource.ID
	issued, err := r.operator.CreateNamespaceKey(ctx, r.namespace, api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "load", Roles: []string{"admin"}}})
	if err != nil {
		t.Fatal(err)
	}
	r.key = issued.APIKey
	return r
}

// work starts workers at a gateway that repeat no request.
func (r *rotation) work(ctx context.Context, name string, gateway *proctest.Process) {
	r.t.Helper()
	for n := range 2 {
		c := r.serves(gateway)
		r.load.work(ctx, fmt.Sprintf("%s-%d", name, n), func(queue string) error { return round(ctx, c, queue) })
	}
}

// inState waits until the roots have the states, each with the members that it waits for, as "state member ...". It
// returns the newest root.
func (r *rotation) inState(want ...string) api.FleetRoot {
	r.t.Helper()
	var all []api.FleetRoot
	var err error
	defer func() {
		if r.t.Failed() {
			r.t.Logf("the roots are %+v, %v", all, err)
		}
	}()
	eventually(r.t, r.ctx, fmt.Sprintf("the roots are %q", want), func() bool {
		all, err = r.operator.FleetRoots(r.ctx)
		return err == nil && slices.EqualFunc(all, want, func(root api.FleetRoot, state string) bool {
			return strings.Join(append([]string{root.State}, root.WaitsFor...), " ") == state
		})
	})
	return all[len(all)-1]
}

// killLeader kills the leading process of the control plane, and starts it again after tenants have done jobs without it and
// the others have taken a request.
func (r *rotation) killLeader(when string) {
	r.t.Helper()
	i := r.leader(r.ctx)
	r.all[i].Kill(r.t)
	r.relays[i].To("")
	r.load.progress(r.ctx, when+", without the leading process")
	eventually(r.t, r.ctx, "the others lead", func() bool {
		_, err := r.operator.CreateOrg(r.ctx, api.CreateOrgRequest{Name: strings.ReplaceAll(when, " ", "-")})
		return err == nil || api.CodeOf(err) == api.Conflict // a try whose answer was lost
	})
	r.start(i)
	r.leader(r.ctx)
}

// TestTheRootRotatesUnderLoad replaces the fleet's root while tenants work through two gateways, and kills the leading
// process of the control plane after each step. No request fails, the next leader goes on with the rotation, and at the
// end every part reaches every other with certificates of the new root alone.
//
// Two more gateways make the rotation wait, so that a kill falls between the steps: the root is announced while one of
// them is away, and signs while the other is.
func TestTheRootRotatesUnderLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r := startRotation(ctx, t)
	gateways := map[string]*proctest.Process{}
	for _, name := range []string{"gateway-2", "gateway-3", "gateway-4"} {
		r.register(ctx, "gateway", name)
		gateways[name] = r.join("gateway", name)
		r.serves(gateways[name])
	}
	away := func(name string) {
		t.Helper()
		if err := gateways[name].Terminate(t); err != nil {
			t.Fatal(err)
		}
	}
	working, stop := context.WithCancel(ctx)
	defer r.load.all.Wait()
	defer stop()
	r.work(working, "gateway-1", r.first)
	r.work(working, "gateway-2", gateways["gateway-2"])
	r.load.progress(ctx, "at first")
	old := r.inState("signing")

	away("gateway-3")
	if _, err := r.operator.RotateFleetRoot(ctx, api.RotateFleetRootRequest{Announce: "0s"}); err != nil {
		t.Fatal(err)
	}
	young := r.inState("signing", "announced gateway-3")
	r.killLeader("while the root is announced")
	r.inState("signing", "announced gateway-3")

	away("gateway-4")
	gateways["gateway-3"] = r.join("gateway", "gateway-3")
	r.inState("retiring gateway-4", "signing")
	r.killLeader("while the new root signs")
	r.inState("retiring gateway-4", "signing")

	gateways["gateway-4"] = r.join("gateway", "gateway-4")
	if last := r.inState("signing"); last.Fingerprint != young.Fingerprint || last.Fingerprint == old.Fingerprint {
		t.Errorf("at the end the root is %s, not %s", last.Fingerprint, young.Fingerprint)
	}
	r.killLeader("after the old root is retired")
	r.load.progress(ctx, "at the end")
	stop()
	r.load.all.Wait()
	r.connectAgain(young, gateways)
}

// connectAgain checks that every part has the root alone, and that new connections are made with it: of operators with each
// process of the control plane, of a gateway that starts with the hosts, and of a host that starts with the other hosts.
func (r *rotation) connectAgain(root api.FleetRoot, gateways map[string]*proctest.Process) {
	t, ctx := r.t, r.ctx
	t.Helper()
	for i := range r.all {
		eventually(t, ctx, "the operators' file has the new root alone", func() bool {
			text, err := os.ReadFile(filepath.Join(r.dataDir(i), rootFile))
			return err == nil && string(text) == root.Certificate
		})
		if _, err := r.members.operator(i, client.WithRetries(5)).FleetRoots(ctx); err != nil {
			t.Errorf("an operator at process %d: %v", i+1, err)
		}
	}
	for _, name := range []string{"gateway-1", "gateway-2", "gateway-3", "gateway-4"} {
		path := filepath.Join(r.dir, name+".data", "gateway", certificate.FileName)
		eventually(t, ctx, name+" trusts the new root alone", func() bool {
			m, err := certificate.ReadMember(path, certificate.Gateway, "")
			return err == nil && slices.Equal(m.Bundle.Fingerprints(), []string{root.Fingerprint})
		})
	}
	r.hosts[0].Kill(t)
	r.hosts[0] = r.join("host", "host-1")
	eventually(t, ctx, "all members of the namespace are open", func() bool {
		c, err := r.operator.Cluster(ctx, r.namespace)
		return err == nil && len(c.Status.Members) == 3 && !slices.ContainsFunc(c.Status.Members, func(m api.CloudClusterMember) bool {
			return m.HostState != "serving" || m.State != "open"
		})
	})
	if err := gateways["gateway-3"].Terminate(t); err != nil {
		t.Error(err)
	}
	if err := round(ctx, r.serves(r.join("gateway", "gateway-3")), "q"); err != nil {
		t.Error(err)
	}
}
