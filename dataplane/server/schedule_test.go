package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// made creates a schedule.
func (n *node) made(body string) (out api.Schedule) {
	n.t.Helper()
	a := n.send("POST", "/api/v1/schedules", n.admin, body)
	if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusCreated {
		n.t.Fatalf("%d %s", a.status, a.body)
	}
	return out
}

func TestASchedulesLife(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	made := n.made(`{"name":"daily","queue":"q","cron":"0 9 * * *","timezone":"America/New_York","payload":{"b":1,"a":2},"unique_key":"u",
		"max_retries":5,"priority":"high","tags":{"a":"b"},"headers":{"h":"i"},"missed":"all","jitter":"30s","fairness_key":"acme","fairness_weight":3}`)
	if !strings.HasPrefix(made.ID, "sched_") {
		t.Errorf("its id is %s", made.ID)
	}
	present(t, "next_run", made.NextRun)
	wantFields(t, "the created schedule", made, func(want *api.Schedule) {
		want.LastRun, want.Payload, want.MaxRetries, want.Priority = nil, json.RawMessage(`{"b":1,"a":2}`), 5, 1
		want.Missed, want.Jitter, want.UniqueKey, want.Tags, want.Headers = "all", "30s", ptr("u"), api.Strings{"a": "b"}, api.Strings{"h": "i"}
		want.FairnessKey, want.FairnessWeight = ptr("acme"), ptr(3)
	})
	path := "/api/v1/schedules/" + made.ID
	do := func(method, path, body string, header ...string) answer {
		t.Helper()
		a := n.send(method, path, n.admin, body, header...)
		if a.status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
		}
		return a
	}
	a := do("GET", path, "")
	if a.header.Get("ETag") != `"1"` {
		t.Errorf("its ETag is %s", a.header.Get("ETag"))
	}
	if list := do("GET", "/api/v1/schedules", ""); string(list.body) != "["+strings.TrimSpace(string(a.body))+"]\n" {
		t.Errorf("listed %s", list.body)
	}
	checkForecast(t, made, do("GET", path+"/next", "").body)
	for _, c := range []struct{ verb, want string }{{"pause", "paused"}, {"pause", "paused"}, {"resume", "resumed"}, {"resume", "resumed"}, {"pause", "paused"}} {
		if a := do("POST", path+"/"+c.verb, ""); string(a.body) != fmt.Sprintf("{\"status\":%q}\n", c.want) {
			t.Errorf("%s: %s", c.verb, a.body)
		}
	}
	var now api.Schedule
	a = do("GET", path, "")
	if err := json.Unmarshal(a.body, &now); err != nil {
		t.Fatal(err)
	}
	equal(t, "the ETag of the paused schedule", a.header.Get("ETag"), `"4"`)
	wantFields(t, "the paused schedule", now, func(want *api.Schedule) { want.Paused, want.NextRun = true, nil })

	// It still runs by hand.
	var run api.ScheduleRunResponse
	if err := json.Unmarshal(do("POST", path+"/run", "").body, &run); err != nil || run.Status != "ok" {
		t.Fatalf("run: %+v, %v", run, err)
	}
	job, err := n.client(n.admin).Job(t.Context(), run.JobID, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the job's tag", job.Tags["a"], "b")
	equal(t, "the job's header", job.Headers["h"], "i")
	wantFields(t, "the schedule's job", job, func(want *api.Job) {
		want.Queue, want.MaxRetries, want.Priority, want.Payload = "q", 5, 1, json.RawMessage(`{"b":1,"a":2}`)
		want.FairnessKey, want.FairnessWeight = ptr("acme"), ptr(3)
	})

	// Omitted fields of a replacement get their defaults.
	a = do("PUT", path, `{"name":"hourly","queue":"p","cron":"@hourly"}`, `If-Match: "4"`)
	if err := json.Unmarshal(a.body, &now); err != nil || a.header.Get("ETag") != `"5"` {
		t.Fatalf("replaced: %s %s", a.header.Get("ETag"), a.body)
	}
	present(t, "next_run", now.NextRun)
	equal(t, "tags and headers", len(now.Tags)+len(now.Headers), 0)
	wantFields(t, "the replaced schedule", now, func(want *api.Schedule) {
		want.ID, want.CreatedAt, want.Timezone, want.Missed, want.Jitter = made.ID, made.CreatedAt, "UTC", "once", "0s"
		want.Payload, want.UniqueKey, want.FairnessKey, want.FairnessWeight = json.RawMessage("{}"), nil, nil, nil
		want.MaxRetries, want.Priority, want.Paused = 3, 2, false
	})
	n.checkStaleSchedule(t, path)
	if a := do("DELETE", path, "", `If-Match: "5"`); string(a.body) != "{\"status\":\"deleted\"}\n" {
		t.Errorf("deleted: %s", a.body)
	}
	n.noSchedule(made.ID, "daily", "job_"+strings.TrimPrefix(made.ID, "sched_"))
}

// checkStaleSchedule checks that writes with another ETag than the fifth are refused.
func (n *node) checkStaleSchedule(t *testing.T, path string) {
	t.Helper()
	for _, header := range []string{`If-Match: "4"`, `If-Match: W/"5"`, `If-Match: "x"`} {
		for method, body := range map[string]string{"PUT": `{"name":"hourly","queue":"p","cron":"@hourly"}`, "DELETE": ""} {
			if a := n.send(method, path, n.admin, body, header); a.status != http.StatusPreconditionFailed || a.problem(t).Code != api.PreconditionFailed {
				t.Errorf("%s %s: %d %s", method, header, a.status, a.body)
			}
		}
	}
}

// checkForecast checks the next runs of a schedule at nine in New York.
func checkForecast(t *testing.T, made api.Schedule, body []byte) {
	t.Helper()
	var next []time.Time
	if err := json.Unmarshal(body, &next); err != nil || len(next) != server.DefaultNextRuns {
		t.Fatalf("next runs %v, %v", next, err)
	}
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range next {
		if at.In(zone).Hour() != 9 || at.Minute() != 0 {
			t.Errorf("runs at %s", at)
		}
	}
	if string(*made.NextRun) != string(api.TimeOf(next[0])) {
		t.Errorf("next run %s, forecast %s", *made.NextRun, next[0])
	}
}

// noSchedule checks that every route answers NOT_FOUND for these ids.
func (n *node) noSchedule(ids ...string) {
	n.t.Helper()
	for _, c := range []string{"GET ", "PUT ", "DELETE ", "POST /run", "POST /pause", "POST /resume", "GET /next"} {
		method, verb, _ := strings.Cut(c, " ")
		for _, id := range ids {
			body := ""
			if method == "PUT" {
				body = `{"name":"x","queue":"q","cron":"@daily"}`
			}
			if a := n.send(method, "/api/v1/schedules/"+id+verb, n.admin, body); a.status != 404 || a.problem(n.t).Code != api.NotFound {
				n.t.Errorf("%s of %s: %d %s", c, id, a.status, a.body)
			}
		}
	}
}

func TestScheduleRefusals(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	made := n.made(`{"name":"taken","queue":"q","cron":"@yearly"}`)
	before := n.dump()
	with := func(more string) string { return `{"name":"n","queue":"q","cron":"@daily"` + more + `}` }
	for body, want := range map[string]struct {
		code  api.Code
		names string
	}{
		`{"queue":"q","cron":"@daily"}`:                          {api.ValidationError, "name"},
		`{"name":"n","cron":"@daily"}`:                           {api.ValidationError, "queue"},
		`{"name":"n","queue":"q"}`:                               {api.InvalidCron, "cron"},
		`{"name":"n","queue":"q","cron":"61 * * * *"}`:           {api.InvalidCron, `minute "61"; 0 to 59`},
		`{"name":"n","queue":"q","cron":"0 0 30 2 *"}`:           {api.InvalidCron, "never due"},
		`{"name":"n","queue":"q","cron":"@every 5s"}`:            {api.InvalidCron, "interval"},
		`{"name":"n","queue":"q","cron":"bad","priority":9}`:     {api.ValidationError, "priority"},
		`{"name":"taken","queue":"q","cron":"@daily"}`:           {api.Conflict, `"taken"`},
		with(`,"timezone":"Mars/Olympus"`):                       {api.ValidationError, "timezone"},
		with(`,"timezone":"Local"`):                              {api.ValidationError, "timezone"},
		with(`,"missed":"some"`):                                 {api.ValidationError, "missed"},
		with(`,"fairness_key":"*"`):                              {api.ValidationError, "fairness_key"},
		with(`,"fairness_weight":3`):                             {api.ValidationError, "fairness_weight"},
		with(`,"jitter":"61m"`):                                  {api.ValidationError, "jitter"},
		with(`,"jitter":"-1s"`):                                  {api.ValidationError, "jitter"},
		with(`,"jitter":"1us"`):                                  {api.ValidationError, "jitter"},
		with(`,"max_retries":0`):                                 {api.ValidationError, "max_retries"},
		with(`,"tags":{"":"x"}`):                                 {api.ValidationError, "tags"},
		with(`,"next_run":"2030-01-01T00:00:00Z"`):               {api.ValidationError, "next_run"},
		with(`,"unique_key":"` + strings.Repeat("k", 513) + `"`): {api.ValidationError, "unique_key"},
		with(`,"payload":"` + strings.Repeat("k", 1<<20) + `"`):  {api.PayloadTooLarge, "payload"},
		`{"name":"n"`: {api.ParseError, "JSON"},
	} {
		a := n.send("POST", "/api/v1/schedules", n.admin, body)
		if p := a.problem(t); p.Code != want.code || a.status != want.code.Status() || !strings.Contains(p.Error, want.names) {
			t.Errorf("%.100s: %d %.300s", body, a.status, a.body)
		}
	}
	for _, count := range []string{"0", "101", "x", "-1"} {
		if a := n.send("GET", "/api/v1/schedules/"+made.ID+"/next?n="+count, n.admin, ""); a.problem(t).Code != api.ValidationError {
			t.Errorf("n=%s: %s", count, a.body)
		}
	}
	if a := n.send("GET", "/api/v1/schedules/"+made.ID+"/next?n=100", n.admin, ""); a.status != 200 {
		t.Errorf("n=100: %s", a.body)
	}
	n.same(before)
}

func init() {
	const nobody = "/api/v1/schedules/sched_00000000000000000000000000"
	of := func(route, path, body string, status int) {
		row := scoped[route]
		row.path, row.body, row.status, row.lacks = path, body, status, "theirs\""
		scoped[route] = row
	}
	of("GET /api/v1/schedules", "", "", 200)
	of("POST /api/v1/schedules", "", `{"name":"n","queue":"theirs","cron":"@daily"}`, 403)
	of("PUT /api/v1/schedules/{id}", nobody, `{"name":"n","queue":"theirs","cron":"@daily"}`, 404)
	of("GET /api/v1/schedules/{id}", nobody, "", 404)
	of("DELETE /api/v1/schedules/{id}", nobody, "", 404)
	of("POST /api/v1/schedules/{id}/run", nobody+"/run", "", 404)
	of("POST /api/v1/schedules/{id}/pause", nobody+"/pause", "", 404)
	of("POST /api/v1/schedules/{id}/resume", nobody+"/resume", "", 404)
	of("GET /api/v1/schedules/{id}/next", nobody+"/next", "", 404)
}

// A key sees only the schedules of its queues, and a key that may only read changes none.
func TestSchedulesKeepToTheScope(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.made(`{"name":"mine","queue":"team.a","cron":"@yearly"}`)
	theirs := n.made(`{"name":"theirs","queue":"other","cron":"@yearly"}`)
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"team.*"}})
	reader := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	if a := n.send("GET", "/api/v1/schedules", scoped, ""); strings.Contains(string(a.body), theirs.ID) || !strings.Contains(string(a.body), mine.ID) {
		t.Errorf("listed %s", a.body)
	}
	for _, c := range []string{"GET ", "PUT ", "DELETE ", "POST /run", "POST /pause", "POST /resume", "GET /next"} {
		method, verb, _ := strings.Cut(c, " ")
		body := ""
		if method == "PUT" {
			body = `{"name":"mine","queue":"team.a","cron":"@daily"}`
		}
		if a := n.send(method, "/api/v1/schedules/"+theirs.ID+verb, scoped, body); a.status != 404 {
			t.Errorf("%s out of scope: %d %s", c, a.status, a.body)
		}
		want := 403
		if method == "GET" {
			want = 200
		}
		if a := n.send(method, "/api/v1/schedules/"+theirs.ID+verb, reader, body); a.status != want {
			t.Errorf("%s by a reader: %d %s", c, a.status, a.body)
		}
	}
	for _, c := range []struct{ method, path string }{{"POST", "/api/v1/schedules"}, {"PUT", "/api/v1/schedules/" + mine.ID}} {
		if a := n.send(c.method, c.path, scoped, `{"name":"mine","queue":"other","cron":"@daily"}`); a.status != 403 {
			t.Errorf("%s into a queue out of scope: %d %s", c.method, a.status, a.body)
		}
	}
}

// A node creates the jobs of a schedule on time by itself, one each second.
func TestASchedulesJobsComeByThemselves(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	made := n.made(`{"name":"s","queue":"q","cron":"* * * * * *"}`)
	c := n.client(n.admin)
	var last time.Time
	for range 3 {
		job, err := c.Fetch(t.Context(), api.FetchRequest{Queues: []string{"q"}})
		if err != nil || job == nil {
			t.Fatalf("fetched %v, %v", job, err)
		}
		found, err := c.Job(t.Context(), job.JobID, client.Read{})
		if err != nil {
			t.Fatal(err)
		}
		at, _, err := found.CreatedAt.Parse()
		if err != nil {
			t.Fatal(err)
		}
		if second := at.Truncate(time.Second); !second.After(last) {
			t.Errorf("two jobs came at %s", second)
		} else {
			last = second
		}
	}
	var now api.Schedule
	a := n.send("GET", "/api/v1/schedules/"+made.ID, n.admin, "")
	if err := json.Unmarshal(a.body, &now); err != nil || now.LastRun == nil || now.NextRun == nil {
		t.Errorf("after three runs it is %s", a.body)
	}
}
