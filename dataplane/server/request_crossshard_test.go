package server_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// A job's lifecycle on any shard, and with several jobs in each request that takes several.
func TestLifecycleOverShards(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			queues := queueOn(shards)
			var ids []string
			for _, q := range queues {
				ids = append(ids, n.enqueue(q), n.enqueue(q))
			}
			var got api.FetchBatchResponse
			a := n.do("POST", "/api/v1/fetch/batch", fmt.Sprintf(`{"queues":%s,"count":100,"timeout":0}`, quoted(queues)), 200, &got)
			var order []string
			for _, j := range got.Jobs {
				order = append(order, j.JobID)
			}
			if !slices.Equal(order, ids) {
				t.Fatalf("fetched %v, want %v", order, ids)
			}
			indexed, err := server.IndexedShards(a.header.Get(server.IndexHeader), shards)
			if err != nil || indexed != shards {
				t.Errorf("the index of a fetch from %d shards names %d, %v", shards, indexed, err)
			}
			beats, acks := map[string]any{"job_missing": struct{}{}}, []string{}
			for _, j := range got.Jobs {
				beats[j.JobID] = map[string]string{"lease_token": j.LeaseToken}
				acks = append(acks, fmt.Sprintf(`{"job_id":%q,"lease_token":%q}`, j.JobID, j.LeaseToken))
			}
			text, err := json.Marshal(map[string]any{"jobs": beats})
			if err != nil {
				t.Fatal(err)
			}
			var renewed api.HeartbeatResponse
			n.do("POST", "/api/v1/heartbeat", string(text), 200, &renewed)
			if len(renewed.Acked) != len(ids) || !slices.Equal(renewed.Unknown, []string{"job_missing"}) {
				t.Errorf("a heartbeat of all: %+v", renewed)
			}
			n.do("POST", "/api/v1/fail/"+ids[0], fmt.Sprintf(`{"error":"e","lease_token":%q}`, got.Jobs[0].LeaseToken), 200, nil)
			var settled api.AckBatchResponse
			a = n.do("POST", "/api/v1/ack/batch", fmt.Sprintf(`{"acks":[%s]}`, strings.Join(acks, ",")), 200, &settled)
			if settled.Acked != len(ids)-1 || len(settled.Errors) != 1 || settled.Errors[0].JobID != ids[0] {
				t.Errorf("an ack of all, of which the first has failed: %+v", settled)
			}
			for i, id := range ids {
				var j api.Job
				n.do("GET", "/api/v1/jobs/"+id+"?consistency=strong&min_index="+url.QueryEscape(a.header.Get(server.IndexHeader)), "", 200, &j)
				if want := "completed"; i > 0 && string(j.State) != want {
					t.Errorf("job %d is %s, want %s", i, j.State, want)
				}
			}
			n.do("GET", "/readyz", "", 200, nil)
			n.do("GET", "/healthz", "", 200, nil)
		})
	}
}

// TestABatchOverShardsIsRefused checks that a batch request for several shards is refused, because several
// shards cannot guarantee all or none.
func TestABatchOverShardsIsRefused(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	q := []string{onShard(0, 2, 0), onShard(1, 2, 0), onShard(0, 2, 1)}
	a := n.do("POST", "/api/v1/enqueue/batch", fmt.Sprintf(`{"jobs":[{"queue":%q},{"queue":%q},{"queue":%q}]}`, q[0], q[1], q[2]), 422, nil)
	p := a.problem(t)
	if want := fmt.Sprint([]any{[]any{q[0], q[2]}, []any{q[1]}}); p.Code != api.CrossShard || fmt.Sprint(p.Details["queues"]) != want {
		t.Errorf("%s: %v, want %s with %v", p.Code, p.Details, api.CrossShard, want)
	}
	for _, c := range n.shards().All() {
		if got := c.State().Head().GetQueueRecords(); got != 0 {
			t.Errorf("shard %d has %d queues after a batch that was refused", c.Shard(), got)
		}
	}
	var made api.EnqueueBatchResponse
	n.do("POST", "/api/v1/enqueue/batch", fmt.Sprintf(`{"jobs":[{"queue":%q},{"queue":%q}]}`, q[0], q[2]), 201, &made)
	if len(made.JobIDs) != 2 {
		t.Errorf("made %v", made.JobIDs)
	}
}

// A fetch takes the queues in the caller's order, on any shards, and skips shards without jobs.
func TestFetchKeepsTheOrderOfQueues(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	queues := []string{onShard(1, 2, 0), onShard(0, 2, 0), onShard(1, 2, 1), onShard(0, 2, 1)}
	for _, q := range slices.Backward(queues) {
		n.enqueue(q)
	}
	for _, want := range queues {
		var j api.FetchedJob
		n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":%s,"timeout":0}`, quoted(queues)), 200, &j)
		if j.Queue != want {
			t.Errorf("fetched from %s, want %s", j.Queue, want)
		}
	}
	first := n.shards().All()[0]
	before := first.Applied()
	n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":%s,"timeout":0}`, quoted(queues)), 204, nil)
	n.enqueue(queues[0])
	n.do("POST", "/api/v1/fetch/batch", fmt.Sprintf(`{"queues":%s,"timeout":0,"count":9}`, quoted(queues)), 200, nil)
	if now := first.Applied(); now != before {
		t.Errorf("shard 0 has no jobs, stood at %v and stands at %v", before, now)
	}
}

// A poll of queues on several shards gets a job of any of them.
func TestAPollWaitsOnAllShards(t *testing.T) {
	t.Parallel()
	n := startShards(t, 4, nil)
	queues := queueOn(4)
	for _, q := range queues {
		var polling sync.WaitGroup
		polling.Go(func() {
			if j := n.poll(quoted(queues)); j.Queue != q {
				t.Errorf("fetched from %s, want %s", j.Queue, q)
			}
		})
		eventually(t, "the poll is parked", func() bool {
			polls, err := n.server.Config().Host.Polls(tenancy.Default)
			return err == nil && polls.Parked == 1
		})
		n.enqueue(q)
		polling.Wait()
	}
}

// Pages over shards show every job once, in the order of creation, for any page size and any distribution,
// with the total of all shards.
func TestSearchOverShards(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			var ids []string
			for i := range 23 {
				// The last shard's jobs come in a row, those of the others mixed.
				shard := i % shards
				if i > 15 {
					shard = shards - 1
				}
				ids = append(ids, n.enqueue(onShard(shard, shards, i%2)))
			}
			for _, order := range []string{"asc", "desc"} {
				want := slices.Clone(ids)
				if order == "desc" {
					slices.Reverse(want)
				}
				for _, limit := range []int{1, 2, 3, 7, 22, 23, 1000} {
					if got := n.pages(order, limit, len(ids), nil); !slices.Equal(got, want) {
						t.Fatalf("%s, %d a page: %v, want %v", order, limit, got, want)
					}
				}
			}
			// A job created in the meantime neither appears twice nor hides another.
			got := n.pages("desc", 5, -1, func() { n.enqueue(onShard(0, shards, 0)) })
			slices.Reverse(got)
			if !slices.Equal(got, ids) {
				t.Errorf("while jobs came: %v, want %v", got, ids)
			}
		})
	}
}

// pages reads all pages of a search; between runs after each.
func (n *node) pages(order string, limit, total int, between func()) (ids []string) {
	n.t.Helper()
	for cursor := ""; ; {
		var page api.SearchResponse
		n.do("POST", "/api/v1/jobs/search", fmt.Sprintf(`{"order":%q,"limit":%d,"cursor":%q}`, order, limit, cursor), 200, &page)
		if total >= 0 && page.Total != int64(total) {
			n.t.Errorf("the total is %d, want %d", page.Total, total)
		}
		if len(page.Jobs) > limit || page.HasMore != (page.Cursor != "") {
			n.t.Fatalf("%d jobs of %d, more: %v, cursor %q", len(page.Jobs), limit, page.HasMore, page.Cursor)
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if !page.HasMore {
			return ids
		}
		if cursor = page.Cursor; between != nil {
			between()
		}
	}
}

func TestCursorsThatAreNone(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	for range 3 {
		n.enqueue(onShard(0, 2, 0))
		n.enqueue(onShard(1, 2, 0))
	}
	var page api.SearchResponse
	n.do("POST", "/api/v1/jobs/search", `{"limit":1}`, 200, &page)
	for _, bad := range []string{"x", page.Cursor[:len(page.Cursor)-4], page.Cursor + "AAAA", strings.Repeat("A", server.MaxCursors+1), "Ag", "AgUA", "AgAAAAA"} {
		if p := n.do("POST", "/api/v1/jobs/search", fmt.Sprintf(`{"limit":1,"cursor":%q}`, bad), 400, nil).problem(t); p.Code != api.ValidationError {
			t.Errorf("%q: %s", bad, p.Code)
		}
	}
	// The cursor of another filter.
	n.do("POST", "/api/v1/jobs/search", fmt.Sprintf(`{"order":"asc","cursor":%q}`, page.Cursor), 400, nil)
}

// Queues of all shards form one list, and each is changed on its shard.
func TestQueuesOverShards(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			queues := append(queueOn(shards), onShard(0, shards, 1), onShard(shards-1, shards, 2))
			slices.Sort(queues)
			queues = slices.Compact(queues)
			for _, q := range queues {
				n.enqueue(q)
				n.do("POST", "/api/v1/queues/"+q+"/pause", "", 200, nil)
			}
			var listed []api.Queue
			n.do("GET", "/api/v1/queues", "", 200, &listed)
			var names []string
			for _, q := range listed {
				names = append(names, q.Name)
				var one api.Queue
				n.do("GET", "/api/v1/queues/"+q.Name, "", 200, &one)
				if !q.Paused || !one.Paused || one.Pending != 1 {
					t.Errorf("%+v, alone %+v", q, one)
				}
			}
			if !slices.Equal(names, queues) {
				t.Errorf("listed %v, want %v", names, queues)
			}
			figures := n.figures()
			for _, q := range queues {
				if got := figures[fmt.Sprintf(`corvo_queue_jobs{queue=%q,state="pending"}`, q)]; got != 1 {
					t.Errorf("the metrics have %v jobs of %s", got, q)
				}
			}
			for shard := range shards {
				if got := figures[fmt.Sprintf(`corvo_raft_leader{shard="%d"}`, shard)]; got != 1 {
					t.Errorf("shard %d leads: %v", shard, got)
				}
			}
		})
	}
}

// The shard of a request remembers its key: a repeat is found there, even if another request with the key
// would go to another shard. A request that two shards would have to remember is refused.
func TestIdempotencyKeysOverShards(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	a, b := onShard(0, 2, 0), onShard(1, 2, 0)
	var first, again api.EnqueueResponse
	n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q}`, b), 201, &first, "Idempotency-Key: k")
	n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q}`, b), 201, &again, "Idempotency-Key: k")
	if first.JobID != again.JobID {
		t.Errorf("a repeat made %s, the first %s", again.JobID, first.JobID)
	}
	if p := n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q}`, a), 409, nil, "Idempotency-Key: k").problem(t); p.Code != api.IdempotencyMismatch {
		t.Errorf("another request for another shard: %s", p.Code)
	}
	both := fmt.Sprintf(`{"queues":[%q,%q],"timeout":0}`, a, b)
	if p := n.do("POST", "/api/v1/fetch", both, 422, nil, "Idempotency-Key: f").problem(t); p.Code != api.CrossShard {
		t.Errorf("a fetch over shards: %s", p.Code)
	}
	n.enqueue(a)
	var got api.FetchBatchResponse
	n.do("POST", "/api/v1/fetch/batch", fmt.Sprintf(`{"queues":[%q,%q],"count":9}`, a, b), 200, &got)
	if len(got.Jobs) != 2 {
		t.Fatalf("fetched %v", got.Jobs)
	}
	acks := fmt.Sprintf(`{"acks":[{"job_id":%q},{"job_id":%q}]}`, got.Jobs[0].JobID, got.Jobs[1].JobID)
	if p := n.do("POST", "/api/v1/ack/batch", acks, 422, nil, "Idempotency-Key: s").problem(t); p.Code != api.CrossShard {
		t.Errorf("an ack over shards: %s", p.Code)
	}
}

// A moved job is found by its id on any shard and works there, and the repeat of a move does no harm.
func TestMoveJobs(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			from := onShard(0, shards, 0)
			id := n.enqueue(from)
			// Over all shards and back to the first, to another queue each time.
			for i := range shards + 1 {
				to := onShard((i+1)%shards, shards, i+1)
				for range 2 {
					var s api.Status
					n.moveUntilThere(id, to, &s)
					if s.Status != "moved" {
						t.Errorf("the answer is %+v", s)
					}
				}
				eventually(t, "the job arrives", func() bool {
					a := n.send("GET", "/api/v1/jobs/"+id, "", "")
					var j api.Job
					return a.status == 200 && json.Unmarshal(a.body, &j) == nil && j.Queue == to
				})
				from = to
			}
			var j api.FetchedJob
			n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q]}`, from), 200, &j)
			if j.JobID != id {
				t.Fatalf("fetched %s, want %s", j.JobID, id)
			}
			n.do("POST", "/api/v1/heartbeat", fmt.Sprintf(`{"jobs":{%q:{"lease_token":%q}}}`, id, j.LeaseToken), 200, nil)
			n.do("POST", "/api/v1/jobs/"+id+"/move", `{"queue":"q"}`, 409, nil) // the job is active
			n.do("POST", "/api/v1/ack/"+id, fmt.Sprintf(`{"lease_token":%q}`, j.LeaseToken), 200, nil)
			n.do("POST", "/api/v1/jobs/job_00000000000000000000000000/move", `{"queue":"q"}`, 404, nil)
			n.do("POST", "/api/v1/jobs/"+id+"/move", `{"queue":"a b"}`, 400, nil)
			n.do("POST", "/api/v1/jobs/"+id+"/move", `{"queue":"q","reset_attempts":"yes"}`, 400, nil)
			if ids := n.pages("desc", 10, 1, nil); !slices.Equal(ids, []string{id}) {
				t.Errorf("a search finds %v", ids)
			}
		})
	}
}
