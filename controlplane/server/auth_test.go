package server

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// sample fills in the wildcards of a path.
func sample(path, org, ns string) string {
	return strings.NewReplacer("{org}", org, "{ns}", ns, "{id}", "nobody", "{host}", "nobody").Replace(path)
}

// audited returns the number of changes so far.
func (f *front) audited() (changes int64) {
	f.t.Helper()
	var last int64
	for {
		rows, err := f.store.Audit(f.t.Context(), tenancy.EveryOrg, last, store.MaxPage)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(rows) == 0 {
			return changes
		}
		for _, row := range rows {
			if row.Refused == "" {
				changes++
			}
		}
		last = rows[len(rows)-1].Seq
	}
}

// service signs a service token, valid or not.
func service(t *testing.T, key token.Key, subject string, role tenancy.Role, audience string, now time.Time) string {
	t.Helper()
	text, err := token.Sign(key, token.Claims{Subject: subject, Role: string(role), Audience: audience}, now)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// world is a front with one caller of each kind.
type world struct {
	*front
	acme, ns string                  // an organisation and its namespace
	tenants  map[tenancy.Role]string // acme's cloud tokens by role
	strange  string                  // another organisation's admin
	members  map[string]string       // valid and invalid service tokens
	joiners  map[string]string       // fleet credentials
	nobodies map[string]string       // credentials that are valid nowhere
}

func startWorld(t *testing.T) *world {
	t.Helper()
	f := startFront(t)
	w := &world{front: f, acme: f.org("acme"), tenants: map[tenancy.Role]string{}}
	hostID, hostCredential := f.host("h1", keyring.Host)
	gatewayID, gatewayCredential := f.host("g1", keyring.Gateway)
	fallenID, fallen := f.host("h2", keyring.Host)
	w.ns = f.namespace("acme", "orders")
	for _, role := range []tenancy.Role{tenancy.Admin, tenancy.Operator, tenancy.ReadOnly} {
		w.tenants[role] = f.credential(keyring.Org, w.acme, role)
	}
	w.strange = f.credential(keyring.Org, f.org("other"), tenancy.Admin)
	w.joiners = map[string]string{"a host's credential": hostCredential, "a gateway's credential": gatewayCredential}
	f.revoke(fallen)
	revoked := f.credential(keyring.Org, w.acme, tenancy.Admin)
	f.revoke(revoked)
	expired := f.keep(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, ExpiresAt: f.now().Add(time.Hour)}, keyring.Org, w.acme)
	f.ahead.Add(int64(time.Hour))
	w.members = map[string]string{"a host": f.join(hostCredential, "http://h1.test"), "a gateway": f.join(gatewayCredential, "")}
	unknown, _, _, err := keyring.New(rand.Reader, keyring.Org)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := f.server.cfg.Signer.Key()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := token.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	admin := w.tenants[tenancy.Admin]
	w.nobodies = map[string]string{
		"no key": "", "garbage": "cv_org_garbage", "a token of nobody": unknown, "expired": expired, "revoked": revoked,
		"the admin's, mistyped":                 admin[:len(admin)-1] + "!",
		"a namespace's key":                     f.credential(keyring.Namespace, w.ns, tenancy.Admin),
		"a revoked fleet credential":            fallen,
		"a token whose credential was revoked":  service(t, ours, fallenID, tenancy.HostMember, token.ControlPlane, f.now()),
		"an expired service token":              service(t, ours, hostID, tenancy.HostMember, token.ControlPlane, f.now().Add(-token.Lifetime-token.Leeway)),
		"a token that somebody else has signed": service(t, theirs, hostID, tenancy.HostMember, token.ControlPlane, f.now()),
		"a token of nobody's":                   service(t, ours, "host_nobody", tenancy.HostMember, token.ControlPlane, f.now()),
		"a host's for hosts":                    service(t, ours, hostID, tenancy.HostMember, token.Hosts, f.now()),
		"a gateway's for hosts":                 service(t, ours, gatewayID, tenancy.GatewayMember, token.Hosts, f.now()),
		"a host's that says gateway":            service(t, ours, hostID, tenancy.GatewayMember, token.ControlPlane, f.now()),
		"a gateway's that says host":            service(t, ours, gatewayID, tenancy.HostMember, token.ControlPlane, f.now()),
		"another audience":                      service(t, ours, hostID, tenancy.HostMember, "elsewhere", f.now()),
	}
	return w
}

// Each route accepts the callers that the table allows and refuses all others.
func TestAuthorisation(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	before := w.audited()
	refused := func(r serve.Route, who, key string, status int, code api.Code) {
		t.Helper()
		a := w.send(r.Method, sample(r.Path, "acme", w.ns), key, "{}")
		if a.status != status || a.problem(t).Code != code || strings.Contains(string(a.body), w.acme) {
			t.Errorf("%s %s with %s: %d %s, want %d", r.Method, r.Path, who, a.status, a.body, status)
		}
	}
	for _, r := range w.server.routes() {
		if r.Permission == serve.Open && !forMembers(r) {
			if a := w.send(r.Method, sample(r.Path, "acme", w.ns), "", ""); a.status == 401 || a.status == 403 {
				t.Errorf("%s %s is open and answers %d %s", r.Method, r.Path, a.status, a.body)
			}
			continue
		}
		for who, key := range w.nobodies {
			refused(r, who, key, 401, api.Unauthorized)
		}
		for role, key := range w.tenants {
			switch {
			case forMembers(r):
				refused(r, string(role), key, 401, api.Unauthorized)
			case !role.Grants(r.Permission):
				refused(r, string(role), key, 403, api.Forbidden)
			}
		}
		for who, key := range w.members {
			if !forMembers(r) {
				refused(r, who, key, 401, api.Unauthorized)
			}
		}
		for who, key := range w.joiners {
			switch {
			case forMembers(r):
				refused(r, who, key, 401, api.Unauthorized)
			case r.Path != wire.JoinPath:
				refused(r, who, key, 403, api.Forbidden)
			}
		}
		switch tenant := strings.Contains(r.Path, "{org}") || strings.Contains(r.Path, "{ns}"); {
		case forMembers(r):
			refused(r, "an operator's key", w.operator, 401, api.Unauthorized)
		case r.Path == wire.JoinPath:
			refused(r, "an operator's key", w.operator, 403, api.Forbidden)
		case tenant && !r.Unbuilt && tenancy.Admin.Grants(r.Permission):
			// FORBIDDEN would reveal that the namespace exists.
			refused(r, "another organisation's admin", w.strange, 404, api.NotFound)
		}
	}
	if after := w.audited(); after != before {
		t.Errorf("%d changes were made by those who were refused", after-before)
	}
}

// An authorised caller gets an answer.
func TestAuthorised(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	for _, r := range w.server.routes() {
		answers := func(who, key string) {
			t.Helper()
			var header []string
			if r.Unbuilt { // and says so also to a write that depends on something
				header = []string{`If-Match: "1"`, "If-None-Match: *"}
			}
			a := w.send(r.Method, sample(r.Path, "acme", "nobody"), key, "{}", header...)
			if a.status == 401 || a.status == 403 || a.status >= 500 && a.status != 501 {
				t.Errorf("%s %s with %s: %d %s", r.Method, r.Path, who, a.status, a.body)
			}
			if r.Unbuilt && (a.status != 501 || a.problem(t).Code != api.Unsupported || !strings.Contains(a.problem(t).Error, r.Path)) {
				t.Errorf("%s %s is not built and answers %d %s", r.Method, r.Path, a.status, a.body)
			}
		}
		for role, key := range w.tenants {
			if role.Grants(r.Permission) {
				answers(string(role), key)
			}
		}
		if tenancy.CloudOperator.Grants(r.Permission) {
			answers("an operator's key", w.operator)
		}
		if r.Path == wire.JoinPath {
			for who, key := range w.joiners {
				w.join(key, map[string]string{"a host's credential": "http://h1.test"}[who])
			}
		}
		if r.Path == wire.ReportPath {
			for who, key := range w.members {
				if a := w.send(r.Method, r.Path, key, `{"sequence":1}`); a.status != 200 {
					t.Errorf("report of %s: %d %s", who, a.status, a.body)
				}
			}
		}
	}
}

// A caller's lists show only the resources of its own organisation.
func TestListsShowOnlyOnesOwn(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	orgs, err := w.cloud(w.strange).Orgs(t.Context())
	if err != nil || len(orgs) != 1 || orgs[0].Name != "other" {
		t.Errorf("another's organisations: %+v, %v", orgs, err)
	}
	if orgs, err = w.cloud(w.operator).Orgs(t.Context()); err != nil || len(orgs) != 2 {
		t.Errorf("an operator's organisations: %+v, %v", orgs, err)
	}
	if ops, err := w.cloud(w.strange).Operations(t.Context(), ""); err != nil || len(ops) != 0 {
		t.Errorf("another's operations: %+v, %v", ops, err)
	}
	if _, err := w.cloud(w.strange).Operations(t.Context(), "acme"); api.CodeOf(err) != api.NotFound {
		t.Errorf("operations of another's: %v", err)
	}
	ops, err := w.cloud(w.operator).Operations(t.Context(), "acme")
	if err != nil || len(ops) != 1 {
		t.Fatalf("operations of acme: %+v, %v", ops, err)
	}
	if _, err := w.cloud(w.strange).Operation(t.Context(), ops[0].ID); api.CodeOf(err) != api.NotFound {
		t.Errorf("an operation of another's: %v", err)
	}
	if _, err := w.cloud(w.operator).Operations(t.Context(), ""); api.CodeOf(err) != api.ValidationError {
		t.Errorf("an operator's operations: %v", err)
	}
	if _, err := w.cloud(w.strange).Namespace(t.Context(), "orders"); api.CodeOf(err) != api.NotFound {
		t.Errorf("a namespace by name, from another organisation: %v", err)
	}
}
