package server

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestClusters checks that operators see the clusters of all organisations in pages: the host of each
// cluster, the state that the host reports, and the reason if the cluster is not served.
func TestClusters(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	host, credential := f.host("one", keyring.Host)
	other := f.org("other")
	placed, waiting := f.namespace("acme", "orders"), f.namespace(other, "mail")
	service := f.join(credential, "http://one.test")
	f.settle(placed, host)
	if a := f.send("POST", wire.ReportPath, service, `{"sequence":1,"cells":[{"namespace":"`+placed+`","generation":1,"state":"failed","error":"disk full"}]}`); a.status != 200 {
		t.Fatalf("a report: %d %s", a.status, a.body)
	}
	ops := f.cloud(f.operator)
	h, err := ops.Host(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ops.Cluster(t.Context(), placed)
	if err != nil {
		t.Fatal(err)
	}
	want := api.CloudCluster{
		Resource: api.Resource{ID: placed, Name: "orders", Generation: 1}, Org: f.acme(), Spec: got.Spec,
		Status: api.CloudClusterStatus{
			Phase: api.NamespaceActive, ObservedGeneration: 1, Fault: "host " + host + " does not serve it: disk full",
			Groups: []api.CloudClusterGroup{{Voters: []string{}, Learners: []string{}}},
			Members: []api.CloudClusterMember{{
				Host: host, HostName: "one", HostState: api.StoreServing, Store: h.Status.Store, State: wire.Failed, Generation: 1, Error: "disk full",
			}},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(api.Resource{}, "ResourceVersion", "CreatedAt")); diff != "" {
		t.Errorf("a cluster (-want +got):\n%s", diff)
	}
	if got.Spec.Replicas != 1 || got.Spec.Region != DefaultRegion {
		t.Errorf("its spec is %+v", got.Spec)
	}
	all, err := ops.Clusters(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != placed || all[1].ID != waiting || all[1].Org != other {
		t.Errorf("the clusters: %+v, %v", all, err)
	}
	if a := f.send("GET", cloud+"/clusters?limit=1", f.operator, ""); a.status != 200 || !strings.Contains(string(a.body), placed) || strings.Contains(string(a.body), waiting) || !strings.Contains(string(a.body), `"cursor"`) {
		t.Errorf("the first page: %d %s", a.status, a.body)
	}
	for _, method := range []string{"GET /", "POST /pause-reconcile", "POST /resume-reconcile"} {
		verb, path, _ := strings.Cut(method, " ")
		path = strings.TrimSuffix(path, "/")
		if a := f.send(verb, cloud+"/clusters/orders"+path, f.operator, ""); a.problem(t).Code != api.NotFound {
			t.Errorf("%s of a name: %d %s", method, a.status, a.body)
		}
		if a := f.send(verb, cloud+"/clusters/"+placed+path, admin, ""); a.problem(t).Code != api.Forbidden {
			t.Errorf("%s by a tenant: %d %s", method, a.status, a.body)
		}
	}
	if a := f.send("POST", cloud+"/clusters", f.operator, "{}"); a.problem(t).Code != api.Unsupported || !strings.Contains(string(a.body), "create a namespace") {
		t.Errorf("creating a cluster: %d %s", a.status, a.body)
	}
}
