package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

const ordersRoles, ordersKeys = "/cloud/v1/namespaces/orders/roles", "/cloud/v1/namespaces/orders/keys"

// shownRole decodes the role in a response.
func shownRole(t *testing.T, a answer) (r api.Role) {
	t.Helper()
	if err := json.Unmarshal(a.body, &r); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return r
}

// TestRoles creates, changes and deletes a custom role beside the built-in ones.
func TestRoles(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	f.namespace("acme", "mail")
	a := f.send("POST", ordersRoles, admin, `{"name":"auditor","permissions":["queue.read","job.read","job.read"]}`)
	if a.status != 201 || a.header.Get("ETag") != `"1"` {
		t.Errorf("made: %d %v %s", a.status, a.header, a.body)
	}
	made := shownRole(t, a)
	if made.CreatedAt == nil {
		t.Error("made at no time")
	}
	want := api.Role{Name: "auditor", Permissions: []string{"job.read", "queue.read"}, CreatedAt: made.CreatedAt}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if a := f.send("POST", ordersRoles, admin, `{"name":"auditor","permissions":["job.read"]}`); a.status != 409 {
		t.Errorf("made twice: %d %s", a.status, a.body)
	}
	if a := f.send("PUT", ordersRoles+"/feeder", admin, `{"permissions":["job.enqueue"]}`, "Idempotency-Key: one"); a.status != 201 {
		t.Errorf("made by PUT: %d %s", a.status, a.body)
	}
	if a := f.send("PUT", ordersRoles+"/feeder", admin, `{"permissions":["job.enqueue"]}`, "Idempotency-Key: one"); a.status != 201 || a.header.Get("ETag") != `"1"` {
		t.Errorf("repeated: %d %v %s", a.status, a.header, a.body)
	}
	if a := f.send("PUT", ordersRoles+"/auditor", admin, `{"name":"auditor","permissions":["job.read"]}`, `If-Match: "1"`); a.status != 200 || a.header.Get("ETag") != `"2"` {
		t.Errorf("replaced: %d %v %s", a.status, a.header, a.body)
	}
	a = f.send("GET", ordersRoles+"/auditor", admin, "")
	if r := shownRole(t, a); a.status != 200 || a.header.Get("ETag") != `"2"` || fmt.Sprint(r.Permissions) != "[job.read]" {
		t.Errorf("read: %d %v %s", a.status, a.header, a.body)
	}
	if r := shownRole(t, f.send("GET", ordersRoles+"/worker", admin, "")); !r.BuiltIn || fmt.Sprint(r.Permissions) != "[job.enqueue job.work job.read queue.read]" {
		t.Errorf("a built-in role: %+v", r)
	}
	var names []string
	for path := ordersRoles + "?limit=2"; path != ""; {
		var page api.Page[api.Role]
		a := f.send("GET", path, admin, "")
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		for _, r := range page.Items {
			names = append(names, r.Name)
		}
		if path = ""; page.Cursor != "" {
			path = ordersRoles + "?limit=2&cursor=" + page.Cursor
		}
	}
	if got := strings.Join(names, " "); got != "admin operator worker readonly auditor feeder" {
		t.Errorf("the list is %s", got)
	}
	if a := f.send("GET", "/cloud/v1/namespaces/mail/roles/auditor", admin, ""); a.status != 404 {
		t.Errorf("in another namespace: %d %s", a.status, a.body)
	}
	if a := f.send("DELETE", ordersRoles+"/auditor", admin, "", `If-Match: "1"`); a.status != 412 {
		t.Errorf("an old version is deleted: %d %s", a.status, a.body)
	}
	if a := f.send("DELETE", ordersRoles+"/auditor", admin, "", `If-Match: "2"`); a.status != 200 {
		t.Errorf("deleted: %d %s", a.status, a.body)
	}
	if a := f.send("PUT", ordersRoles+"/auditor", admin, `{"permissions":["job.read"]}`, `If-Match: "2"`); a.status != 412 {
		t.Errorf("a version of what is not there: %d %s", a.status, a.body)
	}
	rows := f.send("GET", "/cloud/v1/orgs/acme/audit?limit=1000", admin, "")
	for _, row := range []string{`"action":"put-role","target":"` + f.ns("orders") + `/auditor"`, `"action":"delete-role","target":"` + f.ns("orders") + `/auditor"`} {
		if !strings.Contains(string(rows.body), row) {
			t.Errorf("the audit log lacks %s: %s", row, rows.body)
		}
	}
}

// A namespace's key may have custom roles. A role cannot be deleted while a key has it. Tokens cannot have
// custom roles.
func TestKeysHaveCustomRoles(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	f.namespace("acme", "mail")
	if a := f.send("POST", ordersKeys, admin, `{"roles":["auditor"]}`); a.status != 400 || !strings.Contains(string(a.body), `there is no role \"auditor\"`) {
		t.Errorf("before its role: %d %s", a.status, a.body)
	}
	f.send("PUT", ordersRoles+"/auditor", admin, `{"permissions":["job.read"]}`)
	id, _ := f.made(ordersKeys, admin, "worker", "auditor")
	for _, path := range []string{"/cloud/v1/namespaces/mail/keys", "/cloud/v1/orgs/acme/keys"} {
		if a := f.send("POST", path, admin, `{"roles":["auditor"]}`); a.status != 400 || !strings.Contains(string(a.body), "roles[0]") {
			t.Errorf("by %s: %d %s", path, a.status, a.body)
		}
	}
	if a := f.send("DELETE", ordersRoles+"/auditor", admin, ""); a.status != 409 || !strings.Contains(string(a.body), id) {
		t.Errorf("a role in use: %d %s", a.status, a.body)
	}
	rotated := f.send("POST", ordersKeys+"/"+id+"/rotate", admin, `{}`)
	var k api.CloudKey
	if err := json.Unmarshal(rotated.body, &k); err != nil || rotated.status != 201 || strings.Join(k.Roles, " ") != "worker auditor" {
		t.Errorf("rotated: %d %s, %v", rotated.status, rotated.body, err)
	}
	if a := f.send("PUT", ordersKeys+"/"+k.ID, admin, `{"roles":["worker"]}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := f.send("DELETE", ordersRoles+"/auditor", admin, ""); a.status != 200 {
		t.Errorf("a role that no key has: %d %s", a.status, a.body)
	}
}

// Invalid roles are refused with a reason, and so are callers without the permission.
func TestRolesRefuse(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	scoped := f.keep(tenancy.Key{Name: "scoped", Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"a.*"}}, keyring.Org, f.acme())
	operator := f.credential(keyring.Org, f.acme(), tenancy.Operator)
	strange := f.credential(keyring.Org, f.org("other"), tenancy.Admin)
	f.send("PUT", ordersRoles+"/there", admin, `{"permissions":["job.read"]}`)
	long := strings.Repeat("r", tenancy.MaxRoleName+1)
	for _, c := range []struct {
		method, path, by, body string
		status                 int
		says                   string
	}{
		{"POST", ordersRoles, admin, `{"permissions":["job.read"]}`, 400, "name"},
		{"POST", ordersRoles, admin, `{"name":"` + long + `","permissions":["job.read"]}`, 400, "name"},
		{"POST", ordersRoles, admin, `{"name":"a b","permissions":["job.read"]}`, 400, "name"},
		{"POST", ordersRoles, admin, `{"name":"gateway","permissions":["job.read"]}`, 400, "built in"},
		{"POST", ordersRoles, admin, `{"name":"r"}`, 400, "permissions"},
		{"POST", ordersRoles, admin, `{"name":"r","permissions":["org.manage"]}`, 400, "permissions[0]"},
		{"POST", ordersRoles, admin, `{"name":"r","permissions":["job.read"],"colour":"red"}`, 400, "colour"},
		{"POST", ordersRoles, admin, `{"name":"admin","permissions":["job.read"]}`, 409, "built in"},
		{"PUT", ordersRoles + "/worker", admin, `{"permissions":["job.read"]}`, 409, "built in"},
		{"DELETE", ordersRoles + "/worker", admin, ``, 409, "built in"},
		{"PUT", ordersRoles + "/r", admin, `{"name":"s","permissions":["job.read"]}`, 400, "name"},
		{"DELETE", ordersRoles + "/nobody", admin, ``, 404, "nobody"},
		{"GET", ordersRoles + "/nobody", admin, ``, 404, "nobody"},
		{"PUT", ordersRoles + "/r", scoped, `{"permissions":["job.read"]}`, 403, "covers only"},
		{"PUT", ordersRoles + "/there", scoped, `{"permissions":["job.read"]}`, 403, "covers only"},
		{"DELETE", ordersRoles + "/there", scoped, ``, 403, "covers only"},
		{"PUT", ordersRoles + "/r", operator, `{"permissions":["job.read"]}`, 403, "key.manage"},
		{"PUT", ordersRoles + "/r", strange, `{"permissions":["job.read"]}`, 404, "no namespace"},
		{"PUT", "/cloud/v1/namespaces/" + f.ns("orders") + "/roles/r", f.operator, `{"permissions":["node.admin"]}`, 201, "node.admin"},
	} {
		if a := f.send(c.method, c.path, c.by, c.body); a.status != c.status || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s %s %s: %d %s, want %d and %q", c.method, c.path, c.body, a.status, a.body, c.status, c.says)
		}
	}
}

// TestRoleLimit creates roles up to the limit of a namespace. One more is refused.
func TestRoleLimit(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	for i := range tenancy.MaxCustomRoles {
		if a := f.send("PUT", fmt.Sprintf("%s/r%d", ordersRoles, i), admin, `{"permissions":["job.read"]}`); a.status != 201 {
			t.Fatalf("role %d: %d %s", i, a.status, a.body)
		}
	}
	if a := f.send("PUT", ordersRoles+"/more", admin, `{"permissions":["job.read"]}`); a.status != 409 || !strings.Contains(string(a.body), "100 roles, the maximum") {
		t.Errorf("one more: %d %s", a.status, a.body)
	}
}
