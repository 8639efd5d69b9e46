package server_test

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

// TestPromises looks for every route and field that the documents name in the table of routes and the types
// of their bodies. If a document names a page of the site, the test requests the page, because the table has
// no pages. A missing route or field must be refused by name.
func TestPromises(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	promised, err := os.ReadFile("testdata/promises.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := n.server.Table()
	checked := 0
	for line := range strings.Lines(string(promised)) {
		names, verdict, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		checked++
		words := strings.Fields(names)
		method, path, fields := words[0], words[1], words[2:]
		at := slices.IndexFunc(all, func(r serve.Route) bool { return r.Method == method && r.Path == path })
		if code, ok := strings.CutPrefix(verdict, "refused: "); ok {
			n.refusesByName(method, path, fields, api.Code(code))
			continue
		}
		if verdict == "page" {
			if a := n.send(method, path, "", ""); a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
				t.Errorf("%s %s is no page: %d %s", method, path, a.status, a.body)
			}
			continue
		}
		if verdict != "there" || at < 0 || all[at].Unbuilt {
			t.Errorf("%s %s is not %s", method, path, verdict)
			continue
		}
		of := reflect.TypeOf(all[at].Request)
		if len(fields) > 0 && fields[0] == "->" {
			of, fields = reflect.TypeOf(all[at].Response), fields[1:]
		}
		for _, field := range fields {
			if of == nil || !hasField(of, strings.Split(field, ".")) {
				t.Errorf("%s %s has no %s", method, path, field)
			}
		}
	}
	if checked < 75 {
		t.Errorf("only %d lines were read", checked)
	}
}

// refusesByName requests a missing field of each request, or the missing route.
func (n *node) refusesByName(method, path string, fields []string, code api.Code) {
	n.t.Helper()
	if len(fields) == 0 {
		if p := n.send(method, path, n.admin, "").problem(n.t); p.Code != code || !strings.Contains(p.Error, path) {
			n.t.Errorf("%s %s: %v", method, path, p)
		}
		return
	}
	for _, field := range fields {
		a := n.send(method, path, n.admin, `{"queue":"q","`+field+`":"x"}`)
		if p := a.problem(n.t); a.status != http.StatusNotImplemented || p.Code != code || p.fields(n.t.(*testing.T)) != field {
			n.t.Errorf("%s %s %s: %d %s", method, path, field, a.status, a.body)
		}
		for _, nothing := range []string{"null", `""`, "0"} {
			if a := n.send(method, path, n.admin, `{"queue":"q","`+field+`":`+nothing+`}`); a.status != http.StatusCreated {
				n.t.Errorf("%s %s %s %s: %d %s", method, path, field, nothing, a.status, a.body)
			}
		}
	}
}

// hasField reports whether the JSON form of a type has a field, by its path through lists, maps and objects.
func hasField(t reflect.Type, path []string) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if len(path) == 0 {
		return true
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" && hasField(f.Type, path) || name == path[0] && hasField(f.Type, path[1:]) {
			return true
		}
	}
	return false
}

// The capabilities of a server follow from its table of routes.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var info api.Info
	if err := json.Unmarshal(n.send("GET", "/api/v1/info", "", "").body, &info); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"enqueue", "enqueue.batch", "enqueue.delayed", "enqueue.idempotency", "fetch", "fetch.batch", "ack", "ack.batch", "fail", "heartbeat",
		"jobs.get", "jobs.search", "jobs.move", "queues", "queues.pause", "queues.concurrency", "rpc", "rpc.stream", "auth.keys",
		"jobs.bulk", "budgets", "schedules", "usage.summary", "search.fulltext",
	} {
		if !slices.Contains(info.Capabilities, name) {
			t.Errorf("%s is not among %v", name, info.Capabilities)
		}
	}
	if slices.Contains(info.Capabilities, "admin.restore") {
		t.Error("admin.restore is a capability, and every node refuses it")
	}
	if !slices.IsSorted(info.Capabilities) || len(slices.Compact(slices.Clone(info.Capabilities))) != len(info.Capabilities) {
		t.Errorf("%v", info.Capabilities)
	}
}

// A host of the cloud does not name the features that it refuses.
func TestCapabilitiesOfACloudHost(t *testing.T) {
	t.Parallel()
	tenant, _ := openTenants(t, nil)
	var info api.Info
	tenant.must(&info, "GET", "/api/v1/info", "")
	for path, names := range map[string][]string{
		"GET /api/v1/auth/keys":       {"auth.keys", "auth.keys.get", "auth.keys.rotate"},
		"GET /api/v1/auth/roles":      {"auth.roles", "auth.roles.get"},
		"GET /api/v1/debug/runtime":   {"debug.runtime"},
		"POST /api/v1/admin/backup":   {"admin.backup"},
		"POST /api/v1/admin/snapshot": nil,
	} {
		method, path, _ := strings.Cut(path, " ")
		if a := tenant.ask(method, path, ""); (a.status < 300) != (names == nil) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		for _, name := range names {
			if slices.Contains(info.Capabilities, name) {
				t.Errorf("a host of the cloud names %s", name)
			}
		}
	}
	for _, name := range []string{"enqueue", "jobs.search", "admin.snapshot"} {
		if !slices.Contains(info.Capabilities, name) {
			t.Errorf("a host of the cloud does not name %s", name)
		}
	}
}
