package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// audited returns the audit log, oldest first, after all pending requests were recorded.
func (n *node) audited(query string) []api.AuditRecord {
	n.t.Helper()
	n.server.RecordPending()
	var page api.AuditPage
	a := n.ask("GET", "/api/v1/audit-logs?order=asc&limit=1000&"+query, n.admin, "")
	if err := json.Unmarshal(a.body, &page); err != nil || a.status != 200 {
		n.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return page.Records
}

// newest returns the record of the last request.
func (n *node) newest() api.AuditRecord {
	n.t.Helper()
	all := n.audited("")
	if len(all) == 0 {
		n.t.Fatal("the audit log is empty")
	}
	return all[len(all)-1]
}

// The golden file shows which routes are recorded. A route that changes something is recorded, unless the rights to
// enqueue, to work or to read jobs suffice for it.
func TestAuditedRoutes(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var b strings.Builder
	for _, r := range n.server.Table() {
		if r.Method == "GET" {
			if r.Audited {
				t.Errorf("GET %s is recorded", r.Path)
			}
			continue
		}
		word := "refusals of strangers only"
		if r.Audited {
			word = "recorded"
		}
		fmt.Fprintf(&b, "%-6s %-46s %-13s %s\n", r.Method, r.Path, r.Permission, word)
		manages := !slices.Contains([]tenancy.Permission{serve.Open, tenancy.JobEnqueue, tenancy.JobWork, tenancy.JobRead}, r.Permission)
		if manages != r.Audited {
			t.Errorf("%s %s asks for %s and is %s", r.Method, r.Path, r.Permission, word)
		}
	}
	golden(t, filepath.Join("testdata", "audited.golden"), []byte(b.String()))
}

// Every request to a recorded route leaves a record with the principal and the status, so no handler bypasses
// the log.
func TestAuditedRoutesLeaveARecord(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for _, route := range n.server.Table() {
		if !route.Audited || route.Unbuilt {
			continue
		}
		before := len(n.audited(""))
		a := n.ask(route.Method, sample(route.Path)+"?confirm=true&secret=in-the-query", n.admin, auditedBodies[route.Method+" "+route.Path])
		if a.status >= 500 {
			continue // a failure, not a refusal
		}
		all := n.audited("")
		if len(all) != before+1 {
			t.Errorf("%s %s: answered %d and left %d records", route.Method, route.Path, a.status, len(all)-before)
			continue
		}
		got := all[before]
		wantFields(t, route.Method+" "+route.Path, got, func(want *api.AuditRecord) {
			want.Method, want.Status, want.Principal, want.Role, want.Count = route.Method, a.status, keyID(n.admin), "admin", 1
			want.RequestID, want.Remote = a.header.Get("X-Request-Id"), "192.0.2.1"
		})
		if got.Path != sample(route.Path) && got.Path != route.Path {
			t.Errorf("%s %s: answered %d and left the path %s", route.Method, route.Path, a.status, got.Path)
		}
		if status := a.status; status < 300 && got.Path != sample(route.Path) {
			t.Errorf("%s %s was granted, and the record says %s", route.Method, route.Path, got.Path)
		}
	}
	if log, _ := json.Marshal(n.audited("")); strings.Contains(string(log), "in-the-query") {
		t.Error("a query is in the log")
	}
}

// auditedBodies are bodies that routes accept.
var auditedBodies = map[string]string{
	"PUT /api/v1/queues/{name}":              `{"paused":true}`,
	"POST /api/v1/queues/{name}/concurrency": `{"max":1}`,
	"POST /api/v1/queues/{name}/throttle":    `{"rate":1,"period":"1m"}`,
	"POST /api/v1/schedules":                 `{"name":"n","queue":"q","cron":"@daily"}`,
	"PUT /api/v1/settings":                   `{}`,
	"POST /api/v1/auth/keys":                 `{"name":"n","roles":["worker"]}`,
	"POST /api/v1/providers":                 `{"name":"p"}`,
	"PUT /api/v1/providers/{id}":             `{}`,
	"POST /api/v1/budgets":                   `{"scope":"queue","target":"q","daily_usd":1,"default_reserve_usd":0.1}`,
	"PUT /api/v1/budgets/{scope}/{target}":   `{"daily_usd":1,"default_reserve_usd":0.1}`,
	"POST /api/v1/webhooks":                  `{"url":"https://example.com/","secret":"0123456789abcdef"}`,
	"POST /api/v1/limit-rules":               `{"queue":"new","key":"k","paused":true}`,
	"POST /api/v1/jobs/{id}/move":            `{"queue":"q"}`,
	"POST /api/v1/jobs/{id}/scores":          `{"dimension":"d","value":1}`,
	"POST /api/v1/approval-policies":         `{"name":"n","queue":"q"}`,
	"PUT /api/v1/limit-rules/{id}":           `{"queue":"nobody","paused":true}`,
}

// The requests of workers are not recorded.
func TestWorkLeavesNoRecord(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	worker := n.client(n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}}))
	f := n.one(worker, "q")
	if err := worker.Ack(t.Context(), f.JobID, api.AckRequest{LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	n.ask("POST", "/api/v1/enqueue", n.admin, `{"queue":""}`)                // 400
	n.ask("POST", "/api/v1/ack/"+f.JobID, n.admin, `{"lease_token":"abcd"}`) // refused
	n.ask("GET", "/api/v1/jobs/nobody", n.admin, "")                         // 404
	n.ask("GET", "/nowhere", "", "")                                         // 404
	if all := n.audited(""); len(all) != 0 {
		t.Errorf("the log has %+v", all)
	}
	if head := n.cell.State().Head(); head.Audit != nil {
		t.Errorf("the log is at %v", head.Audit)
	}
}

// Every kind of refusal is recorded.
func TestRefusalsAreRecorded(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	worker := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Operator}, QueueScope: []tenancy.Glob{"mine"}})
	for _, c := range []struct {
		name, method, path, key, body string
		status                        int
		recorded                      string // the path
		op                            string
	}{
		{"without a key", "GET", "/api/v1/jobs/job_1", "", "", 401, "/api/v1/jobs/{id}", ""},
		{"a worker's call with a wrong key", "POST", "/api/v1/enqueue", "cv_nonsense", "{}", 401, "/api/v1/enqueue", ""},
		{"a right that is lacking", "DELETE", "/api/v1/auth/keys/k", worker, "", 403, "/api/v1/auth/keys/{id}", ""},
		{"a read that one may not", "GET", "/api/v1/audit-logs", worker, "", 403, "/api/v1/audit-logs", ""},
		{"another queue", "POST", "/api/v1/queues/theirs/pause", scoped, "", 403, "/api/v1/queues/{name}/pause", ""},
		{"no JSON", "POST", "/api/v1/schedules", n.admin, "{", 400, "/api/v1/schedules", ""},
		{"a bad field", "PUT", "/api/v1/queues/q", n.admin, `{"max_concurrency":-1}`, 400, "/api/v1/queues/{name}", ""},
		{"a job that is none", "POST", "/api/v1/jobs/nobody/cancel", n.admin, "", 404, "/api/v1/jobs/{id}/cancel", ""},
		{"a key that is none", "DELETE", "/api/v1/auth/keys/nobody", n.admin, "", 404, "/api/v1/auth/keys/nobody", "revoke-key"},
		{"no such method", "DELETE", "/api/v1/settings", n.admin, "", 405, "unmatched", ""},
		{"no such route", "POST", "/a-path-with-a-secret", n.admin, "", 404, "unmatched", ""},
		{"too large", "PUT", "/api/v1/settings", n.admin, strings.Repeat(" ", server.BodyManage+1), 413, "/api/v1/settings", ""},
		{"a schedule that cannot be", "POST", "/api/v1/schedules", n.admin, `{"name":"n","queue":"q","cron":"61 * * * *"}`, 422, "/api/v1/schedules", ""},
	} {
		before := len(n.audited(""))
		a := n.ask(c.method, c.path, c.key, c.body)
		if a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
		all := n.audited("")
		if len(all) != before+1 {
			t.Errorf("%s left %d records", c.name, len(all)-before)
			continue
		}
		r := all[before]
		who := keyID(c.key)
		if c.status == 401 || c.recorded == server.Unmatched {
			who = ""
		}
		wantFields(t, c.name, r, func(want *api.AuditRecord) {
			want.Method, want.Status, want.Path, want.Principal, want.Op = c.method, c.status, c.recorded, who, c.op
		})
	}
}

func TestOverloadIsRecorded(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.MaxBodies = 1 })
	if a := n.ask("PUT", "/api/v1/settings", n.admin, `{}`); a.status != 429 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if r := n.newest(); r.Status != 429 || r.Path != "/api/v1/settings" || r.Principal != keyID(n.admin) {
		t.Errorf("the record is %+v", r)
	}
}

// TestARepeatIsRecordedOnce checks that a granted request is recorded once, however often it is repeated with
// its Idempotency-Key, and that a refused request is recorded each time.
func TestARepeatIsRecordedOnce(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for range 3 {
		n.send("POST", "/api/v1/queues/q/pause", n.admin, "", "Idempotency-Key: k")
	}
	if all := n.audited(""); len(all) != 1 || all[0].Op != "set-queue" || all[0].Remote != "127.0.0.1" {
		t.Errorf("the log has %+v", all)
	}
	// Neither the client's request id nor the address in its headers has an effect on the record.
	for range 2 {
		n.send("POST", "/api/v1/queues/q/pause", n.admin, "", "X-Request-Id: mine", "X-Forwarded-For: 203.0.113.9")
	}
	all := n.audited("")
	if len(all) != 3 {
		t.Fatalf("the log has %+v", all)
	}
	for _, r := range all[1:] {
		equal(t, "request_id", r.RequestID, "mine")
	}
	equal(t, "remote", all[2].Remote, "127.0.0.1")
}

func TestAuditFilters(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	other := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Operator}})
	for i := range 5 {
		n.ask("POST", fmt.Sprintf("/api/v1/queues/a%d/pause", i), n.admin, "")
		n.ask("DELETE", fmt.Sprintf("/api/v1/queues/b%d?confirm=true", i), other, "") // 404
	}
	all := n.audited("")
	if len(all) != 10 {
		t.Fatalf("the log has %+v", all)
	}
	for query, want := range map[string]int{
		"principal=" + keyID(other): 5, "principal=nobody": 0, "method=delete": 5, "path=/api/v1/queues/a": 5, "path=/api/v1/queues/a3": 1,
		"status=200": 5, "status=4xx": 5, "status=2xx&method=DELETE": 0,
		"before=9999-12-31T00:00:00Z": 10, "after=0001-01-01T00:00:00Z": 10, // nanoseconds cannot hold these
		"after=" + string(all[4].At): 6, "before=" + string(all[4].At): 4, "after=" + string(all[2].At) + "&before=" + string(all[4].At): 2,
	} {
		if got := n.audited(query); len(got) != want {
			t.Errorf("%s finds %d", query, len(got))
		}
	}
	for query, wants := range map[string]string{"status=9xx": `"9xx"`, "status=7": `"7"`, "method=foo": `"foo"`, "method=get,post": `"get,post"`, "method=options": "or other"} {
		if a := n.ask("GET", "/api/v1/audit-logs?"+query, n.admin, ""); a.status != 400 || !strings.Contains(a.problem(t).Error, wants) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	n.ask("BREW", "/api/v1/queues/a0", n.admin, "")
	if got := n.audited("method=other"); len(got) != 1 || got[0].Method != "other" {
		t.Errorf("other methods: %+v", got)
	}
	for _, query := range []string{"status=abc", "limit=0", "limit=1001", "order=up", "after=yesterday", "cursor=abc", "format=csv", "format=jsonl&order=desc"} {
		if a := n.ask("GET", "/api/v1/audit-logs?"+query, n.admin, ""); a.status != 400 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	for _, order := range []string{"asc", "desc"} {
		var seen []api.AuditRecord
		cursor := ""
		for pages := 1; ; pages++ {
			var page api.AuditPage
			a := n.ask("GET", "/api/v1/audit-logs?limit=3&method=DELETE&order="+order+"&cursor="+cursor, n.admin, "")
			if err := json.Unmarshal(a.body, &page); err != nil {
				t.Fatal(err)
			}
			seen = append(seen, page.Records...)
			if cursor = page.Cursor; !page.HasMore {
				break
			}
			n.ask("POST", "/api/v1/queues/new/pause", n.admin, "") // the list grows in the meantime
			if b := n.ask("GET", "/api/v1/audit-logs?limit=3&order="+order+"&cursor="+cursor, n.admin, ""); b.status != 400 {
				t.Errorf("the cursor of another filter: %d", b.status)
			}
		}
		if order == "desc" {
			slices.Reverse(seen)
		}
		if len(seen) != 5 || !slices.IsSortedFunc(seen, func(a, b api.AuditRecord) int { return int(a.Seq) - int(b.Seq) }) {
			t.Errorf("%s: the pages have %+v", order, seen)
		}
	}
}

// Only a key that may administer the node and see every queue may read the log.
func TestWhoMayReadTheAuditLog(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for _, role := range tenancy.Roles() {
		for _, scope := range [][]tenancy.Glob{nil, {"*"}} {
			key := n.key(tenancy.Key{Roles: []tenancy.Role{role}, QueueScope: scope})
			want := 403
			if role == tenancy.Admin && scope == nil {
				want = 200
			}
			for _, path := range []string{"/api/v1/audit-logs", "/api/v1/audit-logs/head", "/api/v1/audit-logs?format=jsonl"} {
				if a := n.ask("GET", path, key, ""); a.status != want {
					t.Errorf("%s %v %s: %d", role, scope, path, a.status)
				}
			}
		}
	}
}

// exported returns the whole log of several shards as a client gets it.
func exported(t *testing.T, c *client.Client) (all []api.AuditRecord) {
	t.Helper()
	if err := c.ExportAudit(t.Context(), client.AuditQuery{}, func(r api.AuditRecord) error {
		all = append(all, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func verified(all []api.AuditRecord) error {
	var v api.AuditVerifier
	for _, r := range all {
		if err := v.Add(r); err != nil {
			return err
		}
	}
	return nil
}

// The reader of an export can detect every change in it.
func TestATamperedExport(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c := n.client(n.admin)
	n.ask("GET", "/api/v1/queues", "", "")
	n.audited("")
	for i := range 20 {
		if err := c.PauseQueue(t.Context(), fmt.Sprint("q", i)); err != nil {
			t.Fatal(err)
		}
	}
	all := exported(t, c)
	if len(all) != 21 {
		t.Fatalf("the export has %d records", len(all))
	}
	if err := verified(all); err != nil {
		t.Fatal(err)
	}
	if heads, err := c.AuditHead(t.Context(), client.Read{}); err != nil || heads.Shards[0].Hash != all[20].Hash || heads.Shards[0].NextSeq != 22 {
		t.Errorf("the head is %+v: %v", heads, err)
	}
	for name, change := range map[string]func(r *api.AuditRecord){
		"at":         func(r *api.AuditRecord) { r.At = api.TimeOf(time.Unix(1, 0)) },
		"principal":  func(r *api.AuditRecord) { r.Principal = "other" },
		"role":       func(r *api.AuditRecord) { r.Role = "" },
		"method":     func(r *api.AuditRecord) { r.Method = "GET" },
		"path":       func(r *api.AuditRecord) { r.Path += "x" },
		"status":     func(r *api.AuditRecord) { r.Status++ },
		"request_id": func(r *api.AuditRecord) { r.RequestID = "" },
		"op":         func(r *api.AuditRecord) { r.Op = "" },
		"count":      func(r *api.AuditRecord) { r.Count++ },
		"remote":     func(r *api.AuditRecord) { r.Remote = "" },
		"nonce":      func(r *api.AuditRecord) { r.Nonce = strings.Repeat("0", 32) },
		"previous":   func(r *api.AuditRecord) { r.Previous = r.Hash },
		"hash":       func(r *api.AuditRecord) { r.Hash = r.Previous },
		// Text of one field must not count as another's.
		"moved": func(r *api.AuditRecord) { r.Method, r.Path = r.Method+r.Path[:1], r.Path[1:] },
	} {
		changed := slices.Clone(all)
		change(&changed[11])
		if err := verified(changed); err == nil || !strings.Contains(err.Error(), "record 12 ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := verified(slices.Delete(slices.Clone(all), 11, 12)); err == nil || !strings.Contains(err.Error(), "record 12 is missing") {
		t.Errorf("one is left out: %v", err)
	}
}

// The logs of all shards are merged by time, and each is a chain.
func TestAuditOverShards(t *testing.T) {
	t.Parallel()
	n := startShards(t, 3, nil)
	c := n.client("")
	for i := range 30 {
		if err := c.PauseQueue(t.Context(), fmt.Sprint("q", i)); err != nil {
			t.Fatal(err)
		}
	}
	if a := n.send("PUT", "/api/v1/settings", "", "{}"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	all := exported(t, c)
	if err := verified(all); err != nil {
		t.Error(err)
	}
	shards := map[uint32]int{}
	settings := map[string]bool{}
	for _, r := range all {
		shards[r.Shard]++
		if r.Op == "set-settings" {
			settings[r.RequestID] = true
		}
	}
	if len(shards) < 2 || len(settings) != 1 || len(all) != 30+3 {
		t.Errorf("%d records, of shards %v, of settings %v", len(all), shards, settings)
	}
	for _, order := range []string{"asc", "desc"} {
		var paged []api.AuditRecord
		q := client.AuditQuery{Order: order, Limit: 7}
		for {
			page, err := c.Audit(t.Context(), q, client.Read{})
			if err != nil {
				t.Fatal(err)
			}
			paged = append(paged, page.Records...)
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
		if order == "desc" {
			slices.Reverse(paged)
		}
		if !slices.Equal(paged, all) {
			t.Errorf("%s: the pages differ from the export", order)
		}
	}
}

// Close records the pending requests.
func TestCloseRecords(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.ask("GET", "/api/v1/queues", "", "")
	n.server.Close(context.Background())
	if _, next := n.cell.State().Head().GetAudit().Records(); next != 2 {
		t.Errorf("the next record is %d", next)
	}
	n.ask("GET", "/api/v1/queues", "", "")
	n.server.RecordPending()
	if _, next := n.cell.State().Head().GetAudit().Records(); next != 2 {
		t.Errorf("after that, the next record is %d", next)
	}
}
