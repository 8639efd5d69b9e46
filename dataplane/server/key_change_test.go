package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// clock is a server's clock, which a test can advance.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func is(err error, code api.Code) bool { return errors.Is(err, &api.Error{Code: code}) }

// New settings of a key apply to its next request, and omitted settings get their defaults.
func TestKeyIsSet(t *testing.T) {
	t.Parallel()
	later := &clock{}
	n := startNode(t, func(c *server.Config) { c.Now = later.now })
	admin, ctx := n.client(n.admin), t.Context()
	made, err := admin.CreateKey(ctx, api.CreateKeyRequest{Name: "ci", Roles: []string{"worker"}, QueueScope: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	mine := n.client(made.APIKey)
	enqueue := func(queue string, want api.Code) {
		t.Helper()
		if _, err := mine.Enqueue(ctx, api.EnqueueRequest{Queue: queue}); api.CodeOf(err) != want {
			t.Errorf("enqueue in %s: %v, want %q", queue, err, want)
		}
	}
	set := func(r api.SetKeyRequest) api.Key {
		t.Helper()
		k, err := admin.SetKey(ctx, made.ID, r, 0)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	off := false
	worker := api.CreateKeyRequest{Roles: []string{"worker"}}
	enqueue("a", "")
	enqueue("b", api.Forbidden)
	k := set(api.SetKeyRequest{CreateKeyRequest: worker})
	equal(t, "queue_scope", len(k.QueueScope), 0)
	wantFields(t, "the changed key", k, func(want *api.Key) { want.Name, want.Version, want.Enabled = "", 2, true })
	enqueue("b", "")
	set(api.SetKeyRequest{CreateKeyRequest: worker, Enabled: &off})
	enqueue("b", api.Unauthorized)
	set(api.SetKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Roles: []string{"worker"}, ExpiresAt: api.TimeOf(later.now().Add(time.Hour))}})
	enqueue("b", "")
	later.ahead.Add(int64(time.Hour))
	enqueue("b", api.Unauthorized)
	if k := set(api.SetKeyRequest{}); !slices.Equal(k.Roles, []string{"readonly"}) || k.ExpiresAt != nil {
		t.Errorf("a key of which nothing is said: %+v", k)
	}
	enqueue("b", api.Forbidden)

	if _, err := admin.SetKey(ctx, made.ID, api.SetKeyRequest{}, 2); !is(err, api.PreconditionFailed) {
		t.Errorf("an old version: %v", err)
	}
	if k, err := admin.Key(ctx, made.ID); err != nil || k.Version != 5 {
		t.Errorf("version %d, %v", k.Version, err)
	}
	if _, err := admin.SetKey(ctx, "nobody", api.SetKeyRequest{}, 0); !is(err, api.NotFound) {
		t.Errorf("nobody's key: %v", err)
	}
	for body, field := range map[string]string{
		`{"roles":["root"]}`: "roles[0]", `{"roles":["a b"]}`: "roles[0]", `{"queue_scope":["a b"]}`: "queue_scope[0]", `{"expires_at":"2001-01-01T00:00:00Z"}`: "expires_at", `{"secret":"x"}`: "secret",
	} {
		if a := n.ask("PUT", "/api/v1/auth/keys/"+made.ID, n.admin, body); a.status != 400 || !strings.Contains(string(a.body), `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

// A rotated key has two secrets during the overlap and one afterwards, with the same id.
func TestKeyIsRotated(t *testing.T) {
	t.Parallel()
	later := &clock{}
	n := startNode(t, func(c *server.Config) { c.Now = later.now })
	admin, ctx := n.client(n.admin), t.Context()
	first := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	opens := func(want bool, keys ...string) {
		t.Helper()
		for i, key := range keys {
			if _, err := n.client(key).Queues(ctx, client.Read{}); (err == nil) != want || err != nil && !is(err, api.Unauthorized) {
				t.Errorf("secret %d: %v, want it to open: %v", i, err, want)
			}
		}
	}
	rotate := func(overlap api.Duration) api.CreatedKey {
		t.Helper()
		k, err := admin.RotateKey(ctx, keyID(first), api.RotateRequest{Overlap: overlap})
		if err != nil || k.ID != keyID(first) || keyID(k.APIKey) != k.ID {
			t.Fatalf("rotate: %+v, %v", k, err)
		}
		return k
	}
	second := rotate("")
	opens(true, first, second.APIKey)
	if until, _, err := api.Time(*second.PreviousUntil).Parse(); err != nil || time.Until(until) > time.Hour || time.Until(until) < 50*time.Minute {
		t.Errorf("the default overlap ends at %v", until)
	}
	third := rotate("10m")
	opens(true, second.APIKey, third.APIKey)
	opens(false, first)
	later.ahead.Add(int64(10 * time.Minute))
	opens(true, third.APIKey)
	opens(false, first, second.APIKey)
	if k, err := admin.Key(ctx, keyID(first)); err != nil || k.PreviousUntil != nil || k.Version != 3 {
		t.Errorf("the key after the overlap: %+v, %v", k, err)
	}
	fourth := rotate("0s")
	opens(true, fourth.APIKey)
	opens(false, first, second.APIKey, third.APIKey)
	if fourth.PreviousUntil != nil {
		t.Errorf("without overlap the old secret opens until %v", *fourth.PreviousUntil)
	}
	for overlap, want := range map[string]int{job.MaxKeyOverlap.String(): 200, (job.MaxKeyOverlap + 1).String(): 400, "-1s": 400, "soon": 400} {
		if a := n.ask("POST", "/api/v1/auth/keys/"+keyID(first)+"/rotate", n.admin, `{"overlap":"`+overlap+`"}`); a.status != want {
			t.Errorf("an overlap of %s: %d %s", overlap, a.status, a.body)
		}
	}
	// A repeat cannot show the secret again and says so.
	const once = "Idempotency-Key: once"
	path := "/api/v1/auth/keys/" + keyID(first) + "/rotate"
	if a := n.send("POST", path, n.admin, "{}", once); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := n.send("POST", path, n.admin, "{}", once); a.status != 409 || strings.Contains(string(a.body), "cv_") {
		t.Errorf("again: %d %s", a.status, a.body)
	}
}

// A changed role applies at once to every key that has it.
func TestRoles(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	admin, ctx := n.client(n.admin), t.Context()
	role, err := admin.CreateRole(ctx, api.RoleRequest{Name: "auditor", Permissions: []string{"queue.read", "job.read", "job.read"}})
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, "the created role", role, func(want *api.Role) {
		want.Permissions, want.Version, want.BuiltIn = []string{"job.read", "queue.read"}, 1, false
	})
	made, err := admin.CreateKey(ctx, api.CreateKeyRequest{Name: "k", Roles: []string{"auditor"}})
	if err != nil {
		t.Fatal(err)
	}
	mine := n.client(made.APIKey)
	if _, err := mine.Queues(ctx, client.Read{}); err != nil {
		t.Errorf("what the role grants: %v", err)
	}
	if _, err := mine.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); !is(err, api.Forbidden) {
		t.Errorf("what it does not grant: %v", err)
	}
	if _, err := admin.PutRole(ctx, "auditor", api.RoleRequest{Permissions: []string{"job.enqueue"}}, 7); !is(err, api.PreconditionFailed) {
		t.Errorf("another version: %v", err)
	}
	if _, err := admin.PutRole(ctx, "auditor", api.RoleRequest{Permissions: []string{"job.enqueue"}}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Errorf("what it grants now: %v", err)
	}
	if _, err := mine.Queues(ctx, client.Read{}); !is(err, api.Forbidden) {
		t.Errorf("what it has granted: %v", err)
	}
	// Several roles grant what each does.
	if _, err := admin.SetKey(ctx, made.ID, api.SetKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Roles: []string{"auditor", "readonly"}}}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Queues(ctx, client.Read{}); err != nil {
		t.Errorf("beside another role: %v", err)
	}
	if err := admin.DeleteRole(ctx, "auditor", 0); !is(err, api.Conflict) || !strings.Contains(err.Error(), made.ID) {
		t.Errorf("delete a role that a key has: %v", err)
	}
	all, err := admin.Roles(ctx, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 5 {
		t.Fatalf("the roles are %+v, want five", all)
	}
	equal(t, "the first role", all[0].Name, "admin")
	equal(t, "the first role is built in", all[0].BuiltIn, true)
	equal(t, "the last role", all[4].Name, "auditor")
	if one, err := admin.Role(ctx, "worker", client.Read{}); err != nil || !one.BuiltIn || !slices.Equal(one.Permissions, []string{"job.enqueue", "job.work", "job.read", "queue.read"}) {
		t.Errorf("a built-in role: %+v, %v", one, err)
	}
	if err := admin.RevokeKey(ctx, made.ID, 0); err != nil {
		t.Fatal(err)
	}
	if err := admin.DeleteRole(ctx, "auditor", 2); err != nil {
		t.Errorf("delete: %v", err)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/admin", `{"permissions":["job.read"]}`, 409},
		{"DELETE", "/readonly", ``, 409},
		{"POST", "", `{"name":"worker","permissions":["job.read"]}`, 400},
		{"POST", "", `{"name":"gateway","permissions":["job.read"]}`, 400},
		{"POST", "", `{"name":"a b","permissions":["job.read"]}`, 400},
		{"POST", "", `{"name":"r","permissions":[]}`, 400},
		{"POST", "", `{"name":"r","permissions":["org.read"]}`, 400},
		{"POST", "", `{"name":"r","permissions":["job.fly"]}`, 400},
		{"GET", "/auditor", ``, 404},
		{"DELETE", "/auditor", ``, 404},
	} {
		if a := n.ask(c.method, "/api/v1/auth/roles"+c.path, n.admin, c.body); a.status != c.status {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, a.status, a.body, c.status)
		}
	}
}

// Nobody can grant, change or revoke more rights than they have: neither by keys nor by roles, including
// those of the caller's own key.
func TestNobodyGivesMoreThanTheyHave(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	must := func(method, path, body string, status int) answer {
		t.Helper()
		a := n.ask(method, "/api/v1/auth"+path, n.admin, body)
		if a.status != status {
			t.Fatalf("%s %s %s: %d %s", method, path, body, a.status, a.body)
		}
		return a
	}
	must("PUT", "/roles/clerk", `{"permissions":["key.manage","job.read","queue.read"]}`, 201)
	must("PUT", "/roles/reader", `{"permissions":["job.read"]}`, 201)
	must("PUT", "/roles/chief", `{"permissions":["job.read","node.admin"]}`, 201)
	clerk := n.key(tenancy.Key{Roles: []tenancy.Role{"clerk"}})
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{"clerk"}, QueueScope: []tenancy.Glob{"mail.*"}})
	reader := n.key(tenancy.Key{Roles: []tenancy.Role{"reader"}, QueueScope: []tenancy.Glob{"mail.out"}})
	chief := n.key(tenancy.Key{Roles: []tenancy.Role{"chief"}})
	wide := n.key(tenancy.Key{Roles: []tenancy.Role{"reader"}})
	before := n.dump()
	for _, c := range []struct{ who, method, path, body string }{
		{clerk, "POST", "/keys", `{"roles":["admin"]}`},
		{clerk, "POST", "/keys", `{"roles":["readonly"]}`}, // needs node.read, which clerk lacks
		{clerk, "POST", "/keys", `{"roles":["reader","chief"]}`},
		{clerk, "PUT", "/keys/" + keyID(clerk), `{"roles":["clerk","worker"]}`},
		{clerk, "PUT", "/keys/" + keyID(reader), `{"roles":["chief"]}`},
		{clerk, "PUT", "/keys/" + keyID(chief), `{"roles":["reader"]}`},
		{clerk, "PUT", "/keys/" + keyID(n.admin), `{"roles":["reader"]}`},
		{clerk, "POST", "/keys/" + keyID(chief) + "/rotate", `{}`},
		{clerk, "POST", "/keys/" + keyID(n.admin) + "/rotate", `{}`},
		{clerk, "DELETE", "/keys/" + keyID(chief), ``},
		{clerk, "POST", "/roles", `{"name":"new","permissions":["job.work"]}`},
		{clerk, "PUT", "/roles/clerk", `{"permissions":["key.manage","job.work"]}`},
		{clerk, "PUT", "/roles/chief", `{"permissions":["job.read"]}`},
		{clerk, "DELETE", "/roles/chief", ``},
		{scoped, "POST", "/keys", `{"roles":["reader"]}`},
		{scoped, "POST", "/keys", `{"roles":["reader"],"queue_scope":["*"]}`},
		{scoped, "PUT", "/keys/" + keyID(scoped), `{"roles":["clerk"]}`},
		{scoped, "PUT", "/keys/" + keyID(wide), `{"roles":["reader"],"queue_scope":["mail.a"]}`},
		{scoped, "POST", "/keys/" + keyID(wide) + "/rotate", `{}`},
		{scoped, "DELETE", "/keys/" + keyID(wide), ``},
		{scoped, "PUT", "/roles/reader", `{"permissions":["queue.read"]}`},
		{scoped, "POST", "/roles", `{"name":"new","permissions":["job.read"]}`},
		{scoped, "DELETE", "/roles/reader", ``},
	} {
		if a := n.ask(c.method, "/api/v1/auth"+c.path, c.who, c.body); a.status != http.StatusForbidden {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.body)
		}
	}
	n.same(before)
	for _, c := range []struct {
		who, method, path, body string
		status                  int
	}{
		{clerk, "POST", "/keys", `{"roles":["clerk"]}`, 201},
		{clerk, "PUT", "/roles/reader", `{"permissions":["queue.read"]}`, 200},
		{scoped, "POST", "/keys", `{"roles":["reader"],"queue_scope":["mail.a*"]}`, 201},
		{scoped, "PUT", "/keys/" + keyID(reader), `{"roles":["clerk"],"queue_scope":["mail.*"]}`, 200},
		{scoped, "POST", "/keys/" + keyID(reader) + "/rotate", `{}`, 200},
	} {
		if a := n.ask(c.method, "/api/v1/auth"+c.path, c.who, c.body); a.status != c.status {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.body)
		}
	}
}

// The last key that can create others cannot be changed or revoked until there is another.
func TestLastAdministratorStays(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	path := "/api/v1/auth/keys/" + keyID(n.admin)
	n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"*"}})
	n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, ExpiresAt: time.Now().Add(time.Hour)})
	end := api.TimeOf(time.Now().Add(time.Hour))
	for method, bodies := range map[string][]string{
		"DELETE": {``},
		"PUT": {`{"roles":["admin"],"enabled":false}`, `{"roles":["operator"]}`, `{"roles":["admin"],"queue_scope":["*"]}`,
			fmt.Sprintf(`{"roles":["admin"],"expires_at":%q}`, end)},
	} {
		for _, body := range bodies {
			if a := n.ask(method, path, n.admin, body); a.status != 409 || !strings.Contains(a.problem(t).Error, "create such a key first") && !strings.Contains(a.problem(t).Error, "Create such a key first") {
				t.Errorf("%s %s: %d %s", method, body, a.status, a.body)
			}
		}
	}
	if a := n.ask("POST", path+"/rotate", n.admin, `{}`); a.status != 200 {
		t.Errorf("its secret may change: %d %s", a.status, a.body)
	}
	n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}})
	if a := n.ask("DELETE", path, n.admin, ``); a.status != 200 {
		t.Errorf("with another: %d %s", a.status, a.body)
	}
}

// The first key of an open node closes the node, so it must be able to create others.
func TestFirstKeyOfAnOpenNode(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.Dev = true })
	for _, body := range []string{`{}`, `{"roles":["worker"]}`, `{"roles":["admin"],"queue_scope":["a"]}`, `{"roles":["admin"],"expires_at":"2099-01-01T00:00:00Z"}`} {
		if a := n.send("POST", "/api/v1/auth/keys", "", body); a.status != 409 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	for _, body := range []string{`{"roles":["admin"]}`, `{"roles":["worker"]}`} {
		if a := n.send("POST", "/api/v1/auth/keys", "", body); a.status != 201 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

// Changes of a key or of its role apply to waiting polls at every node.
func TestKeyChangesBindWaitingPolls(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	var urls []string
	for _, m := range members {
		urls = append(urls, m.locked())
	}
	admin := members[0].giveKey("root", tenancy.Admin)
	ask := func(method, path, body string, status int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, urls[0]+"/api/v1/auth"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+admin)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != status {
			t.Fatalf("%s %s %s: %d", method, path, body, a.StatusCode)
		}
	}
	ask("PUT", "/roles/hand", `{"permissions":["job.work"]}`, 201)
	for _, c := range []struct {
		name   string
		change func(id string)
		want   int
	}{
		{"disabled", func(id string) { ask("PUT", "/keys/"+id, `{"roles":["hand"],"enabled":false}`, 200) }, 401},
		{"another scope", func(id string) { ask("PUT", "/keys/"+id, `{"roles":["hand"],"queue_scope":["other"]}`, 200) }, 403},
		{"rotated without overlap", func(id string) { ask("POST", "/keys/"+id+"/rotate", `{"overlap":"0s"}`, 200) }, 401},
		{"its role grants less", func(string) { ask("PUT", "/roles/hand", `{"permissions":["job.read"]}`, 200) }, 403},
	} {
		key := members[0].giveKey("hand", "hand")
		ended := make(chan int)
		for _, url := range urls {
			go func() { ended <- fetchStatus(t, url, key, "60") }()
		}
		for _, m := range members {
			eventually(t, "the poll waits", func() bool {
				p, err := m.host.Polls(tenancy.Default)
				return err == nil && p.Parked == 1
			})
		}
		c.change(keyID(key))
		changed := time.Now()
		for range urls {
			if got := <-ended; got != c.want {
				t.Errorf("%s: a poll ended with %d, want %d", c.name, got, c.want)
			}
		}
		// A poll that is not ended would take half a minute longer.
		if took := time.Since(changed); took > 20*time.Second {
			t.Errorf("%s: the polls ended %v later", c.name, took)
		}
		// The reason that ended a poll also refuses the next one.
		for i, url := range urls {
			if got := fetchStatus(t, url, key, "0"); got != c.want {
				t.Errorf("%s: a fetch at node %d: %d", c.name, i, got)
			}
		}
	}
}
