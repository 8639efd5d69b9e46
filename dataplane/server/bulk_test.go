package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/tenancy"
)

// many enqueues n jobs and returns their ids.
func (n *node) many(queue string, count int, more string) (ids []string) {
	n.t.Helper()
	for len(ids) < count {
		size := min(count-len(ids), job.MaxEnqueueJobs)
		jobs := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"queue":%q%s},`, queue, more), size), ",")
		var made api.EnqueueBatchResponse
		n.do("POST", "/api/v1/enqueue/batch", `{"jobs":[`+jobs+`]}`, 201, &made)
		ids = append(ids, made.JobIDs...)
	}
	return ids
}

// bulk starts an operation that ends before its answer.
func (n *node) bulk(body string) (done api.BulkResponse) {
	n.t.Helper()
	n.do("POST", "/api/v1/jobs/bulk", body, 200, &done)
	return done
}

func (n *node) bulkOperation(id string) (b api.Bulk) {
	n.t.Helper()
	n.do("GET", "/api/v1/bulk/"+id, "", 200, &b)
	return b
}

// Bulk operations act on jobs of all shards, by filter and by ids. Each job is counted once and shows the
// change.
func TestBulk(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			var queues, ids []string
			for s := range shards {
				for i := range 2 {
					queues = append(queues, onShard(s, shards, i))
					ids = append(ids, n.many(queues[len(queues)-1], 60, "")...)
				}
			}
			all := uint64(len(ids))
			if done := n.bulk(`{"action":"cancel","filter":{"state":["pending"]}}`); done.Affected != all || done.Errors != 0 {
				t.Errorf("cancel: %+v, want %d", done, all)
			}
			if done := n.bulk(fmt.Sprintf(`{"action":"retry","job_ids":%s}`, quoted(append(ids, ids[0])))); done.Affected != all || done.Errors != 0 {
				t.Errorf("retry: %+v, want %d", done, all)
			}
			// The jobs move onto one shard, and the operation acts on each once.
			target := onShard(0, shards, 7)
			if done := n.bulk(fmt.Sprintf(`{"action":"move","move_to_queue":%q,"filter":{"state":["pending"]}}`, target)); done.Affected != all || done.Errors != 0 {
				t.Errorf("move: %+v, want %d", done, all)
			}
			eventually(t, "all have arrived", func() bool {
				var q api.Queue
				return n.send("GET", "/api/v1/queues/"+target, "", "").status == 200 && json.Unmarshal(n.send("GET", "/api/v1/queues/"+target, "", "").body, &q) == nil && q.Pending == int64(all)
			})
			if done := n.bulk(fmt.Sprintf(`{"action":"change_priority","priority":"critical","filter":{"queue":%q}}`, target)); done.Affected != all {
				t.Errorf("change_priority: %+v, want %d", done, all)
			}
			var j api.Job
			n.do("GET", "/api/v1/jobs/"+ids[len(ids)-1], "", 200, &j)
			if j.Priority != 0 || j.Queue != target {
				t.Errorf("the last one is %+v", j)
			}
			done := n.bulk(fmt.Sprintf(`{"action":"approve","job_ids":%s}`, quoted(append(ids[:3:3], "job_04000000000000000000000008"))))
			b := n.bulkOperation(done.BulkOperationID)
			equal(t, "the answer's errors", done.Errors, 4)
			equal(t, "failures", len(b.Failures), 4)
			wantFields(t, "the operation", b, func(want *api.Bulk) {
				want.Action, want.Status, want.Total, want.Processed = "approve", api.BulkCompleted, 4, 4
			})
			present(t, "finished_at", b.FinishedAt)
			codes := map[string]int{}
			for _, f := range b.Failures {
				codes[f.Code]++
			}
			if codes["STATE_CONFLICT"] != 3 || codes["NOT_FOUND"] != 1 {
				t.Errorf("failures %v", b.Failures)
			}
			if done := n.bulk(`{"action":"delete","filter":{"job_id_prefix":"job_"}}`); done.Affected != all {
				t.Errorf("delete: %+v, want %d", done, all)
			}
		})
	}
}

func TestBulkRefusals(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	id := n.enqueue("q")
	named := func(count int) string {
		ids := make([]string, count)
		for i := range ids {
			ids[i] = fmt.Sprintf("job_04%023d8", i)
		}
		return quoted(ids)
	}
	for _, c := range []struct{ body, says string }{
		{`{}`, "action"},
		{`{"action":"explode","job_ids":["` + id + `"]}`, `\"explode\" is not an action`},
		{`{"action":"retry"}`, "job_ids and filter are missing"},
		{`{"action":"retry","filter":{"queue":"q"},"job_ids":["` + id + `"]}`, "filter is there beside job_ids: give one of them"},
		{`{"action":"retry","filter":{}}`, `job_id_prefix`},
		{`{"action":"retry","filter":{"queue":""}}`, `job_id_prefix`},
		{`{"action":"retry","filter":{"queue":"q","limit":3}}`, "limit"},
		{`{"action":"retry","filter":{"state":["late"]}}`, "late"},
		{`{"action":"move","job_ids":["` + id + `"]}`, "move_to_queue"},
		{`{"action":"retry","move_to_queue":"q","job_ids":["` + id + `"]}`, "only for move"},
		{`{"action":"change_priority","job_ids":["` + id + `"]}`, "priority is missing"},
		{`{"action":"change_priority","priority":3,"job_ids":["` + id + `"]}`, "priority"},
		{`{"action":"hold","priority":1,"job_ids":["` + id + `"]}`, "only for change_priority"},
		{`{"action":"hold","job_ids":["` + id + `","nobody"]}`, `\"nobody\"`},
		{`{"action":"hold","job_ids":` + named(job.MaxBulkIDs+1) + `}`, "at most 10000"},
	} {
		a := n.send("POST", "/api/v1/jobs/bulk", "", c.body)
		if a.status != 400 || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%.80s: %d %s, want %q", c.body, a.status, a.body, c.says)
		}
	}
	if done := n.bulk(`{"action":"hold","job_ids":` + named(job.MaxBulkIDs) + `}`); done.Errors != job.MaxBulkIDs {
		t.Errorf("at the bound: %+v", done)
	}
	for _, path := range []string{"bulk_04000000000000000000000008", "nothing"} {
		n.do("GET", "/api/v1/bulk/"+path, "", 404, nil)
		n.do("GET", "/api/v1/bulk/"+path+"/progress", "", 404, nil)
		n.do("DELETE", "/api/v1/bulk/"+path, "", 404, nil)
	}
}

// TestBulkRepeats checks that a request that is repeated with its Idempotency-Key returns the operation of
// the first request.
func TestBulkRepeats(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	ids := n.many("q", 5, "")
	body := `{"action":"cancel","job_ids":` + quoted(ids) + `}`
	var first, second api.BulkResponse
	n.do("POST", "/api/v1/jobs/bulk", body, 200, &first, "Idempotency-Key: once")
	n.do("POST", "/api/v1/jobs/bulk", body, 200, &second, "Idempotency-Key: once")
	if first.Affected != 5 || second.Affected != 5 || first.BulkOperationID != second.BulkOperationID {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// A key acts only on jobs and operations that it may see, by id and by filter.
func TestBulkKeepsToTheKeysQueues(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mine.*"}})
	other := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mine.*"}})
	reader := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	made := func(queue string) string {
		var e api.EnqueueResponse
		if err := json.Unmarshal(n.send("POST", "/api/v1/enqueue", n.admin, fmt.Sprintf(`{"queue":%q}`, queue)).body, &e); err != nil {
			t.Fatal(err)
		}
		return e.JobID
	}
	own, theirs := made("mine.a"), made("theirs")
	var done api.BulkResponse
	ask := func(key, body string, status int) answer {
		t.Helper()
		a := n.send("POST", "/api/v1/jobs/bulk", key, body)
		if a.status != status {
			t.Errorf("%s: %d %s, want %d", body, a.status, a.body, status)
		}
		done = api.BulkResponse{}
		if err := json.Unmarshal(a.body, &done); err != nil {
			t.Fatal(err)
		}
		return a
	}
	ask(mine, `{"action":"hold","job_ids":["`+own+`","`+theirs+`"]}`, 200)
	if done.Affected != 1 || done.Errors != 1 {
		t.Errorf("by ids: %+v", done)
	}
	a := n.send("GET", "/api/v1/bulk/"+done.BulkOperationID, mine, "")
	if want := `"failures":[{"job_id":"` + theirs + `","code":"NOT_FOUND","error":"there is no job ` + theirs + `"}]`; !strings.Contains(string(a.body), want) {
		t.Errorf("%s, want %s", a.body, want)
	}
	for _, key := range []string{other} {
		if a := n.send("GET", "/api/v1/bulk/"+done.BulkOperationID, key, ""); a.status != 404 {
			t.Errorf("another key sees it: %s", a.body)
		}
		if a := n.send("DELETE", "/api/v1/bulk/"+done.BulkOperationID, key, ""); a.status != 404 {
			t.Errorf("another key may cancel it: %s", a.body)
		}
	}
	if a := n.send("GET", "/api/v1/bulk/"+done.BulkOperationID, n.admin, ""); a.status != 200 {
		t.Errorf("who may see all queues does not see it: %s", a.body)
	}
	ask(mine, `{"action":"delete","filter":{"job_id_prefix":"job_"}}`, 200)
	if done.Affected != 1 || done.Errors != 0 {
		t.Errorf("by filter: %+v", done)
	}
	if j := n.record(theirs); j == nil || j.State != job.Pending {
		t.Errorf("the other's job is %v", j)
	}
	ask(mine, `{"action":"delete","filter":{"queue":"theirs"}}`, 403)
	ask(mine, `{"action":"move","move_to_queue":"theirs","filter":{"queue":"mine.a"}}`, 403)
	ask(reader, `{"action":"delete","filter":{"queue":"theirs"}}`, 403)
}

// An operation that runs after its answer streams its progress; the last event has its final status.
func TestBulkProgress(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	n.many("q", 1200, "")
	var begun api.BulkStarted
	n.do("POST", "/api/v1/jobs/bulk", `{"action":"hold","async":true,"filter":{"queue":"q"}}`, 202, &begun)
	if begun.Status != "processing" || begun.EstimatedTotal != 1200 {
		t.Errorf("answered %+v", begun)
	}
	resp, err := http.Get(n.url + begun.ProgressURL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var last api.BulkProgress
	name := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = text
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var p api.BulkProgress
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Fatal(err)
			}
			if p.Processed < last.Processed || p.Processed != p.Affected+p.Errors {
				t.Errorf("%+v after %+v", p, last)
			}
			last = p
		}
	}
	equal(t, "the last event", name, "completed")
	wantFields(t, "the final progress", last, func(want *api.BulkProgress) {
		want.Status, want.Affected, want.Total, want.EtaMs = "completed", 1200, 1200, 0
	})
	if last.Rate <= 0 {
		t.Errorf("its rate is %v", last.Rate)
	}
}

// An operation on many jobs continues after the answer. A cancelled operation stops, and its counts are those
// of the changes made.
func TestBulkIsCancelled(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	const all = job.BulkWaited + 1
	n.many("q", all, "")
	var begun api.BulkStarted
	n.do("POST", "/api/v1/jobs/bulk", `{"action":"cancel","filter":{"queue":"q"}}`, 202, &begun)
	if begun.EstimatedTotal != all {
		t.Errorf("about %d", begun.EstimatedTotal)
	}
	var s api.Status
	n.do("DELETE", "/api/v1/bulk/"+begun.BulkOperationID, "", 200, &s)
	b := n.bulkOperation(begun.BulkOperationID)
	var q api.Queue
	n.do("GET", "/api/v1/queues/q", "", 200, &q)
	equal(t, "the answer's status", s.Status, "cancelled")
	equal(t, "the operation's status", b.Status, "cancelled")
	equal(t, "pending jobs", uint64(q.Pending), all-b.Affected)
	if b.Processed == all {
		t.Error("a cancelled operation has processed every job")
	}
	n.do("DELETE", "/api/v1/bulk/"+begun.BulkOperationID, "", 200, nil)
	done := n.bulk(`{"action":"hold","filter":{"queue":"none"}}`)
	n.do("DELETE", "/api/v1/bulk/"+done.BulkOperationID, "", 409, nil)
}

// If the leader stops in the middle, another continues, and the counts are exact.
func TestBulkOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 2)
	const each = 2000
	queues := queueOn(2)
	for _, q := range queues {
		members[0].many(q, each, "")
	}
	var begun api.BulkStarted
	members[1].do("POST", "/api/v1/jobs/bulk", `{"action":"cancel","async":true,"filter":{"job_id_prefix":"job_"}}`, 202, &begun)
	eventually(t, "it is under way", func() bool {
		return members[1].bulkOperation(begun.BulkOperationID).Processed > 0
	})
	members[0].close()
	var b api.Bulk
	eventually(t, "it has ended", func() bool {
		a := members[1].send("GET", "/api/v1/bulk/"+begun.BulkOperationID, "", "")
		return a.status == 200 && json.Unmarshal(a.body, &b) == nil && b.FinishedAt != nil
	})
	if b.Affected != 2*each || b.Errors != 0 || b.Status != api.BulkCompleted {
		t.Errorf("%+v, want %d", b, 2*each)
	}
	for _, q := range queues {
		eventually(t, "all are cancelled", func() bool {
			page, err := members[2].cells()[members[2].shards().Of(q).Shard()].View().Search(t.Context(), view.Query{Queue: q, States: []job.State{job.Cancelled}})
			return err == nil && page.Total == each
		})
	}
}

// The progress stream ends with its key, because an operation may run for hours.
func TestBulkProgressEndsWithItsKey(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	id := n.cell.NewID("")
	start := &op.StartBulk{ // on a shard that does not exist, so that it does not end
		Meta: &op.Meta{Ids: [][]byte{id[:]}}, Action: state.BulkAction_BULK_ACTION_CANCEL, Filter: []byte("{}"), Shares: []*op.BulkStart{{Shard: 1}},
	}
	if _, _, err := cell.Propose[*op.StartBulkResult](t.Context(), n.cell, start); err != nil {
		t.Fatal(err)
	}
	ended := make(chan answer, 1)
	go func() { ended <- n.send("GET", "/api/v1/bulk/"+job.BulkIDText(id)+"/progress", key, "") }()
	eventually(t, "its progress is followed", func() bool { return n.server.BulkStreams() == 1 })
	n.revoke(key)
	if _, _, err := cell.Propose[*op.CancelBulkResult](t.Context(), n.cell, &op.CancelBulk{Meta: &op.Meta{}, BulkId: id[:]}); err != nil {
		t.Fatal(err)
	}
	if a := <-ended; a.status != 200 || strings.Count(string(a.body), "event: progress\n") != 1 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
