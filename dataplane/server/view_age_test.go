package server_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/server"
)

// plainLists are the reads of an operator when a node is busy.
var plainLists = []struct{ method, path, body string }{
	{"GET", "/api/v1/queues", ""},
	{"GET", "/api/v1/queues/q", ""},
	{"POST", "/api/v1/jobs/search", `{"queue":"q"}`},
	{"POST", "/api/v1/jobs/search", `{}`},
	{"GET", "/api/v1/search/fulltext?q=word", ""},
	{"GET", "/api/v1/usage/summary", ""},
	{"GET", "/api/v1/workers", ""},
	{"GET", "/api/v1/dead", ""},
	{"GET", "/api/v1/metrics/throughput", ""},
}

// viewFile returns the path of the view of the node's only shard.
func (n *node) viewFile() (path string) {
	n.t.Helper()
	if err := filepath.WalkDir(n.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "view.db" {
			path = p
		}
		return err
	}); err != nil || path == "" {
		n.t.Fatalf("there is no view below %s: %v", n.dir, err)
	}
	return path
}

// hangView prevents the node's view from writing, as another process with a lock on the file could, until the
// returned function is called.
func (n *node) hangView() (letGo func()) {
	n.t.Helper()
	path := n.viewFile()
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "mode=rw&_pragma=busy_timeout(60000)"}).String())
	if err != nil {
		n.t.Fatal(err)
	}
	conn, err := db.Conn(n.t.Context())
	if err == nil {
		_, err = conn.ExecContext(n.t.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return func() {
		if err := conn.Close(); err != nil {
			n.t.Error(err)
		}
		if err := db.Close(); err != nil {
			n.t.Error(err)
		}
	}
}

// TestListsOfAnOldViewAnswerWithTheirAge reads from a view that does not advance. The counts of a queue are
// exact, all other lists are old and state their age, and only a read that asks for consistency is refused.
func TestListsOfAnOldViewAnswerWithTheirAge(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.ReadWait, c.FreshWait = 500*time.Millisecond, 50*time.Millisecond })
	n.enqueued(`{"queue":"q","payload":{"a":"word"}}`)
	if err := n.cell.View().Wait(t.Context(), uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	letGo := n.hangView()
	before := time.Now()
	index := ""
	for range 3 {
		index = n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"}`).header.Get(server.IndexHeader)
	}
	for _, l := range plainLists {
		a := n.send(l.method, l.path, n.admin, l.body)
		if lag, err := strconv.Atoi(a.header.Get(server.LagHeader)); a.status != 200 || err != nil || lag < 1 {
			t.Errorf("%s %s: %d %s, %s is %q", l.method, l.path, a.status, a.body, server.LagHeader, a.header.Get(server.LagHeader))
		}
	}
	queue := answers[api.Queue](n, 200, "GET", "/queues/q", "")
	if queue.Pending != 4 || queue.Enqueued != 4 || queue.OldestPendingAt == nil {
		t.Errorf("the queue is %+v", queue)
	}
	old := answers[api.SearchResponse](n, 200, "POST", "/jobs/search", `{"queue":"q"}`)
	asOf, _, err := old.AsOf.Parse()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "total", old.Total, 1)
	if asOf.After(time.Now()) || asOf.Before(before.Add(-time.Minute)) {
		t.Errorf("the search is as of %v, which is not between a minute before the test and now", asOf)
	}
	for _, insist := range []string{"?consistency=strong", "?min_index=" + index} {
		if a := n.send("POST", "/api/v1/jobs/search"+insist, n.admin, `{}`); a.status != 503 || a.problem(t).Code != api.ViewBehind {
			t.Errorf("%s: %d %s", insist, a.status, a.body)
		}
		if a := n.send("GET", "/api/v1/queues"+insist, n.admin, ""); a.status != 200 {
			t.Errorf("queues%s: %d %s", insist, a.status, a.body)
		}
	}
	letGo()
	if err := n.cell.View().Wait(t.Context(), uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	a := n.send("POST", "/api/v1/jobs/search", n.admin, `{}`)
	if a.status != 200 || a.header.Get(server.LagHeader) != "0" {
		t.Errorf("%d %s, %s is %q", a.status, a.body, server.LagHeader, a.header.Get(server.LagHeader))
	}
}

// TestListsAnswerWhileTheViewIsBuiltAnew trims the feed past a view that hangs, so that the view must be
// built anew. Until that is done, lists answer from the old file and state their age.
func TestListsAnswerWhileTheViewIsBuiltAnew(t *testing.T) {
	t.Parallel()
	n := startNodeOn(t, host.Config{FeedBytes: 2000}, func(c *server.Config) { c.FreshWait = 20 * time.Millisecond })
	n.enqueued(`{"queue":"q","payload":{"a":"word"}}`)
	if err := n.cell.View().Wait(t.Context(), uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	seq, _ := n.cell.View().Cursor()
	total, seen := int64(1), int64(1)
	look := func() (current bool) {
		t.Helper()
		for _, l := range plainLists {
			a := n.send(l.method, l.path, n.admin, l.body)
			if _, err := strconv.Atoi(a.header.Get(server.LagHeader)); a.status != 200 || err != nil {
				t.Fatalf("%s %s: %d %s, %s is %q", l.method, l.path, a.status, a.body, server.LagHeader, a.header.Get(server.LagHeader))
			}
		}
		if q := answers[api.Queue](n, 200, "GET", "/queues/q", ""); q.Pending != total {
			t.Fatalf("the queue has %d pending jobs of %d", q.Pending, total)
		}
		found := answers[api.SearchResponse](n, 200, "POST", "/jobs/search", `{"queue":"q"}`).Total
		if found < seen || found > total {
			t.Fatalf("a search finds %d jobs of %d, after it has found %d", found, total, seen)
		}
		seen = found
		return found == total
	}
	letGo := n.hangView()
	for n.cell.State().Head().GetFeedFirstSeq() <= seq {
		n.enqueued(`{"queue":"q"}`)
		total++
		look()
	}
	letGo()
	for end := time.Now().Add(time.Minute); !look(); {
		if time.Now().After(end) {
			t.Fatal("the view is not built")
		}
	}
	if err := n.cell.View().Wait(t.Context(), uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	if a := n.send("GET", "/api/v1/workers", n.admin, ""); a.header.Get(server.LagHeader) != "0" {
		t.Errorf("%s is %q when the view is built", server.LagHeader, a.header.Get(server.LagHeader))
	}
}

// TestAViewLagLimitSlowsWhatMakesWork checks that a node whose view is older than the limit refuses enqueues
// and fetches, also those of a stream, and accepts acks and fails.
func TestAViewLagLimitSlowsWhatMakesWork(t *testing.T) {
	t.Parallel()
	n := startNodeOn(t, host.Config{ViewLagLimit: time.Second}, func(c *server.Config) { c.FreshWait = 20 * time.Millisecond })
	for range 5 {
		n.enqueued(`{"queue":"q"}`)
	}
	held := answers[api.FetchBatchResponse](n, 200, "POST", "/fetch/batch", `{"queues":["q"],"worker_id":"w","count":4,"timeout":0}`).Jobs
	if err := n.cell.View().Wait(t.Context(), uint64(n.cell.Applied())); err != nil || len(held) != 4 {
		t.Fatalf("%d jobs, %v", len(held), err)
	}
	letGo := n.hangView()
	n.enqueued(`{"queue":"q"}`)
	for {
		a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q"}`)
		if a.status == 201 {
			continue
		}
		a.wantRetry(t, api.Overloaded)
		break
	}
	for path, body := range map[string]string{"/enqueue/batch": `{"jobs":[{"queue":"q"}]}`, "/fetch": `{"queues":["q"],"worker_id":"w","timeout":0}`} {
		if a := n.send("POST", "/api/v1"+path, n.admin, body); a.status != 429 || a.problem(t).Code != api.Overloaded {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	stream := n.stream(n.rpcFront(), n.admin)
	for name, frame := range map[string]*workerpb.StreamLifecycleRequest{
		"a frame that enqueues": {RequestId: 1, Enqueues: []*workerpb.EnqueueRequest{{Queue: "q"}}},
		"a frame that fetches":  {RequestId: 2, Queues: []string{"q"}, WorkerId: "w", FetchCount: 1},
	} {
		if out := exchange(t, stream, frame); !strings.HasPrefix(out.Error, "OVERLOADED: ") || len(out.EnqueuedJobIds)+len(out.Jobs) > 0 {
			t.Errorf("%s: %v", name, out)
		}
	}
	if out := exchange(t, stream, &workerpb.StreamLifecycleRequest{RequestId: 3, WorkerId: "w", Acks: []*workerpb.AckBatchItem{{JobId: held[3].JobID}}}); out.Acked != 1 {
		t.Errorf("a frame that acks: %v", out)
	}
	for _, c := range []struct{ path, body string }{
		{"/heartbeat", `{"jobs":{"` + held[1].JobID + `":{}}}`},
		{"/ack/" + held[0].JobID, `{}`},
		{"/fail/" + held[1].JobID, `{"error":"e"}`},
		{"/ack/batch", `{"acks":[{"job_id":"` + held[2].JobID + `"}]}`},
	} {
		if a := n.send("POST", "/api/v1"+c.path, n.admin, c.body); a.status != 200 {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
	status, err := n.cell.Status()
	if err != nil || status.ViewSlowed < 5 || status.ViewBehind <= time.Second {
		t.Errorf("%d ops were refused of a view %v behind, %v", status.ViewSlowed, status.ViewBehind, err)
	}
	letGo()
	if err := n.cell.View().Wait(t.Context(), uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	n.enqueued(`{"queue":"q"}`)
}

// TestAnOldViewAnswersFromTheStart starts a node with a view that is behind the feed's first event. While a
// new view is built, lists answer from the old view and state its age, and reads that ask for consistency are
// refused.
func TestAnOldViewAnswersFromTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() *node {
		return startNodeIn(t, dir, host.Config{FeedBytes: 2000}, func(c *server.Config) { c.ReadWait, c.FreshWait = 500*time.Millisecond, 20*time.Millisecond })
	}
	n := start()
	n.enqueued(`{"queue":"q","payload":{"a":"word"}}`)
	if err := n.cell.View().Wait(t.Context(), uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	seq, _ := n.cell.View().Cursor()
	n.stop()
	file := n.viewFile()
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	n = start()
	total := int64(1)
	for n.cell.State().Head().GetFeedFirstSeq() <= seq {
		n.enqueued(`{"queue":"q"}`)
		total++
	}
	n.stop()
	inTheWay := file + ".new" // a file that cannot be built
	if err := errors.Join(os.WriteFile(file, old, 0o600), os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}

	n = start()
	for _, l := range plainLists {
		a := n.send(l.method, l.path, n.admin, l.body)
		if lag, err := strconv.Atoi(a.header.Get(server.LagHeader)); a.status != 200 || err != nil || lag < 1 {
			t.Errorf("%s %s: %d %s, %s is %q", l.method, l.path, a.status, a.body, server.LagHeader, a.header.Get(server.LagHeader))
		}
	}
	found := answers[api.SearchResponse](n, 200, "POST", "/jobs/search", `{"queue":"q"}`)
	if asOf, _, err := found.AsOf.Parse(); found.Total != 1 || err != nil || !asOf.Before(time.Now()) {
		t.Errorf("the search has %d jobs as of %v (%v)", found.Total, asOf, err)
	}
	if q := answers[api.Queue](n, 200, "GET", "/queues/q", ""); q.Pending != total {
		t.Errorf("the queue has %d pending jobs of %d", q.Pending, total)
	}
	if a := n.send("POST", "/api/v1/jobs/search?consistency=strong", n.admin, `{}`); a.status != 503 || a.problem(t).Code != api.ViewBehind || a.header.Get("Retry-After") == "" {
		t.Errorf("a strong read: %d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
	}

	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := n.cell.View().Wait(t.Context(), uint64(n.cell.Applied())); err != nil {
		t.Fatal(err)
	}
	if found := answers[api.SearchResponse](n, 200, "POST", "/jobs/search", `{"queue":"q"}`); found.Total != total {
		t.Errorf("the new view has %d jobs of %d", found.Total, total)
	}
}
