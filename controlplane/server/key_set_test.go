package server

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// made creates a credential through the API and returns its id and its text.
func (f *front) made(path, by string, roles ...string) (id, text string) {
	f.t.Helper()
	body, err := json.Marshal(api.CreateKeyRequest{Name: "ci", Roles: roles})
	if err != nil {
		f.t.Fatal(err)
	}
	a := f.send("POST", path, by, string(body))
	var k api.CloudKey
	if err := json.Unmarshal(a.body, &k); err != nil || a.status != http.StatusCreated {
		f.t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	return k.ID, k.APIKey
}

// TestSetKey changes a namespace's key and a cloud token. The change takes effect at once, for hosts and
// gateways too. An old version is refused.
func TestSetKey(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	ns := f.namespace("acme", "orders")
	const keys = "/cloud/v1/namespaces/orders/keys"
	id, _ := f.made(keys, admin, "worker")
	shown := func() string {
		t.Helper()
		docs, err := f.store.Docs(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			for _, k := range d.Keys {
				if d.Namespace == ns && k.ID == id {
					return strings.Join(k.Roles, " ") + " in " + strings.Join(k.QueueScope, " ")
				}
			}
		}
		return "nobody"
	}
	got := f.send("GET", keys+"/"+id, admin, "")
	first := got.header.Get("ETag")
	if first == "" {
		t.Fatalf("a key without a version: %v", got.header)
	}
	a := f.send("PUT", keys+"/"+id, admin, `{"name":"new","roles":["readonly"],"queue_scope":["a.*"]}`, "If-Match: "+first)
	var k api.Key
	if err := json.Unmarshal(a.body, &k); err != nil {
		t.Fatal(err)
	}
	if a.status != 200 || a.header.Get("ETag") == first {
		t.Errorf("%d with the ETag %s, which was %s", a.status, a.header.Get("ETag"), first)
	}
	if k.Name != "new" || !k.Enabled || k.ID != id {
		t.Errorf("key %s became %s", id, a.body)
	}
	if got := shown(); got != "readonly in a.*" {
		t.Errorf("hosts are shown %s", got)
	}
	if a := f.send("PUT", keys+"/"+id, admin, `{"roles":["worker"]}`, "If-Match: "+first); a.status != 412 {
		t.Errorf("of an old version: %d %s", a.status, a.body)
	}
	if a := f.send("PUT", keys+"/"+id, admin, `{"roles":["worker"],"enabled":false}`); a.status != 200 || !strings.Contains(string(a.body), `"enabled":false`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := shown(); got != "nobody" {
		t.Errorf("a disabled key is shown to hosts as %s", got)
	}
	if a := f.send("POST", keys+"/"+id+"/rotate", admin, `{}`); a.status != 409 {
		t.Errorf("a disabled key is rotated: %d %s", a.status, a.body)
	}
	if a := f.send("PUT", keys+"/"+id, admin, `{"roles":["worker"],"enabled":true}`); a.status != 200 || shown() != "worker in " {
		t.Errorf("%d %s, shown %s", a.status, a.body, shown())
	}

	const tokens = "/cloud/v1/orgs/acme/keys"
	id, text := f.made(tokens, admin, "readonly")
	if a := f.send("PUT", tokens+"/"+id, admin, `{"roles":["operator"],"enabled":false}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := f.send("GET", "/cloud/v1/orgs/acme", text, ""); a.status != 401 {
		t.Errorf("a disabled token: %d %s", a.status, a.body)
	}
}

// TestSetKeyRefuses checks that a caller neither grants nor takes rights beyond its own, and that the last
// administrator stays.
func TestSetKeyRefuses(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	const tokens, keys = "/cloud/v1/orgs/acme/keys", "/cloud/v1/namespaces/orders/keys"
	_, adminID, _ := keyring.Parse(admin)
	worker, _ := f.made(keys, admin, "worker")
	token, _ := f.made(tokens, admin, "readonly")
	for _, c := range []struct {
		path, by, body string
		status         int
		says           string
	}{
		{keys + "/" + worker, admin, `{}`, 400, "roles"},
		{keys + "/" + worker, admin, `{"roles":["king"]}`, 400, "roles[0]"},
		{keys + "/" + worker, admin, `{"roles":["worker"],"queue_scope":["["]}`, 400, "queue_scope[0]"},
		{keys + "/" + worker, admin, `{"roles":["worker"],"expires_at":"2001-01-01T00:00:00Z"}`, 400, "expires_at"},
		{keys + "/" + worker, admin, `{"roles":["worker"],"colour":"red"}`, 400, "colour"},
		{keys + "/" + token, admin, `{"roles":["worker"]}`, 404, token},
		{tokens + "/nobody", admin, `{"roles":["admin"]}`, 404, "nobody"},
		{tokens + "/" + token, admin, `{"roles":["worker"]}`, 400, "roles[0]"},
		{tokens + "/" + adminID, admin, `{"roles":["readonly"]}`, 409, "the last that administers"},
		{tokens + "/" + adminID, admin, `{"roles":["admin"],"enabled":false}`, 409, "the last that administers"},
		{tokens + "/" + adminID, admin, `{"roles":["admin"],"expires_at":"2090-01-01T00:00:00Z"}`, 409, "the last that administers"},
		{tokens + "/" + adminID, f.operator, `{"roles":["readonly"]}`, 409, "the last that administers"},
	} {
		if a := f.send("PUT", c.path, c.by, c.body); a.status != c.status || !strings.Contains(string(a.body), c.says) {
			t.Errorf("PUT %s %s: %d %s, want %d and %q", c.path, c.body, a.status, a.body, c.status, c.says)
		}
	}
	org := f.send("GET", "/cloud/v1/orgs/acme", admin, "")
	var o api.Org
	if err := json.Unmarshal(org.body, &o); err != nil {
		t.Fatal(err)
	}
	scoped := f.keep(tenancy.Key{Name: "scoped", Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"a.*"}}, keyring.Org, o.ID)
	for _, body := range []string{`{"roles":["worker"],"queue_scope":["b.*"]}`, `{"roles":["worker"],"queue_scope":["a.*"]}`} {
		if a := f.send("PUT", keys+"/"+worker, scoped, body); a.status != 403 {
			t.Errorf("a token for some queues changes a key for all by %s: %d %s", body, a.status, a.body)
		}
	}
	second, _ := f.made(tokens, admin, "admin")
	if a := f.send("PUT", tokens+"/"+adminID, admin, `{"roles":["readonly"]}`); a.status != 200 {
		t.Errorf("with token %s beside it: %d %s", second, a.status, a.body)
	}
	if a := f.send("PUT", tokens+"/"+second, admin, `{"roles":["readonly"]}`); a.status != 403 {
		t.Errorf("by one that may only read now: %d %s", a.status, a.body)
	}
}

// TestRevokeKeyConditions checks that DELETE honours If-Match and never removes the last administrator of an
// organisation. Rotating that token leaves another.
func TestRevokeKeyConditions(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	const tokens, keys = "/cloud/v1/orgs/acme/keys", "/cloud/v1/namespaces/orders/keys"
	_, adminID, _ := keyring.Parse(admin)
	worker, _ := f.made(keys, admin, "worker")
	etag := f.send("GET", keys+"/"+worker, admin, "").header.Get("ETag")
	if a := f.send("PUT", keys+"/"+worker, admin, `{"roles":["readonly"]}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := f.send("DELETE", keys+"/"+worker, admin, "", "If-Match: "+etag); a.status != 412 {
		t.Errorf("of an old version: %d %s", a.status, a.body)
	}
	etag = f.send("GET", keys+"/"+worker, admin, "").header.Get("ETag")
	if a := f.send("DELETE", keys+"/"+worker, admin, "", "If-Match: "+etag); a.status != 200 {
		t.Errorf("of the present version: %d %s", a.status, a.body)
	}
	ending := f.send("POST", tokens, admin, `{"roles":["admin"],"expires_at":"2090-01-01T00:00:00Z"}`)
	if ending.status != http.StatusCreated {
		t.Fatalf("%d %s", ending.status, ending.body)
	}
	for _, by := range []string{admin, f.operator} {
		if a := f.send("DELETE", tokens+"/"+adminID, by, ""); a.status != 409 || !strings.Contains(string(a.body), "the last that administers") {
			t.Errorf("the last administrator: %d %s", a.status, a.body)
		}
	}
	a := f.send("POST", tokens+"/"+adminID+"/rotate", admin, `{}`)
	var heir api.CloudKey
	if err := json.Unmarshal(a.body, &heir); err != nil || a.status != http.StatusCreated {
		t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	if a := f.send("DELETE", tokens+"/"+heir.ID, heir.APIKey, ""); a.status != 409 {
		t.Errorf("the heir of the last administrator: %d %s", a.status, a.body)
	}
	second, _ := f.made(tokens, heir.APIKey, "admin")
	if a := f.send("DELETE", tokens+"/"+heir.ID, heir.APIKey, ""); a.status != 200 {
		t.Errorf("with token %s beside it: %d %s", second, a.status, a.body)
	}
}

// TestRotationChangesTheVersion checks that a PUT with a version from before a rotation is refused, because it
// would replace the end that the rotation gave to the old key.
func TestRotationChangesTheVersion(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	const keys = "/cloud/v1/namespaces/orders/keys"
	id, _ := f.made(keys, admin, "worker")
	before := f.send("GET", keys+"/"+id, admin, "").header.Get("ETag")
	if a := f.send("POST", keys+"/"+id+"/rotate", admin, `{"overlap":"1h"}`); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	got := f.send("GET", keys+"/"+id, admin, "")
	if after := got.header.Get("ETag"); before == "" || after == before {
		t.Errorf("the ETag %s became %s", before, after)
	}
	if a := f.send("PUT", keys+"/"+id, admin, `{"roles":["worker"]}`, "If-Match: "+before); a.status != 412 {
		t.Errorf("of a version before the rotation: %d %s", a.status, a.body)
	}
	if a := f.send("GET", keys+"/"+id, admin, ""); string(a.body) != string(got.body) {
		t.Errorf("%s became %s", got.body, a.body)
	}
}

// readFunc is an io.Reader.
type readFunc func(p []byte) (int, error)

func (read readFunc) Read(p []byte) (int, error) { return read(p) }

// TestNewKeysAsJudged checks that no key is created if the caller's token, or the key to rotate, changes
// after the caller's rights were checked. The server reads random bytes between the check and the proposal.
func TestNewKeysAsJudged(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	ns := f.namespace("acme", "orders")
	const tokens, keys = "/cloud/v1/orgs/acme/keys", "/cloud/v1/namespaces/orders/keys"
	var meanwhile func()
	f.server.cfg.Rand = readFunc(func(p []byte) (int, error) {
		if change := meanwhile; change != nil {
			meanwhile = nil
			change()
		}
		return rand.Read(p)
	})
	for what, c := range map[string]struct {
		path      string // after the key's or token's path; "" = create
		meanwhile func(caller, key string)
	}{
		"create with a revoked token": {"", func(caller, _ string) { f.revoke(caller) }},
		"rotate with a revoked token": {"/rotate", func(caller, _ string) { f.revoke(caller) }},
		"rotate a promoted key": {"/rotate", func(_, key string) {
			c, _ := f.store.Credential(key)
			f.propose(&store.SetCredential{
				Meta: &store.Meta{Principal: "test"}, Id: key, Roles: []string{"admin"}, Enabled: true, JudgedVersion: c.Version,
			})
		}},
	} {
		for path, owner := range map[string]string{tokens: f.acme(), keys: ns} {
			caller := f.keep(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}}, keyring.Org, f.acme())
			key, _ := f.made(path, admin, "readonly")
			at, body := path, `{"roles":["readonly"]}`
			if c.path != "" {
				at, body = path+"/"+key+c.path, "{}"
			}
			var left []string
			meanwhile = func() {
				c.meanwhile(caller, key)
				left = f.credentials(owner)
			}
			a := f.send("POST", at, caller, body)
			if a.status != 409 || a.problem(t).Code != api.Conflict {
				t.Errorf("%s at %s: %d %s", what, path, a.status, a.body)
			}
			if got := f.credentials(owner); left == nil || !slices.Equal(got, left) {
				t.Errorf("%s at %s: the credentials %v became %v", what, path, left, got)
			}
		}
	}
}

// credentials lists the ids of an owner's credentials.
func (f *front) credentials(owner string) (ids []string) {
	f.t.Helper()
	all, err := f.store.Credentials(f.t.Context(), owner)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}
