package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

func init() {
	for _, path := range []string{"/api/v1/events?last_event_id=0", "/api/v1/cluster/events"} {
		route, _, _ := strings.Cut(path, "?")
		c := scoped["GET /api/v1/queues"]
		c.path, c.has, c.lacks, c.status = path, `"mine.b"`, "theirs", http.StatusOK
		scoped["GET "+route] = c
		shapes["GET "+route] = []string{""}
	}
	c := scoped["GET /api/v1/jobs/{id}"]
	c.path = "/api/v1/jobs/JOB/events"
	scoped["GET /api/v1/jobs/{id}/events"] = c
	shapes["GET /api/v1/jobs/{id}/events"] = []string{""}
}

type untilIdle struct {
	*httptest.ResponseRecorder
	comments int
	leave    func()
}

func (w *untilIdle) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte(":\n")) {
		if w.comments++; w.comments == 2 {
			w.leave()
		}
	}
	return w.ResponseRecorder.Write(b)
}

// follower reads a stream of events.
type follower struct {
	t      testing.TB
	resp   *http.Response
	lines  *bufio.Scanner
	lastID string
}

func (n *node) follow(key, query string, header ...string) *follower {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), "GET", n.url+"/api/v1/events"+query, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		n.t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
		equal(n.t, name, resp.Header.Get(name), want)
	}
	f := &follower{t: n.t, resp: resp, lines: bufio.NewScanner(resp.Body)}
	f.lines.Buffer(nil, 64<<10)
	return f
}

// next returns the next event, or nil at a heartbeat or the end of the stream.
func (f *follower) next() *api.Event {
	f.t.Helper()
	var e *api.Event
	id, word, comment := "", "", false
	for f.lines.Scan() {
		switch line := f.lines.Text(); {
		case line == ":":
			comment = true
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "event: "):
			word = line[7:]
		case strings.HasPrefix(line, "data: "):
			if len(line) >= 60<<10 {
				f.t.Errorf("a line of %d bytes", len(line))
			}
			e = &api.Event{}
			if err := json.Unmarshal([]byte(line[6:]), e); err != nil {
				f.t.Fatalf("%s: %v", line, err)
			}
		case line == "":
			if id != "" {
				f.lastID = id
			}
			if e != nil && e.Type != word {
				f.t.Errorf("event: %s, and %+v", word, e)
			}
			if e != nil || comment {
				return e
			}
		default:
			f.t.Errorf("what is %q?", line)
		}
	}
	return nil
}

// begun reads the comment at the beginning of a stream.
func (f *follower) begun() *follower {
	f.t.Helper()
	if e := f.next(); e != nil {
		f.t.Errorf("begins with %+v", e)
	}
	return f
}

// wants reads as many events as are expected and compares them.
func (f *follower) wants(want ...string) (all []*api.Event) {
	f.t.Helper()
	for _, w := range want {
		var e *api.Event
		for e = f.next(); e == nil; e = f.next() {
			if err := f.lines.Err(); err != nil {
				f.t.Fatalf("instead of %s: %v", w, err)
			}
		}
		if got := e.Type + " " + e.Queue + " " + string(e.Data); !strings.HasPrefix(got, w) {
			f.t.Fatalf("%s, want %s", got, w)
		}
		all = append(all, e)
	}
	return all
}

// ended checks that the stream ends.
func (f *follower) ended() {
	f.t.Helper()
	for f.lines.Scan() {
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	n.enqueue("before")
	live := n.follow(n.admin, "").begun()
	f := n.one(n.client(n.admin), "mail")
	if _, err := n.client(n.admin).Fail(t.Context(), f.JobID, api.FailRequest{Error: "no <route>\nto host", LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	all := live.wants(`enqueued mail {}`, `started mail {"attempt":1,"worker_id":"w1"}`,
		`failed mail {"attempt":1,"error":"no <route>\nto host","worker_id":"w1","next_attempt_at":"`, `retrying mail {"attempt":1,"next_attempt_at":"`)
	for i, e := range all {
		equal(t, "job_id", e.JobID, f.JobID)
		equal(t, "shard", e.Shard, 0)
		present(t, "at_ns", e.AtNs)
		if i > 0 && e.Seq <= all[i-1].Seq {
			t.Errorf("event %d follows event %d", e.Seq, all[i-1].Seq)
		}
	}
	// After each position, given in the header or the query; and from the oldest.
	n.follow(n.admin, "", fmt.Sprintf("Last-Event-ID: %d", all[1].Seq)).begun().wants("failed mail", "retrying mail")
	n.follow(n.admin, fmt.Sprintf("?last_event_id=%d", all[2].Seq)).begun().wants("retrying mail")
	n.follow(n.admin, "?last_event_id=0").begun().wants("enqueued before", "enqueued mail", "started mail")
	// An EventSource that reconnects opens the same URL and sends its position in the header.
	n.follow(n.admin, "?last_event_id=0", fmt.Sprintf("Last-Event-ID: %d", all[2].Seq)).begun().wants("retrying mail")
	// Filters.
	n.follow(n.admin, "?last_event_id=0&queues=mail,other&types=failed,retrying").begun().wants("failed mail", "retrying mail")
	n.follow(n.admin, "?last_event_id=0&job_ids="+f.JobID).begun().wants("enqueued mail", "started mail")
	for query, wants := range map[string]string{
		"types=finished":    "batch_completed",
		"queues=a,,b":       "queues",
		"job_ids=7":         "not a job id",
		"last_event_id=x":   "use 0 to begin",
		"last_event_id=1-2": "use 0 to begin",
		"types=" + strings.Repeat("failed,", job.MaxEventFilter) + "failed": "at most 100",
	} {
		a := n.ask("GET", "/api/v1/events?"+query, n.admin, "")
		if p := a.problem(t); a.status != 400 || p.Code != api.ValidationError || !strings.Contains(p.Error, wants) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if a := n.ask("GET", "/api/v1/events?types="+strings.Repeat("failed,", job.MaxEventFilter-1)+"failed", n.admin, ""); a.status != 200 {
		t.Errorf("as many as may be: %d %s", a.status, a.body)
	}
	if a := n.send("HEAD", "/api/v1/events", n.admin, ""); a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %d %v", a.status, a.header)
	}
}

func TestEventPages(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for range 5 {
		n.enqueue("mail")
	}
	var seen []uint64
	for cursor := ""; ; {
		var page api.EventPage
		a := n.ask("GET", "/api/v1/cluster/events?limit=2&types=enqueued&after_seq="+cursor, n.admin, "")
		if err := json.Unmarshal(a.body, &page); err != nil || a.status != 200 {
			t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		for _, e := range page.Events {
			seen = append(seen, e.Seq)
		}
		cursor = page.Cursor
		if !page.HasMore {
			break
		}
		if len(page.Events) != 2 {
			t.Errorf("a page of %d", len(page.Events))
		}
	}
	if len(seen) != 5 || seen[4]-seen[0] != 4 {
		t.Errorf("%v", seen)
	}
	for _, query := range []string{"limit=0", "limit=1001", "after_seq=x"} {
		if a := n.ask("GET", "/api/v1/cluster/events?"+query, n.admin, ""); a.status != 400 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

// A key with a scope sees the events of its own queues and learns nothing of others: neither the queue from
// which a job came nor the position of the feed.
func TestEventsOfAScopedKey(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine.*"}})
	live := n.follow(mine, "").begun()
	n.enqueue("theirs")
	id := n.enqueue("theirs")
	if err := n.client(n.admin).Move(t.Context(), id, "mine.a"); err != nil {
		t.Fatal(err)
	}
	if a := n.ask("PUT", "/api/v1/budgets/namespace/default", n.admin, `{"daily_usd":1,"default_reserve_usd":0.1}`); a.status > 299 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	n.enqueue("mine.b")
	if live.lastID != "" {
		t.Errorf("begins with id %q", live.lastID)
	}
	moved := live.wants("moved mine.a", "enqueued mine.b")[0]
	if string(moved.Data) != "{}" {
		t.Errorf("moved: %s", moved.Data)
	}
	if a := n.ask("GET", "/api/v1/events?queues=mine.a,theirs", mine, ""); a.status != 403 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A stream ends at once when its key is revoked or the node stops.
func TestEventsEndWithTheKey(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.EventHeartbeat = time.Hour })
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}})
	live, other := n.follow(key, "").begun(), n.follow(n.admin, "").begun()
	_, id, _ := keyring.Parse(key)
	if err := n.client(n.admin).RevokeKey(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	live.ended()
	n.enqueue("mail")
	other.wants("enqueued mail")
	n.server.Drain()
	other.ended()
	if a := n.ask("GET", "/api/v1/events", n.admin, ""); a.status != 503 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// After a trim a stream sends a RESET and continues with the oldest event.
func TestEventsAreTrimmed(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for range 3 {
		n.enqueue("mail")
	}
	trim := &op.TrimFeed{Meta: &op.Meta{Principal: "test"}, FirstSeq: n.cell.State().Head().FeedNextSeq - 1}
	if _, _, err := cell.Propose[*op.TrimFeedResult](t.Context(), n.cell, trim); err != nil {
		t.Fatal(err)
	}
	first := n.cell.State().Head().FeedFirstSeq
	if first < 3 {
		t.Fatalf("the oldest event is %d", first)
	}
	f := n.follow(n.admin, "?last_event_id=1").begun()
	if id := f.wants(fmt.Sprintf(`RESET  {"next_seq":%d,"reason":"trimmed"}`, first))[0]; id.Seq != first-1 || f.lastID != fmt.Sprint(first-1) {
		t.Errorf("%+v, id %s", id, f.lastID)
	}
	f.wants("enqueued mail")
	n.follow(n.admin, "?last_event_id=0").begun().wants("enqueued mail")
	// An id of another history, which lies after the last event of this one.
	n.follow(n.admin, "?last_event_id=1000000").begun().wants("RESET", "enqueued mail")
}

// A client that does not read is disconnected, and the node goes on.
func TestEventsOfASlowClient(t *testing.T) {
	t.Parallel()
	// The wait is long enough for the second client below, which reads, on a busy machine.
	n := startNode(t, func(c *server.Config) { c.EventWriteWait = 2 * time.Second })
	c := n.client(n.admin)
	// More than the system's buffers hold for a client that does not read.
	for range 100 {
		if _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "mail", MaxRetries: ptr(1)}); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := c.FetchBatch(t.Context(), api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"mail"}}, Count: ptr(100)})
	if err != nil || len(jobs) != 100 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for _, f := range jobs {
		if _, err := c.Fail(t.Context(), f.JobID, api.FailRequest{Error: strings.Repeat("\x01", job.MaxErrorText), LeaseToken: f.LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	n.follow(n.admin, "?last_event_id=0")
	eventually(t, "the stream is cut off", func() bool { return n.inFlight() == 0 })
	n.follow(n.admin, "?last_event_id=0&types=failed").begun().wants(`failed mail {"attempt":1,"error":"\u0001`)
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	for range job.MaxStreams {
		f, err := n.server.Config().Host.Follow(tenancy.Default)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Leave()
	}
	if a := n.ask("GET", "/api/v1/events", n.admin, ""); a.status != 429 || a.problem(t).Code != api.Overloaded {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := n.figures()["corvo_event_streams"]; got != job.MaxStreams {
		t.Errorf("%v streams are said to be open, want %d", got, job.MaxStreams)
	}
}

// A job's history exists until the job is purged and contains the details that are still known.
func TestJobEvents(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	f := n.one(n.client(n.admin), "mail")
	if _, err := n.client(n.admin).Fail(t.Context(), f.JobID, api.FailRequest{Error: "boom", LeaseToken: f.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if err := n.client(n.admin).Move(t.Context(), f.JobID, "post"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.client(n.admin).Cancel(t.Context(), f.JobID); err != nil {
		t.Fatal(err)
	}
	if err := n.client(n.admin).Retry(t.Context(), f.JobID); err != nil {
		t.Fatal(err)
	}
	var got api.JobEvents
	a := n.ask("GET", "/api/v1/jobs/"+f.JobID+"/events?consistency=strong", n.admin, "")
	if err := json.Unmarshal(a.body, &got); err != nil || a.status != 200 {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	var words []string
	for _, e := range got.Events {
		words = append(words, e.Type)
	}
	if w := strings.Join(words, " "); w != "enqueued started failed retrying moved cancelled revived" || got.Dropped != 0 {
		t.Errorf("%s: %s", w, a.body)
	}
}

// An event has the same id on every node, and a position stays valid when the node that sent it is gone.
func TestEventsOverNodes(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			members := startPeers(t, shards)
			a, b, c := members[0], members[1], members[2]
			queues := queueOn(shards)
			live := b.follow("", "").begun()
			var all []*api.Event
			for _, queue := range queues {
				a.enqueue(queue)
				all = append(all, live.wants("enqueued "+queue)...)
			}
			for i, e := range all {
				if e.Shard != i {
					t.Errorf("shard %d tells %+v", i, e)
				}
			}
			// Continue at another node after the first has stopped.
			place := live.lastID
			if strings.Count(place, "-") != shards-1 {
				t.Errorf("a place in %d shards is %s", shards, place)
			}
			a.close()
			for _, queue := range queues {
				b.enqueue(queue)
			}
			f := c.follow("", "?types=enqueued", "Last-Event-ID: "+place).begun()
			seen := map[string]bool{}
			for range queues {
				seen[f.wants("enqueued")[0].Queue] = true
			}
			if len(seen) != len(queues) {
				t.Errorf("%v of %v", seen, queues)
			}
			// All events, each once.
			page := api.EventPage{}
			c.do("GET", "/api/v1/cluster/events?types=enqueued&limit=1000", "", 200, &page)
			if len(page.Events) != 2*len(queues) || page.HasMore {
				t.Errorf("%d events of %d jobs", len(page.Events), 2*len(queues))
			}
		})
	}
}

// A stream ends when its namespace closes and continues after its last event when the namespace is open
// again.
func TestEventsOverARestart(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.EventHeartbeat = time.Hour })
	live := n.follow(n.admin, "").begun()
	n.enqueue("mail")
	live.wants("enqueued mail")
	if err := n.server.Config().Host.Shut(t.Context(), tenancy.Default); err != nil {
		t.Fatal(err)
	}
	live.ended()
	if err := add(t.Context(), n.server.Config().Host, tenancy.Default); err != nil {
		t.Fatal(err)
	}
	n.enqueue("post")
	n.follow(n.admin, "", "Last-Event-ID: "+live.lastID).begun().wants("enqueued post")
}

// The client reconnects a broken stream, and its caller does not notice.
func TestTheClientFollows(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	front := httptest.NewServer(n.server)
	defer front.Close()
	c, err := client.New(front.URL, n.admin)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	n.enqueue("q0")
	for e, err := range c.Events(t.Context(), client.EventQuery{After: "0", Types: []string{"enqueued"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, e.Queue); len(seen) == 4 {
			break
		}
		front.CloseClientConnections()
		n.enqueue(fmt.Sprintf("q%d", len(seen)))
	}
	if got := strings.Join(seen, " "); got != "q0 q1 q2 q3" {
		t.Errorf("%s", got)
	}
	for _, err := range c.Events(t.Context(), client.EventQuery{Types: []string{"none"}}) {
		if api.CodeOf(err) != api.ValidationError {
			t.Errorf("%v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.Events(ctx, client.EventQuery{}) {
		if err == nil {
			t.Error("goes on")
		}
	}
}

// A job's history moves with it to another shard.
func TestJobEventsOverShards(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	queues := queueOn(2)
	id := n.enqueue(queues[0])
	n.do("POST", "/api/v1/jobs/"+id+"/move", fmt.Sprintf(`{"queue":%q}`, queues[1]), 200, nil)
	words := ""
	eventually(t, "the job has come", func() bool {
		a := n.send("GET", "/api/v1/jobs/"+id+"/events", "", "")
		var got api.JobEvents
		if a.status != 200 || json.Unmarshal(a.body, &got) != nil {
			return false
		}
		words = ""
		for _, e := range got.Events {
			words += e.Type + " "
		}
		return words != ""
	})
	if words != "enqueued moved " {
		t.Error(words)
	}
}
