package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// start returns a front with an organisation, its admin's token and a host that never reports.
func start(t *testing.T) (f *front, admin string) {
	t.Helper()
	f = startFront(t)
	f.host("h1", keyring.Host)
	return f, f.credential(keyring.Org, f.org("acme"), tenancy.Admin)
}

// A request triggers each code that a client can receive. The message tells the client how to correct the
// request.
func TestErrors(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	id := f.namespace("acme", "orders")
	f.namespace("acme", "guarded")
	if a := f.send("PATCH", "/cloud/v1/namespaces/guarded", admin, `{"spec":{"deletion_protection":true}}`); a.status != 200 {
		t.Fatalf("protect: %d %s", a.status, a.body)
	}
	reader := f.credential(keyring.Org, f.acme(), tenancy.ReadOnly)
	const namespaces, keys = "/cloud/v1/orgs/acme/namespaces", "/cloud/v1/namespaces/orders/keys"
	for _, c := range []struct {
		method, path, key, body string
		header                  string
		code                    api.Code
		says                    string
	}{
		{"GET", "/cloud/v1/orgs", "", "", "", api.Unauthorized, "Authorization"},
		{"POST", namespaces, reader, `{"name":"a"}`, "", api.Forbidden, "namespace.manage"},
		{"GET", "/cloud/v1/orgs/nobody", admin, "", "", api.NotFound, `"nobody"`},
		{"GET", "/cloud/v1/namespaces/nobody", admin, "", "", api.NotFound, `"nobody"`},
		{"GET", "/cloud/v1/namespaces/orders", f.operator, "", "", api.NotFound, `"orders"`}, // an operator's has no names
		{"GET", "/cloud/v1/operations/nobody", admin, "", "", api.NotFound, `"nobody"`},
		{"GET", "/cloud/v1/hosts/nobody", f.operator, "", "", api.NotFound, `"nobody"`},
		{"GET", keys + "/nobody", admin, "", "", api.NotFound, `"nobody"`},
		{"GET", "/cloud/v1/elsewhere", admin, "", "", api.NotFound, "no route"},
		{"PUT", "/cloud/v1/orgs", admin, "", "", api.MethodNotAllowed, "GET"},
		{"POST", namespaces, admin, `{"name":`, "", api.ParseError, "byte"},
		{"POST", namespaces, admin, `{"name":"` + strings.Repeat("a", maxBody) + `"}`, "", api.PayloadTooLarge, "larger"},
		{"POST", namespaces, admin, `{"name":"orders"}`, "", api.Conflict, "orders"},
		{"POST", "/cloud/v1/orgs", f.operator, `{"name":"acme"}`, "", api.Conflict, "acme"},
		{"POST", "/cloud/v1/hosts", f.operator, `{"name":"h1"}`, "", api.Conflict, "h1"},
		{"DELETE", "/cloud/v1/namespaces/guarded", admin, "", "", api.StateConflict, "protect"},
		{"PATCH", "/cloud/v1/namespaces/orders", admin, "{}", `If-Match: "99"`, api.PreconditionFailed, "read it again"},
		{"DELETE", "/cloud/v1/namespaces/orders", admin, "", `If-Match: W/"1"`, api.PreconditionFailed, "read it again"},

		{"POST", namespaces, admin, `{"name":"Orders"}`, "", api.ValidationError, "a-z"},
		{"POST", namespaces, admin, `{"name":"` + strings.Repeat("a", 64) + `"}`, "", api.ValidationError, "63"},
		{"POST", namespaces, admin, `{"name":"a","colour":"red"}`, "", api.ValidationError, "colour"},
		{"POST", namespaces, admin, `{"name":"a","spec":{"region":"mars"}}`, "", api.ValidationError, "local"},
		{"POST", namespaces, admin, `{"name":"a","spec":{"tier":"gold","replicas":2,"shards":65}}`, "", api.ValidationError, "spec.shards"},
		{"POST", namespaces, admin, `{"name":"a"}`, "Idempotency-Key: with space", api.ValidationError, "visible ASCII"},
		{"POST", "/cloud/v1/orgs", f.operator, `{}`, "", api.ValidationError, "name"},
		{"POST", "/cloud/v1/hosts", f.operator, `{"name":"x","kind":"oven"}`, "", api.ValidationError, "gateway"},
		{"POST", keys, admin, `{"roles":["king"],"queue_scope":["no way"],"expires_at":"2001-01-01T00:00:00Z"}`, "", api.ValidationError, "queue_scope[0]"},
		{"POST", keys, admin, `{"id":"0123456789abcdef"}`, "", api.ValidationError, "hash"},
		{"POST", keys, admin, `{"id":"short","hash":"` + strings.Repeat("ab", 32) + `"}`, "", api.ValidationError, "id"},
		{"POST", "/cloud/v1/orgs/acme/keys", admin, `{"roles":["worker"]}`, "", api.ValidationError, "roles[0]"},
		{"GET", "/cloud/v1/orgs?limit=0", admin, "", "", api.ValidationError, "1000"},
		{"GET", "/cloud/v1/orgs?limit=1001", admin, "", "", api.ValidationError, "1000"},
		{"GET", "/cloud/v1/orgs?cursor=abc", admin, "", "", api.ValidationError, "cursor"},
		{"GET", "/cloud/v1/operations/nobody?wait=61s", admin, "", "", api.ValidationError, "1m0s"},
		{"GET", "/cloud/v1/orgs/acme/usage?from=yesterday", admin, "", "", api.ValidationError, "2026-02-11"},
		{"GET", "/cloud/v1/orgs/acme/usage?from=2026-02-11&to=2026-02-11", admin, "", "", api.ValidationError, "before"},
		{"GET", "/cloud/v1/orgs/acme/usage?group_by=mood", admin, "", "", api.ValidationError, "provider"},

		{"POST", namespaces, admin, `{"name":"a","spec":{"replicas":0}}`, "", api.ValidationError, "1, 3 or 5"},
		{"POST", namespaces, admin, `{"name":"a","spec":{"replicas":7}}`, "", api.ValidationError, "1, 3 or 5"},
		{"POST", namespaces, admin, `{"name":"a","spec":{"shards":64}}`, "", api.Unsupported, "spec.shards"},
		{"POST", namespaces, admin, `{"name":"a","spec":{"tier":"dedicated"}}`, "", api.Unsupported, "spec.tier"},
		{"POST", namespaces, admin, `{"name":"a","spec":{"limits":{"jobs":1},"min_warm":1}}`, "", api.Unsupported, "spec.limits"},
		{"POST", "/cloud/v1/namespaces/orders/fork", admin, "", "", api.Unsupported, "/fork"},
	} {
		var header []string
		if c.header != "" {
			header = append(header, c.header)
		}
		a := f.send(c.method, c.path, c.key, c.body, header...)
		if p := a.problem(t); p.Code != c.code || a.status != c.code.Status() || !strings.Contains(string(a.body), strings.ReplaceAll(c.says, `"`, `\"`)) {
			t.Errorf("%s %s %.80s: %d %s, want %s that says %q", c.method, c.path, c.body, a.status, a.body, c.code, c.says)
		}
	}
	// The response reports all faults of a request.
	a := f.send("POST", namespaces, admin, `{"name":"-","spec":{"tier":"gold","replicas":4,"region":"mars"}}`)
	var told []string
	for _, field := range a.problem(t).Details["fields"].([]any) {
		told = append(told, field.(map[string]any)["field"].(string))
	}
	if !slices.Equal(told, []string{"name", "spec.region", "spec.replicas", "spec.tier"}) {
		t.Errorf("faults: %q", told)
	}
	if ns, err := f.cloud(admin).Namespace(t.Context(), id); err != nil || ns.ResourceVersion != 1 {
		t.Errorf("what was refused changed the namespace: %+v, %v", ns, err)
	}
}

// acme returns the id of the organisation acme.
func (f *front) acme() string {
	f.t.Helper()
	org, err := f.store.Org(f.t.Context(), "acme")
	if err != nil {
		f.t.Fatal(err)
	}
	return string(org.ID)
}

// Without hosts there is no region, so the server refuses to create a namespace that no host could open.
func TestNoRegionWithoutHosts(t *testing.T) {
	t.Parallel()
	f := startFront(t)
	f.org("acme")
	f.host("g1", keyring.Gateway)
	_, err := f.cloud(f.operator).CreateNamespace(t.Context(), "acme", api.CreateNamespaceRequest{Name: "orders"})
	if api.CodeOf(err) != api.StateConflict || !strings.Contains(err.Error(), "register a host") {
		t.Errorf("a namespace on no host: %v", err)
	}
}

// Versions let two people change one resource without undoing each other's change.
func TestVersions(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	id := f.namespace("acme", "orders")
	c, ctx := f.cloud(admin), t.Context()
	a := f.send("GET", "/cloud/v1/namespaces/"+id, admin, "")
	var ns api.Namespace
	if err := json.Unmarshal(a.body, &ns); err != nil || a.header.Get("ETag") != fmt.Sprintf(`"%d"`, ns.ResourceVersion) {
		t.Fatalf("ETag %q of %s", a.header.Get("ETag"), a.body)
	}
	protect := true
	changed, err := c.UpdateNamespace(ctx, "orders", api.UpdateNamespaceRequest{Spec: &api.NewNamespaceSpec{DeletionProtection: &protect}}, ns.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	if !changed.Spec.DeletionProtection || changed.Generation != ns.Generation {
		t.Errorf("the change: protected %v, generation %d after %d", changed.Spec.DeletionProtection, changed.Generation, ns.Generation)
	}
	if changed.ResourceVersion <= ns.ResourceVersion {
		t.Errorf("the change has version %d after %d", changed.ResourceVersion, ns.ResourceVersion)
	}
	protect = false
	if _, err := c.UpdateNamespace(ctx, "orders", api.UpdateNamespaceRequest{Spec: &api.NewNamespaceSpec{DeletionProtection: &protect}}, ns.ResourceVersion); api.CodeOf(err) != api.PreconditionFailed {
		t.Errorf("a change of an older version: %v", err)
	}
	for _, match := range []string{"*", `"1", "` + strconv.FormatInt(changed.ResourceVersion, 10) + `"`} {
		if a := f.send("PATCH", "/cloud/v1/namespaces/orders", admin, `{}`, "If-Match: "+match); a.status != 200 {
			t.Errorf("If-Match %s: %d %s", match, a.status, a.body)
		}
		now, err := c.Namespace(ctx, "orders")
		if err != nil {
			t.Fatal(err)
		}
		changed = now
	}
	if a := f.send("DELETE", "/cloud/v1/namespaces/orders", admin, "", `If-Match: "1"`); a.status != 412 {
		t.Errorf("a delete of an older version: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/cloud/v1/orgs/acme", "/cloud/v1/hosts/h1"} {
		if a := f.send("GET", path, f.operator, ""); !strings.HasPrefix(a.header.Get("ETag"), `"`) {
			t.Errorf("%s has the ETag %q", path, a.header.Get("ETag"))
		}
	}
}

// A repeat of a write under its key gets the first response and changes nothing.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	send := func(path, key, body string) answer {
		return f.send("POST", path, key, body, "Idempotency-Key: k-"+path)
	}
	const namespaces = "/cloud/v1/orgs/acme/namespaces"
	first := send(namespaces, admin, `{"name":"orders"}`)
	if first.status != 202 || first.header.Get("Location") == "" {
		t.Fatalf("create: %d %s", first.status, first.body)
	}
	again := send(namespaces, admin, `{"name":"orders"}`)
	var one, two api.Operation
	if err := errors.Join(json.Unmarshal(first.body, &one), json.Unmarshal(again.body, &two)); err != nil {
		t.Fatal(err)
	}
	if one.ID != two.ID || again.status != 202 {
		t.Errorf("the repeat: %d %s after %s", again.status, again.body, first.body)
	}
	if a := send(namespaces, admin, `{"name":"others"}`); a.problem(t).Code != api.IdempotencyMismatch {
		t.Errorf("another request under the key: %d %s", a.status, a.body)
	}
	// The key belongs to the caller.
	if a := send(namespaces, f.credential(keyring.Org, f.acme(), tenancy.Admin), `{"name":"others"}`); a.status != 202 {
		t.Errorf("another caller's request under the same key: %d %s", a.status, a.body)
	}
	// A secret is shown once: a repeat reports that and makes no other secret.
	for path, body := range map[string]string{
		"/cloud/v1/namespaces/" + one.Resource.ID + "/keys": `{"name":"ci"}`, "/cloud/v1/orgs/acme/keys": `{"name":"ci"}`, "/cloud/v1/hosts": `{"name":"h7"}`,
	} {
		if a := send(path, f.operator, body); a.status != 201 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		if a := send(path, f.operator, body); a.problem(t).Code != api.Conflict || !strings.Contains(a.problem(t).Error, "not stored") {
			t.Errorf("repeated %s: %d %s", path, a.status, a.body)
		}
	}
	// If the client generated the secret, a repeat gets the first response.
	secret, err := client.NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	ctx := client.WithIdempotencyKey(t.Context(), "mine")
	for range 2 {
		made, err := f.cloud(admin).CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{ID: secret.ID, Hash: secret.Hash})
		if err != nil || made.ID != secret.ID || made.APIKey != "" {
			t.Errorf("a key with a secret of the client's: %+v, %v", made, err)
		}
	}
	// A repeated delete returns the running operation, with or without a key.
	del, err := f.cloud(admin).DeleteNamespace(t.Context(), "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	if op, err := f.cloud(admin).DeleteNamespace(t.Context(), one.Resource.ID, 0); err == nil && op.ID != del.ID || err != nil && api.CodeOf(err) != api.NotFound {
		t.Errorf("a second delete: %+v, %v", op, err)
	}
}

// A list is complete and in order at every page size. A cursor is valid in its own list only.
func TestPages(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	var names []string
	for i := range 7 {
		name := fmt.Sprintf("n%d", i)
		f.namespace("acme", name)
		names = append(names, name)
		f.host("x"+name, keyring.Host)
		f.credential(keyring.Org, f.acme(), tenancy.ReadOnly)
	}
	walk := func(path, key string) (items []string, pages int) {
		t.Helper()
		for cursor := ""; ; pages++ {
			a := f.send("GET", path+"&cursor="+url.QueryEscape(cursor), key, "")
			var page api.Page[map[string]any]
			if err := json.Unmarshal(a.body, &page); err != nil || a.status != 200 {
				t.Fatalf("%s: %d %s", path, a.status, a.body)
			}
			for _, item := range page.Items {
				for _, place := range []string{"id", "operation_id", "seq"} {
					if v, ok := item[place]; ok {
						items = append(items, fmt.Sprint(v))
					}
				}
			}
			if page.Cursor == "" {
				return items, pages + 1
			}
			cursor = page.Cursor
		}
	}
	for _, path := range []string{"/cloud/v1/orgs/acme/namespaces", "/cloud/v1/operations?org=acme", "/cloud/v1/hosts", "/cloud/v1/orgs/acme/keys", "/cloud/v1/orgs/acme/audit", "/cloud/v1/orgs"} {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		whole, _ := walk(path+sep+"limit=1000", f.operator)
		for _, limit := range []int{1, 3, len(whole)} {
			cut, pages := walk(fmt.Sprintf("%s%slimit=%d", path, sep, limit), f.operator)
			if !slices.Equal(whole, cut) || pages != (len(whole)+limit-1)/limit {
				t.Errorf("%s by %d: %d pages of %q, want %q", path, limit, pages, cut, whole)
			}
		}
	}
	all, err := f.cloud(admin).Namespaces(t.Context(), "acme")
	if err != nil || len(all) != len(names) {
		t.Fatalf("namespaces: %+v, %v", all, err)
	}
	if all[0].Name != "n0" || all[6].Name != "n6" {
		t.Errorf("the first is %q, the seventh %q", all[0].Name, all[6].Name)
	}
	// This cursor belongs to another list.
	a := f.send("GET", "/cloud/v1/orgs/acme/namespaces?limit=1", f.operator, "")
	var page api.Page[api.Namespace]
	if err := json.Unmarshal(a.body, &page); err != nil {
		t.Fatal(err)
	}
	if a := f.send("GET", "/cloud/v1/hosts?cursor="+page.Cursor, f.operator, ""); a.status != 400 || !strings.Contains(string(a.body), "another list") {
		t.Errorf("a cursor of another list: %d %s", a.status, a.body)
	}
}

// The test calls each method of the client against its route.
func TestTheClientsMethods(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	c, ops, ctx := f.cloud(admin), f.cloud(f.operator), t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	op, err := c.CreateNamespace(ctx, "acme", api.CreateNamespaceRequest{Name: "orders", Spec: &api.NewNamespaceSpec{Tier: "shared"}})
	must("CreateNamespace", err)
	if got, err := c.Operation(ctx, op.ID); err != nil || got.Status != api.OperationRunning || got.Resource.Name != "orders" {
		t.Errorf("Operation: %+v, %v", got, err)
	}
	end, err := c.Endpoint(ctx, "orders")
	if must("Endpoint", err); end.Endpoint != "http://gateway.test" {
		t.Errorf("Endpoint: %+v", end)
	}
	org, err := c.Org(ctx, "acme")
	if must("Org", err); org.Name != "acme" || org.Status.Namespaces != 1 {
		t.Errorf("Org: %+v", org)
	}
	key, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "ci"}})
	must("CreateNamespaceKey", err)
	list, err := c.NamespaceKeys(ctx, "orders")
	if must("NamespaceKeys", err); len(list) != 1 || list[0].ID != key.ID {
		t.Errorf("NamespaceKeys: %+v", list)
	}
	_, err = c.NamespaceKey(ctx, "orders", key.ID)
	must("NamespaceKey", err)
	must("RevokeNamespaceKey", c.RevokeNamespaceKey(ctx, "orders", key.ID, 0))
	token, err := c.CreateToken(ctx, "acme", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "t"}})
	must("CreateToken", err)
	rotated, err := c.RotateToken(ctx, "acme", token.ID, api.RotateKeyRequest{})
	must("RotateToken", err)
	one, err := c.Token(ctx, "acme", rotated.ID)
	if must("Token", err); one.Name != "t" {
		t.Errorf("Token: %+v", one)
	}
	tokens, err := c.Tokens(ctx, "acme")
	if must("Tokens", err); len(tokens) != 2 {
		t.Errorf("Tokens: %+v", tokens)
	}
	must("RevokeToken", c.RevokeToken(ctx, "acme", rotated.ID, 0))
	usage, err := c.Usage(ctx, "acme", client.UsageQuery{GroupBy: "day"})
	if must("Usage", err); usage.Groups == nil {
		t.Errorf("Usage: %+v", usage)
	}
	_, err = c.NamespaceUsage(ctx, "orders", client.UsageQuery{})
	must("NamespaceUsage", err)
	rows, err := c.Audit(ctx, "acme")
	if must("Audit", err); len(rows) < 5 || rows[0].Action != "create-org" || len(rows[0].Hash) != 64 {
		t.Errorf("Audit: %+v", rows)
	}
	made, err := ops.CreateHost(ctx, api.CreateHostRequest{Name: "h9", Kind: "gateway", Region: "mars"})
	must("CreateHost", err)
	if made.FleetRoot != f.server.cfg.Authority.Fingerprint() || len(made.FleetRoot) != 64 {
		t.Errorf("CreateHost: the root is %q", made.FleetRoot)
	}
	host, err := ops.Host(ctx, "h9")
	if must("Host", err); host.ID != made.ID || host.Spec.Region != "mars" || host.Status.LastSeenAt != nil {
		t.Errorf("Host: %+v", host)
	}
	_, err = ops.Hosts(ctx)
	must("Hosts", err)
	_, err = c.DeleteNamespace(ctx, "orders", 0)
	must("DeleteNamespace", err)
	if _, err := c.WaitOperation(ctx, op.ID); !errors.Is(err, &api.Error{Code: api.Conflict}) {
		t.Errorf("the create that was overtaken by the delete: %v", err)
	}
}

// Anyone may read the health routes. A server that shuts down is not ready.
func TestHealth(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	for _, path := range []string{"/healthz", "/readyz", "/cloud/v1/openapi.json", "/.well-known/jwks.json"} {
		if a := f.send("GET", path, "", ""); a.status != 200 || !json.Valid(a.body) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := f.send("GET", "/metrics", "", ""); a.status != 401 {
		t.Errorf("/metrics without a credential: %d %s", a.status, a.body)
	}
	if a := f.send("GET", "/metrics", f.operator, ""); a.status != 200 || !strings.Contains(string(a.body), `route="/healthz"`) {
		t.Errorf("/metrics: %d %s", a.status, a.body)
	}
	if a := f.send("GET", "/cloud/v1/metrics", f.operator, ""); a.status != 200 || !strings.Contains(string(a.body), `corvo_http_requests_total{method="GET",route="/healthz",status="2xx"}`) {
		t.Errorf("metrics: %d %.500s", a.status, a.body)
	}
	f.namespace("acme", "orders")
	ops, err := f.cloud(admin).Operations(t.Context(), "")
	if err != nil || len(ops) != 1 {
		t.Fatalf("operations: %+v, %v", ops, err)
	}
	waited := make(chan answer, 1)
	go func() { waited <- f.send("GET", "/cloud/v1/operations/"+ops[0].ID+"?wait=60s", admin, "") }()
	f.server.Drain()
	if a := <-waited; a.status != 200 || !strings.Contains(string(a.body), `"running"`) {
		t.Errorf("a wait that draining ended: %d %s", a.status, a.body)
	}
	if a := f.send("GET", "/readyz", "", ""); a.problem(t).Code != api.Unhealthy {
		t.Errorf("readyz while shutting down: %d %s", a.status, a.body)
	}
	if a := f.send("GET", "/healthz", "", ""); a.status != 200 {
		t.Errorf("healthz while shutting down: %d %s", a.status, a.body)
	}
}

// TestNamespaceSpecIsOneShape sends the spec of a create and of a response as an update. The update refuses,
// by name, only fields that cannot change.
func TestNamespaceSpecIsOneShape(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	const path = "/cloud/v1/namespaces/orders"
	var ns struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(f.send("GET", path, admin, "").body, &ns); err != nil {
		t.Fatal(err)
	}
	ns.Spec["deletion_protection"] = true
	body, err := json.Marshal(ns)
	if err != nil {
		t.Fatal(err)
	}
	if a := f.send("PATCH", path, admin, string(body)); a.status != 200 || !strings.Contains(string(a.body), `"deletion_protection":true`) {
		t.Errorf("the answer's own spec: %d %s", a.status, a.body)
	}
	for _, body := range []string{`{}`, `{"spec":{}}`, `{"spec":{"tier":"shared"}}`, `{"spec":{"limits":{}}}`} {
		if a := f.send("PATCH", path, admin, body); a.status != 200 || !strings.Contains(string(a.body), `"deletion_protection":true`) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	for body, want := range map[string]string{
		`{"spec":{"region":"mars"}}`:         "spec.region",
		`{"spec":{"tier":"dedicated"}}`:      "spec.tier",
		`{"spec":{"replicas":2}}`:            "1, 3 or 5",
		`{"spec":{"shards":2}}`:              "is 1 and cannot change",
		`{"spec":{"limits":{"x":1}}}`:        "spec.limits",
		`{"spec":{"colour":"red"}}`:          "colour",
		`{"deletion_protection":false}`:      "deletion_protection",
		`{"spec":{"deletion_protection":1}}`: "deletion_protection",
	} {
		if a := f.send("PATCH", path, admin, body); a.status < 400 || a.status == 500 || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s, want %q", body, a.status, a.body, want)
		}
	}
}

// TestReplicasChange changes the number of replicas of a namespace. The generation rises, and the generation in effect
// follows only when the hosts have the new list.
func TestReplicasChange(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	tenant := f.cloud(admin)
	host, credential := f.host("one", keyring.Host)
	f.join(credential, "http://one.test")
	f.settle(f.namespace("acme", "orders"), host)
	change := func(replicas int) api.Namespace {
		t.Helper()
		ns, err := tenant.UpdateNamespace(t.Context(), "orders", api.UpdateNamespaceRequest{Spec: &api.NewNamespaceSpec{Replicas: &replicas}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
	if ns := change(1); ns.Generation != 1 {
		t.Errorf("the same number of replicas raises the generation to %d", ns.Generation)
	}
	if ns := change(3); ns.Spec.Replicas != 3 || ns.Generation != 2 || ns.Status.ObservedGeneration != 1 {
		t.Errorf("with 3 replicas the namespace is %+v", ns)
	}
	op, err := tenant.CreateNamespace(t.Context(), "acme", api.CreateNamespaceRequest{Name: "mail", Spec: &api.NewNamespaceSpec{Replicas: new(5)}})
	if err != nil {
		t.Fatal(err)
	}
	if ns, err := tenant.Namespace(t.Context(), op.Resource.ID); err != nil || ns.Spec.Replicas != 5 {
		t.Errorf("a new namespace with 5 replicas: %+v, %v", ns, err)
	}
}
