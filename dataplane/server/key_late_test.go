package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// lateBody is a body that calls a function before its first read.
type lateBody struct {
	before func()
	io.Reader
}

func (b *lateBody) Read(p []byte) (int, error) {
	if b.before != nil {
		b.before()
		b.before = nil
	}
	return b.Reader.Read(p)
}

// A body may take half a minute, and the key may be revoked or demoted in the meantime. The request then
// grants no rights that the key has lost, because they would outlast the key.
func TestRightsAreGivenByThoseThatOneHasNow(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	must := func(method, path, body string, status int) {
		t.Helper()
		if a := n.ask(method, "/api/v1/auth"+path, n.admin, body); a.status != status {
			t.Fatalf("%s %s %s: %d %s", method, path, body, a.status, a.body)
		}
	}
	must("PUT", "/roles/hand", `{"permissions":["job.work"]}`, 201)
	other := n.key(tenancy.Key{Roles: []tenancy.Role{"hand"}})
	asks := []struct{ method, path, body string }{
		{"POST", "/keys", `{"roles":["hand"]}`},
		{"PUT", "/keys/" + keyID(other), `{"roles":["hand"],"name":"mine"}`},
		{"POST", "/keys/" + keyID(other) + "/rotate", `{"overlap":"0s"}`},
		{"PUT", "/roles/hand", `{"permissions":["job.work","key.manage"]}`},
		{"PUT", "/roles/another", `{"permissions":["job.work"]}`},
		{"POST", "/roles", `{"name":"another","permissions":["job.work"]}`},
		{"DELETE", "/keys/" + keyID(other), `{}`},
		{"DELETE", "/roles/hand", `{}`},
	}
	for _, c := range []struct {
		what   string
		change func(id string)
		status int
	}{
		{"is revoked", func(id string) { must("DELETE", "/keys/"+id, "", 200) }, http.StatusUnauthorized},
		{"is disabled", func(id string) { must("PUT", "/keys/"+id, `{"roles":["clerk"],"enabled":false}`, 200) }, http.StatusUnauthorized},
		{"gets another role", func(id string) { must("PUT", "/keys/"+id, `{"roles":["readonly"]}`, 200) }, http.StatusForbidden},
		{"gets a scope", func(id string) { must("PUT", "/keys/"+id, `{"roles":["clerk"],"queue_scope":["a"]}`, 200) }, http.StatusForbidden},
		{"has a role that grants less", func(string) { must("PUT", "/roles/clerk", `{"permissions":["key.manage"]}`, 200) }, http.StatusForbidden},
	} {
		for _, ask := range asks {
			n.ask("PUT", "/api/v1/auth/roles/clerk", n.admin, `{"permissions":["key.manage","job.work"]}`)
			clerk := n.key(tenancy.Key{Roles: []tenancy.Role{"clerk"}})
			var before []state.KV
			body := &lateBody{func() { c.change(keyID(clerk)); before = n.dump() }, strings.NewReader(ask.body)}
			r := httptest.NewRequest(ask.method, "/api/v1/auth"+ask.path, body)
			r.Header.Set("X-API-Key", clerk)
			r.Header.Set("Idempotency-Key", "x") // so that an empty body is read, for its hash
			if w := serveOnce(n.server, r); w.Code != c.status {
				t.Errorf("%s %s by a key that %s meanwhile: %d %s, want %d", ask.method, ask.path, c.what, w.Code, w.Body, c.status)
			}
			n.same(before)
		}
	}
}
