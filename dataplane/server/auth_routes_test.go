package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// asked is a route or a procedure of a server. The files of other protocols add theirs to ways.
type asked struct {
	name       string // "GET /api/v1/jobs/{id}"
	permission tenancy.Permission
	request    func() (method, path, body string, header map[string]string)
}

var ways = []func(*server.Server) []asked{routesAsked}

func routesAsked(s *server.Server) (all []asked) {
	for _, route := range s.Routes() {
		if route.Permission == serve.Open {
			continue
		}
		all = append(all, asked{route.Method + " " + route.Path, route.Permission, func() (string, string, string, map[string]string) {
			return route.Method, sample(route.Path), harmless(sample(route.Path)), nil
		}})
	}
	return all
}

// knock sends the request with a credential.
func (n *node) knock(a asked, key string) answer {
	n.t.Helper()
	method, path, body, header := a.request()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := serveOnce(n.server, r)
	return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
}

// Every request with a credential that does not permit it is refused with the same status and code, and
// changes nothing.
func TestWhoMayNotComeIn(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	admin, ctx := n.client(n.admin), t.Context()
	// For each permission, a custom role that grants all others.
	without := map[tenancy.Permission]string{}
	for _, missing := range tenancy.DataPlanePermissions() {
		var rest []string
		for _, p := range tenancy.DataPlanePermissions() {
			if p != missing {
				rest = append(rest, string(p))
			}
		}
		name := "all-but-" + string(missing)
		if _, err := admin.PutRole(ctx, name, api.RoleRequest{Permissions: rest}, 0); err != nil {
			t.Fatal(err)
		}
		without[missing] = n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Role(name)}})
	}
	all := tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}}
	gone, off, turned := n.key(all), n.key(all), n.key(all)
	n.revoke(gone)
	no := false
	if _, err := admin.SetKey(ctx, keyID(off), api.SetKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Roles: []string{"admin"}}, Enabled: &no}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RotateKey(ctx, keyID(turned), api.RotateRequest{Overlap: "0s"}); err != nil {
		t.Fatal(err)
	}
	stranger, _, _, err := keyring.New(strings.NewReader(strings.Repeat("9876543210", 100)), keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	hostKey, _, _, err := keyring.New(strings.NewReader(strings.Repeat("9876543210", 100)), keyring.Host)
	if err != nil {
		t.Fatal(err)
	}
	strangers := map[string]string{
		"no key": "", "garbage": "letmein", "a key cut off": n.admin[:len(n.admin)-4], "a key of nobody": stranger, "a key of another kind": hostKey,
		"an expired key":     n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, ExpiresAt: time.Now().Add(-time.Second)}),
		"a revoked key":      gone,
		"a disabled key":     off,
		"a secret of before": turned,
		"two keys at once":   n.admin + " " + n.admin,
	}
	before := n.dump()
	count := 0
	for _, way := range ways {
		for _, a := range way(n.server) {
			for what, key := range strangers {
				if got := n.knock(a, key); got.status != 401 || got.problem(t).Code != api.Unauthorized {
					t.Errorf("%s with %s: %d %s", a.name, what, got.status, got.body)
				}
				count++
			}
			if got := n.knock(a, without[a.permission]); got.status != 403 || got.problem(t).Code != api.Forbidden || !strings.Contains(got.problem(t).Error, string(a.permission)) {
				t.Errorf("%s with a role of all but %s: %d %s", a.name, a.permission, got.status, got.body)
			}
			count++
		}
	}
	n.same(before)
	if count < 1000 {
		t.Errorf("only %d refusals", count)
	}
}

// A custom role permits what it grants and nothing else, for each permission alone.
func TestWhatEachPermissionOpens(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	admin, ctx := n.client(n.admin), t.Context()
	for _, p := range tenancy.DataPlanePermissions() {
		name := "only-" + string(p)
		if _, err := admin.PutRole(ctx, name, api.RoleRequest{Permissions: []string{string(p)}}, 0); err != nil {
			t.Fatal(err)
		}
		key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Role(name)}})
		for _, way := range ways {
			for _, a := range way(n.server) {
				got := n.knock(a, key)
				// A key that may create keys still cannot grant more than it has.
				more := got.status == 403 && a.permission == p && strings.Contains(string(got.body), "the role readonly has the right")
				if opens := got.status != 401 && got.status != 403; opens != (a.permission == p) && !more {
					t.Errorf("%s with %s alone: %d %s", a.name, p, got.status, got.body)
				}
			}
		}
	}
}
