package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// caughtUp waits until the view shows everything.
func (v *tenant) caughtUp() {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := v.cell.View().Wait(ctx, uint64(v.cell.Applied())); err != nil {
		v.t.Fatal(err)
	}
}

// store returns everything in the tenant's store, including the position, because no other tenant may add
// even an empty entry to its log.
func (v *tenant) store() (all []state.KV) {
	v.t.Helper()
	v.server.RecordPending() // refusals of the tenant's own requests go to its log
	snapshot := v.cell.State().Snapshot()
	defer snapshot.Close()
	for kv, err := range snapshot.All() {
		if err != nil {
			v.t.Fatal(err)
		}
		all = append(all, kv)
	}
	return all
}

var passing = regexp.MustCompile(`"(duration_ms|rate_per_minute)":[0-9.e+-]+|"as_of":"[^"]*"`)

// reads returns everything that the tenant can read of its own.
func (v *tenant) reads() string {
	v.t.Helper()
	v.caughtUp()
	var all strings.Builder
	paths := []string{"/api/v1/queues", "/api/v1/queues/" + v.queue}
	for _, id := range v.values {
		if strings.HasPrefix(id, "job_") {
			paths = append(paths, "/api/v1/jobs/"+id)
		}
	}
	for _, path := range paths {
		all.Write(v.must(nil, "GET", path, "").body)
	}
	all.Write(v.must(nil, "POST", "/api/v1/jobs/search", `{"limit":1000}`).body)
	return passing.ReplaceAllString(all.String(), "")
}

// nasty are values that passed the checks of other systems.
var nasty = []string{
	"", "*", "%", "%%", "_", "..", "../", "../../ns_a/0", "%2e%2e%2f", "/", "//", `\`, "\x00", "own\x00x", "a:b", "a|b", "ns_a/own", "ns_b/own",
	"' OR 1=1 --", `" OR ""="`, "job_", "JOB_00000000000000000000000000", "job_%", "null", "default", strings.Repeat("x", 5000), "\u202e", "\xff\xfe",
}

// wildcard matches a part of a route's path that accepts any value.
var wildcard = regexp.MustCompile(`\{[a-z_]+\}`)

// attempt is one request of an attack.
type attempt struct {
	method, path, body string
	header             []string
}

func (a attempt) String() string {
	return fmt.Sprintf("%s %.200s %.200s %.200q", a.method, a.path, a.body, a.header)
}

// attempts returns the requests to a route with a value: alone, and for some values with other names of the
// victim.
func attempts(route serve.Route, shape, value string, victim *tenant, all bool) (list []attempt) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a string always encodes
	}
	fill := strings.NewReplacer("V", string(text), "Q", `"`+victim.queue+`"`, "TOKEN", `"`+victim.token+`"`)
	path := wildcard.ReplaceAllLiteralString(route.Path, url.PathEscape(value))
	list = append(list, attempt{method: route.Method, path: path, body: fill.Replace(shape)})
	if !all {
		return list
	}
	for _, query := range []string{
		"min_index=" + victim.index, "consistency=strong", "consistency=eventual", "namespace=" + string(victim.ns),
		"cursor=" + url.QueryEscape(value), "confirm=" + url.QueryEscape(value),
	} {
		more := list[0]
		more.path += "?" + query
		list = append(list, more)
	}
	for _, line := range []string{
		"Idempotency-Key: " + victim.shared, "Idempotency-Key: fetch-" + victim.shared, "Corvo-Index: " + victim.index,
		"X-Corvo-Namespace: " + string(victim.ns), "X-Forwarded-Host: " + string(victim.ns), "Host: " + string(victim.ns),
	} {
		more := list[0]
		more.header = []string{line}
		list = append(list, more)
	}
	return list
}

// check looks for secrets in an answer.
func (v *tenant) check(victim *tenant, a attempt, got answer) {
	v.t.Helper()
	whole := fmt.Sprint(got.header) + string(got.body)
	if strings.Contains(whole, victim.secret) {
		v.t.Errorf("%s answers with what is another tenant's: %d %s", a, got.status, got.body)
	}
	if got.status >= 500 && got.status != 501 && got.status != 503 {
		v.t.Errorf("%s: %d %s", a, got.status, got.body)
	}
}

// attack sends, with the tenant's own key, every kind of hostile value to every
// route.
func (v *tenant) attack(victim *tenant, routes []serve.Route) (sent int) {
	v.t.Helper()
	values := append(slices.Clone(victim.values), nasty...)
	for _, route := range routes {
		bodies, ok := shapes[route.Method+" "+route.Path]
		switch {
		case route.Unbuilt:
			bodies = []string{`{"id":V,"queue":V}`}
		case !ok:
			v.t.Errorf("%s %s is not among the shapes: what does it take, and can it reach another tenant's?", route.Method, route.Path)
			continue
		}
		for _, shape := range bodies {
			tried := values
			if !wildcard.MatchString(route.Path) && !strings.Contains(shape, "V") {
				tried = tried[:1]
			}
			if route.Unbuilt {
				tried = victim.values[:1]
			}
			for i, value := range tried {
				for _, a := range attempts(route, shape, value, victim, i == 0) {
					v.check(victim, a, v.ask(a.method, a.path, a.body, a.header...))
					sent++
				}
				for _, name := range []string{string(victim.ns), strings.Replace(string(victim.ns), "ns_", "name-", 1)} {
					a := attempts(route, shape, value, victim, false)[0]
					a.header = []string{api.NamespaceHeader + ": " + name}
					got := v.ask(a.method, a.path, a.body, a.header...)
					v.check(victim, a, got)
					if route.Permission != serve.Open && got.status != 403 && got.status != 404 {
						v.t.Errorf("%s: %d %s", a, got.status, got.body)
					}
					if i > 0 {
						break
					}
				}
			}
		}
	}
	return sent
}

// A tenant reads nothing of another's and changes nothing, with any request. The whole cloud depends on this.
func TestWalls(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t, nil)
	for _, pair := range [][2]*tenant{{b, a}, {a, b}} {
		attacker, victim := pair[0], pair[1]
		store, reads := victim.store(), victim.reads()
		sent := attacker.attack(victim, attacker.server.Routes())
		t.Logf("%s sent %d requests against %s", attacker.ns, sent, victim.ns)
		after := victim.store()
		if len(store) != len(after) {
			t.Fatalf("%s has %d records, had %d", victim.ns, len(after), len(store))
		}
		for i := range store {
			if !bytes.Equal(store[i].Key, after[i].Key) || !bytes.Equal(store[i].Value, after[i].Value) {
				t.Errorf("record %x of %s has changed", store[i].Key, victim.ns)
			}
		}
		if now := victim.reads(); now != reads {
			t.Errorf("%s reads %s, read %s", victim.ns, now, reads)
		}
		attacker.counts(victim)
	}
}

// counts checks that the counts shown to the tenant are those of its own store.
func (v *tenant) counts(other *tenant) {
	v.t.Helper()
	v.caughtUp()
	snapshot := v.cell.State().Snapshot()
	defer snapshot.Close()
	jobs, queues := int64(0), 0
	for _, err := range snapshot.Jobs() {
		if err != nil {
			v.t.Fatal(err)
		}
		jobs++
	}
	for _, err := range snapshot.Queues() {
		if err != nil {
			v.t.Fatal(err)
		}
		queues++
	}
	var page api.SearchResponse
	v.must(&page, "POST", "/api/v1/jobs/search", `{"limit":1000}`)
	if page.Total != jobs {
		v.t.Errorf("a search counts %d jobs of %d", page.Total, jobs)
	}
	var listed []api.Queue
	v.must(&listed, "GET", "/api/v1/queues", "")
	var sum int64
	for _, q := range listed {
		sum += q.Pending + q.Active + q.Held + q.Completed + q.Dead + q.Cancelled + q.Scheduled + q.Retrying
	}
	if len(listed) != queues || sum != jobs {
		v.t.Errorf("%d queues with %d jobs are listed; there are %d with %d", len(listed), sum, queues, jobs)
	}
	figures := string(v.must(nil, "GET", "/api/v1/metrics", "").body)
	for _, line := range []string{
		fmt.Sprintf("%s %d\n", telemetry.Queues.Name, queues),
		fmt.Sprintf("%s{shard=\"0\"} %d\n", telemetry.RaftAppliedIndex.Name, v.cell.Applied()),
	} {
		if !strings.Contains(figures, "\n"+line) {
			v.t.Errorf("the metrics do not say %s", line)
		}
	}
	var status api.ClusterStatus
	v.must(&status, "GET", "/api/v1/cluster/status", "")
	if status.Cluster != string(v.ns)+"/0" || status.AppliedIndex != uint64(v.cell.Applied()) || status.Disk.Free != nil {
		v.t.Errorf("the status is of %s: %+v", status.Cluster, status)
	}
}

// A request about data of another tenant gets the same answer as one about data that does not exist, so that
// nobody can find out which jobs, queues, keys or leases others have.
func TestWallsLookTheSameFromOutside(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t, nil)
	const nobodys = "job_00000000000000000000000000"
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/api/v1/jobs/JOB", ""},
		{"POST", "/api/v1/ack/JOB", `{"lease_token":"TOKEN"}`},
		{"POST", "/api/v1/fail/JOB", `{"lease_token":"TOKEN"}`},
		{"POST", "/api/v1/ack/batch", `{"acks":[{"job_id":"JOB","lease_token":"TOKEN"}]}`},
		{"POST", "/api/v1/heartbeat", `{"jobs":{"JOB":{"lease_token":"TOKEN"}}}`},
		{"POST", "/api/v1/jobs/search", `{"job_id_prefix":"JOB"}`},
		{"GET", "/api/v1/queues/QUEUE", ""},
		{"POST", "/api/v1/jobs/search", `{"queue":"QUEUE"}`},
		{"POST", "/api/v1/fetch", `{"queues":["QUEUE"],"timeout":0}`},
	} {
		for _, id := range a.values {
			if !strings.HasPrefix(id, "job_") {
				continue
			}
			theirs := strings.NewReplacer("JOB", id, "TOKEN", a.token, "QUEUE", a.queue)
			none := strings.NewReplacer("JOB", nobodys, "TOKEN", strings.Repeat("0", len(a.token)), "QUEUE", "nobodys-queue")
			got := b.ask(c.method, theirs.Replace(c.path), theirs.Replace(c.body))
			want := b.ask(c.method, none.Replace(c.path), none.Replace(c.body))
			same := strings.NewReplacer(id, "JOB", nobodys, "JOB", a.queue, "QUEUE", "nobodys-queue", "QUEUE")
			x, y := passing.ReplaceAllString(same.Replace(string(got.body)), ""), passing.ReplaceAllString(same.Replace(string(want.body)), "")
			if got.status != want.status || x != y {
				t.Errorf("%s %s: %d %s of another's, %d %s of nobody's", c.method, c.path, got.status, x, want.status, y)
			}
		}
	}
	// The same Idempotency-Key and body in two namespaces are two requests.
	body := fmt.Sprintf(`{"queue":%q}`, "both")
	var one, two, again api.EnqueueResponse
	a.must(&one, "POST", "/api/v1/enqueue", body, "Idempotency-Key: both")
	b.must(&two, "POST", "/api/v1/enqueue", body, "Idempotency-Key: both")
	b.must(&again, "POST", "/api/v1/enqueue", body, "Idempotency-Key: both")
	if one.JobID == two.JobID || again.JobID != two.JobID {
		t.Errorf("under one key: %s in one namespace, %s and then %s in the other", one.JobID, two.JobID, again.JobID)
	}
	// A key is valid only as a whole: its id alone gives no access.
	forged, _, _, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	thief := *b
	for _, key := range []string{forged, a.keyID, "cv_ns_" + a.keyID + forged[len("cv_ns_")+keyring.IDLength:], ""} {
		thief.key = key
		if got := thief.ask("GET", "/api/v1/queues", ""); got.status != 401 {
			t.Errorf("the key %q: %d %s", key, got.status, got.body)
		}
	}
}

// A server has either one namespace or an Authenticator.
func TestNewRefusesAWrongAuthenticator(t *testing.T) {
	t.Parallel()
	h, err := host.Open(host.Config{DataDir: t.TempDir(), NodeID: "n1", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	auth := directoryAuth{fleet.NewDirectory()}
	for _, cfg := range []server.Config{{Namespace: "a"}, {Host: h}, {Host: h, Namespace: "a", Authenticator: auth}, {Host: h, Authenticator: auth, Dev: true}} {
		if _, err := server.New(cfg); err == nil {
			t.Errorf("taken: %+v", cfg)
		}
	}
	s, err := server.New(server.Config{Host: h, Authenticator: auth})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Drain()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	if w.Code != 503 || !strings.Contains(w.Body.String(), "shutting down") {
		t.Errorf("a draining host: %d %s", w.Code, w.Body)
	}
}
