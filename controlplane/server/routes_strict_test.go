package server

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

var wildcards = regexp.MustCompile(`\{[^}]*\}`)

// strictRoutes returns the strict routes, each with a sample path.
func strictRoutes() map[string]serve.Route {
	all := map[string]serve.Route{}
	for _, route := range (&Server{}).table() {
		if route.Strict {
			all[route.Method+" "+wildcards.ReplaceAllString(route.Path, "x")] = route
		}
	}
	return all
}

// Every route for people and their tools is strict. Open routes, routes for members of other versions,
// Prometheus's routes and unimplemented routes are lenient.
func TestWhichRoutesAreStrict(t *testing.T) {
	t.Parallel()
	for _, route := range (&Server{}).table() {
		want := strings.HasPrefix(route.Path, cloud+"/") && !route.Unbuilt && route.Path != cloud+"/metrics" && route.Path != cloud+"/openapi.json"
		if route.Strict != want {
			t.Errorf("%s %s: strict is %v", route.Method, route.Path, route.Strict)
		}
	}
}

// A strict route refuses an unknown parameter by its name, and a parameter that is given twice.
func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	for at, route := range strictRoutes() {
		key := admin
		if route.Permission == tenancy.FleetOperate {
			key = f.operator
		}
		method, path, _ := strings.Cut(at, " ")
		a := f.send(method, path+"?limits=1", key, "")
		p := a.problem(t)
		if a.status != http.StatusBadRequest || p.Code != api.ValidationError || !strings.HasPrefix(p.Error, "limits: ") {
			t.Errorf("%s: %d %s", at, a.status, a.body)
		}
		for _, known := range route.Query {
			if !strings.Contains(p.Error, known.Name) {
				t.Errorf("%s does not say that there is %s: %s", at, known.Name, p.Error)
			}
			a := f.send(method, path+"?"+known.Name+"=1&"+known.Name+"=2", key, "")
			if p := a.problem(t); p.Code != api.ValidationError || !strings.HasPrefix(p.Error, known.Name+": is given 2 times") {
				t.Errorf("%s, %s twice: %d %s", at, known.Name, a.status, a.body)
			}
		}
	}
	for path, says := range map[string]string{
		"GET /cloud/v1/openapi.json?x=1":           "",
		"GET /cloud/v1/orgs/acme/members?limit=10": "not built yet", // it will have pages
	} {
		method, path, _ := strings.Cut(path, " ")
		if a := f.send(method, path, admin, ""); a.status == http.StatusBadRequest || !strings.Contains(string(a.body), says) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// The cloud's routes accept all documented parameters.
func TestDocumentedParametersAreTaken(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	page, err := f.cloud(admin).Operations(t.Context(), "acme")
	if err != nil || len(page) == 0 {
		t.Fatalf("%v, %v", page, err)
	}
	for _, target := range []string{
		"orgs?limit=1&cursor=", "orgs/acme/keys?limit=1", "orgs/acme/namespaces?limit=1", "orgs/acme/audit?limit=1",
		"namespaces/orders/keys?limit=1", "operations?org=acme&limit=1", "operations/" + page[0].ID + "?wait=1ms",
		"orgs/acme/usage?group_by=day&from=2026-02-11&to=2026-02-12", "namespaces/orders/usage?group_by=queue",
	} {
		if a := f.send("GET", cloud+"/"+target, admin, ""); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", target, a.status, a.body)
		}
	}
	if a := f.send("GET", cloud+"/hosts?limit=1", f.operator, ""); a.status != http.StatusOK {
		t.Errorf("hosts: %d %s", a.status, a.body)
	}
}

// A route without a body refuses an unknown field in a body, because the client expects an effect.
func TestNoBodyIsIgnored(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	orders := f.namespace("acme", "orders")
	token := f.credential(keyring.Org, f.acme(), tenancy.ReadOnly)
	_, id, _ := keyring.Parse(token)
	ns := cloud + "/clusters/" + orders
	tried := []struct{ method, path, key string }{
		{"DELETE", cloud + "/namespaces/orders", admin},
		{"DELETE", cloud + "/namespaces/orders/keys/x", admin},
		{"DELETE", cloud + "/namespaces/orders/roles/x", admin},
		{"DELETE", cloud + "/orgs/acme/keys/" + id, admin},
		{"DELETE", cloud + "/usage/aside/1", f.operator},
		{"DELETE", cloud + "/hosts/h1", f.operator},
		{"DELETE", cloud + "/processes/control-9", f.operator},
		{"DELETE", cloud + "/fleet-roots/" + f.server.cfg.Authority.Fingerprint(), f.operator},
		{"POST", cloud + "/hosts/h1/drain", f.operator},
		{"POST", cloud + "/hosts/h1/undrain", f.operator},
		{"POST", ns + "/pause-reconcile", f.operator},
		{"POST", ns + "/resume-reconcile", f.operator},
		{"POST", cloud + "/orgs/acme/credits/cr_x/approve", f.operator},
		{"DELETE", cloud + "/operators/x", f.operator},
		{"POST", cloud + "/orgs/acme/usage/corrections/x/approve", f.operator},
		{"DELETE", cloud + "/orgs/acme/spend-limit", admin},
	}
	for _, c := range tried {
		for body, code := range map[string]api.Code{"not json": api.ParseError, `{"foo":1}`: api.ValidationError, `[]`: api.ValidationError} {
			for _, header := range [][]string{nil, {"Idempotency-Key: once"}} {
				if a := f.send(c.method, c.path, c.key, body, header...); a.problem(t).Code != code {
					t.Errorf("%s %s %s %v: %d %s", c.method, c.path, body, header, a.status, a.body)
				}
			}
		}
	}
	bodyless := 0
	for _, route := range strictRoutes() {
		if route.Method != http.MethodGet && route.Request == nil {
			bodyless++
		}
	}
	if bodyless != len(tried) {
		t.Errorf("%d routes have no body, %d are tried", bodyless, len(tried))
	}
	if a := f.send("DELETE", tried[3].path, admin, " {} "); a.status != http.StatusOK {
		t.Errorf("an empty object: %d %s", a.status, a.body)
	}
	if a := f.send("DELETE", tried[0].path, admin, ""); a.status != http.StatusAccepted {
		t.Errorf("nothing was refused for what it is: %d %s", a.status, a.body)
	}
}

// A strict route with a body refuses an unknown field by its name, whatever the path names.
func TestUnknownFieldsAreRefused(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	for at, route := range strictRoutes() {
		if route.Request == nil {
			continue
		}
		key := admin
		if route.Permission == tenancy.FleetOperate {
			key = f.operator
		}
		method, path, _ := strings.Cut(at, " ")
		if a := f.send(method, path, key, `{"foo":1}`); a.problem(t).Code != api.ValidationError || !strings.Contains(string(a.body), "foo") {
			t.Errorf("%s: %d %s", at, a.status, a.body)
		}
	}
}
