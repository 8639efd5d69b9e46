package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Each route accepts the roles of the table and no others.
func TestAuthorisation(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	byRole := map[tenancy.Role]string{}
	for _, role := range tenancy.Roles() {
		byRole[role] = n.key(tenancy.Key{Roles: []tenancy.Role{role}})
	}
	expired := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, ExpiresAt: time.Now().Add(-time.Second)})
	revoked := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}})
	n.revoke(revoked)
	unknown, _, _, err := keyring.New(strings.NewReader(strings.Repeat("0123456789", 100)), keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{
		"no key": "", "garbage": "cv_ns_garbage", "a key of nobody": unknown, "expired": expired, "revoked": revoked,
		"the admin's, mistyped": n.admin[:len(n.admin)-1] + "!",
	}
	before := n.dump()
	for _, route := range n.server.Routes() {
		method, path := route.Method, sample(route.Path)
		if route.Permission == serve.Open {
			if a := n.ask(method, path, "", ""); a.status == 401 || a.status == 403 {
				t.Errorf("%s %s is open and answers %d %s", method, path, a.status, a.body)
			}
			continue
		}
		for what, key := range refused {
			a := n.ask(method, path, key, harmless(path))
			if a.status != 401 || a.problem(t).Code != api.Unauthorized || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with %s: %d %s", method, path, what, a.status, a.body)
			}
		}
		for role, key := range byRole {
			if role.Grants(route.Permission) {
				continue
			}
			if a := n.ask(method, path, key, harmless(path)); a.status != 403 || a.problem(t).Code != api.Forbidden {
				t.Errorf("%s %s as %s: %d %s", method, path, role, a.status, a.body)
			}
		}
	}
	n.same(before)
	for _, route := range n.server.Routes() {
		for role, key := range byRole {
			if route.Permission == serve.Open || !role.Grants(route.Permission) {
				continue
			}
			a := n.ask(route.Method, sample(route.Path), key, harmless(route.Path))
			if a.status == 401 || a.status == 403 || a.status >= 500 && a.status != 501 {
				t.Errorf("%s %s as %s: %d %s", route.Method, route.Path, role, a.status, a.body)
			}
			if route.Unbuilt && (a.status != 501 || !strings.Contains(a.problem(t).Error, route.Path)) {
				t.Errorf("%s %s is not built and answers %d %s", route.Method, route.Path, a.status, a.body)
			}
		}
	}
}

// scoped has, for every built route, the expected answer to a key whose scope does not cover the job's queue:
// the job is in queue "theirs", the scope is "mine.*". The routes with status 0 touch no queue.
var scoped = map[string]struct {
	path, body string // JOB is the job's id
	status     int    // 0 = touches no queue
	has, lacks string // of the answer's body
}{
	"POST /api/v1/enqueue":                        {body: `{"queue":"theirs"}`, status: 403},
	"POST /api/v1/enqueue/batch":                  {body: `{"jobs":[{"queue":"mine.a"},{"queue":"theirs"}]}`, status: 403},
	"POST /api/v1/webhooks/{queue}":               {path: "/api/v1/webhooks/theirs", body: `{}`, status: 403},
	"POST /api/v1/fetch":                          {body: `{"queues":["mine.a","theirs"],"timeout":0}`, status: 403},
	"POST /api/v1/fetch/batch":                    {body: `{"queues":["theirs"],"timeout":0}`, status: 403},
	"POST /api/v1/ack/{job_id}":                   {path: "/api/v1/ack/JOB", body: `{}`, status: 404},
	"POST /api/v1/ack/batch":                      {body: `{"acks":[{"job_id":"JOB"}]}`, status: 200, has: `"NOT_FOUND"`},
	"POST /api/v1/fail/{job_id}":                  {path: "/api/v1/fail/JOB", body: `{}`, status: 404},
	"POST /api/v1/heartbeat":                      {body: `{"jobs":{"JOB":{}}}`, status: 200, has: `"unknown":["JOB"]`},
	"GET /api/v1/jobs/{id}":                       {path: "/api/v1/jobs/JOB", status: 404},
	"GET /api/v1/jobs/{id}/why":                   {path: "/api/v1/jobs/JOB/why", status: 404},
	"POST /api/v1/jobs/{id}/move":                 {path: "/api/v1/jobs/JOB/move", body: `{"queue":"mine.a"}`, status: 404},
	"POST /api/v1/jobs/bulk-get":                  {body: `{"job_ids":["JOB"]}`, status: 200, has: `"jobs":[]`, lacks: "theirs"},
	"GET /api/v1/search/fulltext":                 {path: "/api/v1/search/fulltext?q=x", status: 200, has: `"jobs":[]`, lacks: "theirs"},
	"POST /api/v1/jobs/bulk":                      {body: `{"action":"cancel","filter":{"queue":"theirs"}}`, status: 403},
	"GET /api/v1/bulk/{id}":                       {path: "/api/v1/bulk/BULK", status: 404},
	"GET /api/v1/bulk/{id}/progress":              {path: "/api/v1/bulk/BULK/progress", status: 404},
	"DELETE /api/v1/bulk/{id}":                    {path: "/api/v1/bulk/BULK", status: 404},
	"POST /api/v1/jobs/search":                    {body: `{}`, status: 200, has: `"total":1,`, lacks: "theirs"},
	"GET /api/v1/queues":                          {status: 200, has: `"mine.b"`, lacks: "theirs"},
	"GET /api/v1/queues/{name}":                   {path: "/api/v1/queues/theirs", status: 403},
	"PUT /api/v1/queues/{name}":                   {path: "/api/v1/queues/theirs", body: `{"paused":true}`, status: 403},
	"DELETE /api/v1/queues/{name}":                {path: "/api/v1/queues/theirs?confirm=true", status: 403},
	"POST /api/v1/queues/{name}/pause":            {path: "/api/v1/queues/theirs/pause", status: 403},
	"POST /api/v1/queues/{name}/resume":           {path: "/api/v1/queues/theirs/resume", status: 403},
	"POST /api/v1/queues/{name}/concurrency":      {path: "/api/v1/queues/theirs/concurrency", body: `{"max":1}`, status: 403},
	"POST /api/v1/queues/{name}/throttle":         {path: "/api/v1/queues/theirs/throttle", body: `{"rate":1,"period":"1m"}`, status: 403},
	"DELETE /api/v1/queues/{name}/throttle":       {path: "/api/v1/queues/theirs/throttle", status: 403},
	"POST /api/v1/queues/{name}/drain":            {path: "/api/v1/queues/theirs/drain", status: 403},
	"POST /api/v1/queues/{name}/clear":            {path: "/api/v1/queues/theirs/clear", status: 403},
	"GET /api/v1/alerts":                          {status: 200, lacks: "theirs"},
	"POST /api/v1/alerts":                         {body: `{"name":"n","when":"dead","queue":"theirs","threshold":1,"notify":"HOOK"}`, status: 403},
	"GET /api/v1/alerts/{id}":                     {path: "/api/v1/alerts/ALERT", status: 404},
	"PUT /api/v1/alerts/{id}":                     {path: "/api/v1/alerts/ALERT", body: `{"name":"n","when":"dead","queue":"mine.b","threshold":1,"notify":"HOOK"}`, status: 404},
	"DELETE /api/v1/alerts/{id}":                  {path: "/api/v1/alerts/ALERT", status: 404},
	"GET /api/v1/webhooks":                        {status: 200, lacks: "theirs"},
	"POST /api/v1/webhooks":                       {body: `{"url":"https://example.com/","secret":"0123456789abcdef"}`, status: 403},
	"GET /api/v1/webhooks/{id}":                   {path: "/api/v1/webhooks/HOOK", status: 200, lacks: "theirs"},
	"PUT /api/v1/webhooks/{id}":                   {path: "/api/v1/webhooks/HOOK", body: `{"url":"https://example.com/"}`, status: 403},
	"DELETE /api/v1/webhooks/{id}":                {path: "/api/v1/webhooks/HOOK", status: 403},
	"POST /api/v1/webhooks/{id}/test":             {path: "/api/v1/webhooks/HOOK/test", status: 403},
	"GET /api/v1/webhooks/{id}/deliveries":        {path: "/api/v1/webhooks/HOOK/deliveries", status: 403},
	"GET /api/v1/schedules":                       {status: 200, lacks: "theirs"},
	"POST /api/v1/schedules":                      {body: `{"name":"n","queue":"theirs","cron":"@daily"}`, status: 403},
	"GET /api/v1/schedules/{id}":                  {path: "/api/v1/schedules/SCHEDULE", status: 404},
	"PUT /api/v1/schedules/{id}":                  {path: "/api/v1/schedules/SCHEDULE", body: `{"name":"n","queue":"mine.b","cron":"@daily"}`, status: 404},
	"DELETE /api/v1/schedules/{id}":               {path: "/api/v1/schedules/SCHEDULE", status: 404},
	"POST /api/v1/schedules/{id}/run":             {path: "/api/v1/schedules/SCHEDULE/run", status: 404},
	"POST /api/v1/schedules/{id}/pause":           {path: "/api/v1/schedules/SCHEDULE/pause", status: 404},
	"POST /api/v1/schedules/{id}/resume":          {path: "/api/v1/schedules/SCHEDULE/resume", status: 404},
	"GET /api/v1/schedules/{id}/next":             {path: "/api/v1/schedules/SCHEDULE/next", status: 404},
	"GET /api/v1/budgets":                         {status: 200, lacks: "theirs"},
	"POST /api/v1/budgets":                        {body: `{"scope":"queue","target":"theirs","daily_usd":1,"default_reserve_usd":0.1}`, status: 403},
	"GET /api/v1/budgets/{scope}/{target}":        {path: "/api/v1/budgets/queue/theirs", status: 404},
	"PUT /api/v1/budgets/{scope}/{target}":        {path: "/api/v1/budgets/queue/theirs", body: `{"daily_usd":1,"default_reserve_usd":0.1}`, status: 403},
	"DELETE /api/v1/budgets/{scope}/{target}":     {path: "/api/v1/budgets/queue/theirs", status: 404},
	"POST /api/v1/budgets/{scope}/{target}/raise": {path: "/api/v1/budgets/queue/theirs/raise", body: `{"amount_usd":1,"for":"1h"}`, status: 404},
	"GET /api/v1/limit-rules":                     {status: 200, lacks: "theirs"},
	"POST /api/v1/limit-rules":                    {body: `{"queue":"theirs","key":"k","paused":true}`, status: 403},
	"GET /api/v1/limit-rules/{id}":                {path: "/api/v1/limit-rules/theirs%2Fk", status: 404},
	"PUT /api/v1/limit-rules/{id}":                {path: "/api/v1/limit-rules/theirs%2Fk", body: `{"queue":"theirs","key":"k","paused":true}`, status: 403},
	"DELETE /api/v1/limit-rules/{id}":             {path: "/api/v1/limit-rules/theirs%2Fk", status: 404},
	"GET /api/v1/providers":                       {},
	"POST /api/v1/providers":                      {body: `{"name":"p"}`, status: 403},
	"GET /api/v1/providers/{id}":                  {},
	"PUT /api/v1/providers/{id}":                  {path: "/api/v1/providers/p", body: `{}`, status: 403},
	"DELETE /api/v1/providers/{id}":               {},
	"POST /api/v1/auth/keys":                      {body: `{"name":"n","roles":["worker"],"queue_scope":["theirs"]}`, status: 403},
	"GET /api/v1/auth/keys":                       {},
	"GET /api/v1/auth/keys/{id}":                  {},
	"DELETE /api/v1/auth/keys/{id}":               {path: "/api/v1/auth/keys/ADMIN", status: 403},
	"PUT /api/v1/auth/keys/{id}":                  {path: "/api/v1/auth/keys/ADMIN", body: `{"roles":["admin"]}`, status: 403},
	"POST /api/v1/auth/keys/{id}/rotate":          {path: "/api/v1/auth/keys/ADMIN/rotate", status: 403},
	"GET /api/v1/auth/roles":                      {},
	"POST /api/v1/auth/roles":                     {body: `{"name":"r","permissions":["job.read"]}`, status: 403},
	"GET /api/v1/auth/roles/{id}":                 {},
	"PUT /api/v1/auth/roles/{id}":                 {path: "/api/v1/auth/roles/ROLE", body: `{"permissions":["job.read"]}`, status: 403},
	"DELETE /api/v1/auth/roles/{id}":              {path: "/api/v1/auth/roles/ROLE", status: 403},
	"GET /debug/pprof/":                           {status: 403},
	"GET /api/v1/audit-logs":                      {status: 403},
	"GET /api/v1/audit-logs/head":                 {status: 403},
	"GET /api/v1/metrics":                         {status: 403},
	"GET /metrics":                                {status: 403},
	"GET /api/v1/metrics/throughput":              {status: 200, has: `"queues":[`, lacks: "theirs"},
	"GET /api/v1/cluster/status":                  {},
	"POST /api/v1/cluster/join":                   {status: 403},
	"POST /api/v1/cluster/transfer":               {status: 403},
	"DELETE /api/v1/cluster/servers/{id}":         {status: 403},
	"GET /api/v1/debug/runtime":                   {status: 403},
	"POST /api/v1/admin/snapshot":                 {status: 403},
	"POST /api/v1/admin/rebuild-view":             {status: 403},
	"POST /api/v1/admin/rebuild-sqlite":           {status: 403},
	"POST /api/v1/admin/verify":                   {status: 403},
	"POST /api/v1/admin/backup":                   {status: 403},
	"POST /api/v1/admin/restore":                  {status: 403},
}

func TestQueueScope(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	admin := n.client(n.admin)
	theirs := n.one(admin, "theirs")
	if _, err := admin.Enqueue(context.Background(), api.EnqueueRequest{Queue: "mine.b"}); err != nil {
		t.Fatal(err)
	}
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mine.*"}})
	_, adminID, _ := keyring.Parse(n.admin)
	var schedule api.Schedule
	if err := json.Unmarshal([]byte(n.ask("POST", "/api/v1/schedules", n.admin, `{"name":"nightly","queue":"theirs","cron":"@yearly"}`).body), &schedule); err != nil {
		t.Fatal(err)
	}
	var hook api.Webhook
	if err := json.Unmarshal([]byte(n.ask("POST", "/api/v1/webhooks", n.admin, `{"url":"https://example.com/","secret":"0123456789abcdef"}`).body), &hook); err != nil {
		t.Fatal(err)
	}
	var alert api.AlertRule
	if err := json.Unmarshal([]byte(n.ask("POST", "/api/v1/alerts", n.admin, `{"name":"a","when":"dead","queue":"theirs","threshold":1,"notify":"`+hook.ID+`"}`).body), &alert); err != nil {
		t.Fatal(err)
	}
	n.ask("PUT", "/api/v1/budgets/queue/theirs", n.admin, `{"daily_usd":1,"default_reserve_usd":0.1}`)
	n.ask("PUT", "/api/v1/limit-rules/theirs%2Fk", n.admin, `{"queue":"theirs","key":"k","max_concurrency":1}`)
	var bulk api.BulkResponse
	if err := json.Unmarshal([]byte(n.ask("POST", "/api/v1/jobs/bulk", n.admin, `{"action":"requeue","job_ids":["`+theirs.JobID+`"]}`).body), &bulk); err != nil {
		t.Fatal(err)
	}
	n.ask("PUT", "/api/v1/auth/roles/auditor", n.admin, `{"permissions":["job.read"]}`)
	fill := strings.NewReplacer("ROLE", "auditor", "BULK", bulk.BulkOperationID, "JOB", theirs.JobID, "ADMIN", adminID, "SCHEDULE", schedule.ID, "HOOK", hook.ID, "ALERT", alert.ID)
	before := n.dump()
	for _, route := range n.server.Routes() {
		if route.Permission == serve.Open || route.Unbuilt {
			continue
		}
		name := route.Method + " " + route.Path
		c, ok := scoped[name]
		if !ok {
			t.Errorf("%s is not in the test's table: does it touch queues?", name)
			continue
		}
		if c.status == 0 {
			continue
		}
		if c.path == "" {
			c.path = route.Path
		}
		a := n.ask(route.Method, fill.Replace(c.path), mine, fill.Replace(c.body))
		if a.status != c.status || !strings.Contains(string(a.body), fill.Replace(c.has)) || c.lacks != "" && strings.Contains(string(a.body), c.lacks) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	n.same(before)
	// In its own queues the key does what its role says.
	if f, err := n.client(mine).Fetch(context.Background(), api.FetchRequest{Queues: []string{"mine.b"}}); err != nil || f == nil {
		t.Errorf("fetch in its own scope: %v, %v", f, err)
	}
}

// A scoped search pages over hidden jobs without leaving any visible one out.
func TestScopedSearchPages(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), context.Background()
	var jobs []api.EnqueueRequest
	for i := range 60 {
		jobs = append(jobs, api.EnqueueRequest{Queue: []string{"theirs", "theirs", "mine"}[i%3]})
	}
	if _, err := c.EnqueueBatch(ctx, jobs); err != nil {
		t.Fatal(err)
	}
	scoped := n.client(n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine*"}}))
	seen := map[string]bool{}
	total := 20
	for cursor := ""; ; {
		page, err := scoped.Search(ctx, api.SearchRequest{Limit: ptr(7), Cursor: cursor}, client.Read{})
		if err != nil {
			t.Fatal(err)
		}
		if page.Total != int64(total) || page.TotalIsEstimate || page.HasMore && len(page.Jobs) != 7 {
			t.Errorf("a page of %d jobs, more: %v; total %d (estimate: %v), want %d", len(page.Jobs), page.HasMore, page.Total, page.TotalIsEstimate, total)
		}
		for _, j := range page.Jobs {
			if !strings.HasPrefix(j.Queue, "mine") || seen[j.ID] {
				t.Errorf("job %s of %s", j.ID, j.Queue)
			}
			seen[j.ID] = true
		}
		if !page.HasMore {
			break
		}
		cursor = page.Cursor
		// Queues of the scope and of others are created between the pages.
		for _, prefix := range []string{"mine.", "theirs."} {
			if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: prefix + strconv.Itoa(total)}); err != nil {
				t.Fatal(err)
			}
		}
		total++
	}
	// Newest first: later jobs are on no later page.
	if len(seen) != 20 {
		t.Errorf("found %d jobs, want 20", len(seen))
	}
}

// A scope that covers no existing queue sees nothing, and not everything.
func TestEmptyScope(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	admin, ctx := n.client(n.admin), context.Background()
	scoped := n.client(n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mine.*", "mine"}}))
	theirs := "nobody"                                       // the rest of the id of a job that the key must not see
	for _, there := range []string{"", "theirs", "mine.a"} { // no queue at all, none of its own, one
		if there != "" {
			made, err := admin.Enqueue(ctx, api.EnqueueRequest{Queue: there})
			if err != nil {
				t.Fatal(err)
			}
			if there == "theirs" {
				theirs = strings.TrimPrefix(made.JobID, "job_0")
			}
		}
		want := 0
		if there == "mine.a" {
			want = 1
		}
		for _, search := range []api.SearchRequest{{}, {SearchFilter: api.SearchFilter{State: []string{"pending"}}}, {Order: "asc", Limit: ptr(1)}} {
			page, err := scoped.Search(ctx, search, client.Read{})
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("after %q, %+v", there, search)
			equal(t, what+": jobs", len(page.Jobs), want)
			equal(t, what+": total", page.Total, int64(want))
			equal(t, what+": has_more", page.HasMore, false)
			equal(t, what+": total_is_estimate", page.TotalIsEstimate, false)
			if page.Jobs == nil {
				t.Errorf("%s: jobs is null, want a list", what)
			}
		}
		for prefix, want := range map[string]int{"job_0": want, "job_0" + theirs: 0} {
			if page, err := scoped.Search(ctx, api.SearchRequest{SearchFilter: api.SearchFilter{JobIDPrefix: prefix}}, client.Read{}); err != nil || len(page.Jobs) != want || page.Total != int64(want) {
				t.Errorf("after %q, the prefix %s finds %+v, %v", there, prefix, page, err)
			}
		}
		queues, err := scoped.Queues(ctx, client.Read{})
		if err != nil || len(queues) != want || queues == nil {
			t.Errorf("after %q there are the queues %+v, %v", there, queues, err)
		}
		if _, err := scoped.Search(ctx, api.SearchRequest{SearchFilter: api.SearchFilter{Queue: "theirs"}}, client.Read{}); api.CodeOf(err) != api.Forbidden {
			t.Errorf("after %q, a foreign queue: %v", there, err)
		}
	}
}

// A key that is revoked while its poll waits gets no job.
func TestRevokedWhileWaiting(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	got := make(chan answer, 1)
	go func() { got <- n.ask("POST", "/api/v1/fetch", key, `{"queues":["q"],"timeout":60}`) }()
	n.parked(1)
	n.revoke(key)
	made, err := n.client(n.admin).Enqueue(context.Background(), api.EnqueueRequest{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.status != 401 {
		t.Errorf("the revoked key got %d %s", a.status, a.body)
	}
	n.untouched(made.JobID)
	// The same when the wait ends without work.
	key = n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	go func() { got <- n.ask("POST", "/api/v1/fetch", key, `{"queues":["empty"],"timeout":60}`) }()
	n.parked(1)
	n.revoke(key)
	n.server.Drain()
	if a := <-got; a.status != 401 {
		t.Errorf("at the end of its wait the revoked key got %d %s", a.status, a.body)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	admin, ctx := n.client(n.admin), context.Background()
	made, err := admin.CreateKey(ctx, api.CreateKeyRequest{Name: "ci", QueueScope: []string{"a.*", "b"}, ExpiresAt: "2099-01-01T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, "the created key", made, func(want *api.CreatedKey) {
		want.Roles, want.Enabled, want.ExpiresAt, want.LastUsedAt = []string{"readonly"}, true, ptr(api.Time("2099-01-01T00:00:00Z")), nil
	})
	present(t, "created_at", made.CreatedAt)
	reader := n.client(made.APIKey)
	if _, err := reader.Queues(ctx, client.Read{}); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if _, err := reader.Enqueue(ctx, api.EnqueueRequest{Queue: "b"}); !errors.Is(err, &api.Error{Code: api.Forbidden}) {
		t.Errorf("enqueue as readonly: %v", err)
	}
	a := n.send("GET", "/api/v1/auth/keys", n.admin, "")
	if a.status != 200 || strings.Contains(string(a.body), made.APIKey) || strings.Contains(string(a.body), "hash") {
		t.Errorf("list: %d %s", a.status, a.body)
	}
	keys, err := admin.ListKeys(ctx)
	if err != nil || len(keys) != 2 {
		t.Fatalf("list: %+v, %v", keys, err)
	}
	one, err := admin.Key(ctx, made.ID)
	if err != nil || one.Name != "ci" || one.LastUsedAt == nil {
		t.Errorf("get: %+v, %v", one, err)
	}
	if err := admin.RevokeKey(ctx, made.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Queues(ctx, client.Read{}); !errors.Is(err, &api.Error{Code: api.Unauthorized}) {
		t.Errorf("the revoked key: %v", err)
	}
	for _, err := range []error{admin.RevokeKey(ctx, made.ID, 0), func() error { _, err := admin.Key(ctx, made.ID); return err }()} {
		if !errors.Is(err, &api.Error{Code: api.NotFound}) {
			t.Errorf("a key that is gone: %v", err)
		}
	}
}

// A repeated create cannot show the secret again and says so.
func TestCreateKeyRepeated(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	const body, key = `{"name":"n"}`, "Idempotency-Key: once"
	if a := n.send("POST", "/api/v1/auth/keys", n.admin, body, key); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := n.send("POST", "/api/v1/auth/keys", n.admin, body, key); a.status != 409 || a.problem(t).Code != api.Conflict {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A --dev server accepts requests of this machine and refuses forwarded ones.
func TestDev(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.Dev = true })
	if a := n.send("POST", "/api/v1/enqueue", "", `{"queue":"q"}`); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := n.send("GET", "/api/v1/auth/keys", "any key", "", "Host: localhost:8080"); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	before := n.dump()
	for _, header := range []string{
		"X-Forwarded-For: 10.0.0.1", "X-Forwarded-Host: x", "X-Forwarded-Proto: https", "Forwarded: for=10.0.0.1", "X-Real-IP: 10.0.0.1", "Via: 1.1 proxy",
		"Origin: http://evil.example", "Sec-Fetch-Site: cross-site", "Host: evil.example", "Host: 10.0.0.1:8080", "Host: localhost.evil.example",
	} {
		if a := n.send("POST", "/api/v1/enqueue", "", `{"queue":"q"}`, header); a.status != 403 || a.problem(t).Code != api.Forbidden {
			t.Errorf("%s: %d %s", header, a.status, a.body)
		}
	}
	n.same(before)
}
