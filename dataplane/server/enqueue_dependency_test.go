package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// after enqueues a job that depends on others.
func (n *node) after(queue, policy string, ids ...string) string {
	n.t.Helper()
	var made api.EnqueueResponse
	n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,"depends_on":%s,"dependency_policy":%q}`, queue, quoted(ids), policy), 201, &made)
	if made.Status != "scheduled" {
		n.t.Errorf("a job that depends on others is %s", made.Status)
	}
	return made.JobID
}

// comes waits until a job has a state, a number of blockers and a policy.
func (n *node) comes(id, state string, blockedBy int, policy string) (j api.Job) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("job %s is %s, blocked by %d", id, state, blockedBy), func() bool {
		j = api.Job{}
		n.do("GET", "/api/v1/jobs/"+id, "", 200, &j)
		return j.State == state && j.BlockedBy == blockedBy
	})
	if (j.DependencyPolicy == nil) != (policy == "") || policy != "" && *j.DependencyPolicy != policy {
		n.t.Errorf("job %s has dependency_policy %v, want %q", id, j.DependencyPolicy, policy)
	}
	return j
}

func (n *node) settleOne(queue string, well bool) {
	n.t.Helper()
	j := n.poll(quoted([]string{queue}))
	if well {
		n.do("POST", "/api/v1/ack/"+j.JobID, fmt.Sprintf(`{"lease_token":%q}`, j.LeaseToken), 200, nil)
	} else {
		n.do("POST", "/api/v1/fail/"+j.JobID, fmt.Sprintf(`{"lease_token":%q,"error":"e"}`, j.LeaseToken), 200, nil)
	}
}

// A job that depends on a job of every shard runs after all of them, on any shard, and not before.
func TestDependenciesOverShards(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			queues := queueOn(shards)
			var ids, waiters []string
			for _, q := range queues {
				ids = append(ids, n.enqueue(q))
			}
			for shard := range shards {
				waiters = append(waiters, n.after(onShard(shard, shards, 1), "", ids...))
			}
			for i, q := range queues {
				for _, id := range waiters {
					n.comes(id, "scheduled", len(ids)-i, "fail")
				}
				n.settleOne(q, true)
			}
			for shard, id := range waiters {
				if j := n.poll(quoted([]string{onShard(shard, shards, 1)})); j.JobID != id {
					t.Errorf("fetched %s, want %s", j.JobID, id)
				}
				n.comes(id, "active", 0, "")
			}
		})
	}
}

// TestDependencyPolicies checks that a job's policy decides what a failed or missing dependency does to the
// job, and then to the jobs that depend on that job.
func TestDependencyPolicies(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	q, other := onShard(0, 2, 0), onShard(1, 2, 0)
	var made api.EnqueueResponse
	n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,"max_retries":1}`, q), 201, &made)
	nowhere := n.shards().All()[0].NewID(q).String()
	for _, id := range []string{made.JobID, nowhere} {
		fails, holds, ignores := n.after(other, "fail", id), n.after(other, "hold", id), n.after(other, "ignore", id)
		last := n.after(q, "", fails)
		if id == made.JobID {
			n.settleOne(q, false)
		}
		dead := n.comes(fails, "dead", 0, "")
		want := "depends on " + id + ", which is dead"
		if id == nowhere {
			want = "depends on " + id + ", which does not exist"
		}
		if dead.LastError == nil || *dead.LastError != want {
			t.Errorf("it is dead for %v, want %q", dead.LastError, want)
		}
		n.comes(holds, "held", 1, "hold")
		n.comes(ignores, "pending", 0, "")
		n.comes(last, "dead", 0, "")
	}
}

// A job waits for a dependency that has moved to another shard.
func TestADependencyOnAnotherShardThanItsOwn(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	home, away := onShard(0, 2, 0), onShard(1, 2, 0)
	id := n.enqueue(home)
	var moved api.Status
	n.moveUntilThere(id, away, &moved)
	waiter := n.after(onShard(0, 2, 1), "", id)
	eventually(t, "the job knows that it is waited for", func() bool {
		j, err := n.shards().All()[1].State().Job(mustID(t, id))
		return err == nil && j.GetHasDependents()
	})
	n.do("POST", "/api/v1/jobs/"+id+"/move", fmt.Sprintf(`{"queue":%q}`, home), 409, nil)
	n.comes(waiter, "scheduled", 1, "fail")
	n.settleOne(away, true)
	n.comes(waiter, "pending", 0, "")
}

func TestRefusedDependencies(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	there := n.one(n.client(n.admin), "q").JobID
	nowhere := n.cell.NewID("q").String()
	before := n.dump()
	for _, c := range []struct {
		name, more string
		status     int
		code       api.Code
		has        string
	}{
		{"no ids", `"depends_on":["a",""]`, 400, api.ValidationError, "depends_on[0]"},
		{"twice", fmt.Sprintf(`"depends_on":[%q,%q]`, there, strings.ToLower(there)), 400, api.ValidationError, "depends_on[1]"},
		{"no list", `"depends_on":"` + there + `"`, 400, api.ValidationError, "depends_on"},
		{"a strange policy", fmt.Sprintf(`"depends_on":[%q],"dependency_policy":"wait"`, there), 400, api.ValidationError, "dependency_policy"},
		{"too many", `"depends_on":[` + strings.Repeat(`"x",`, job.MaxDependencies) + `"x"]`, 400, api.ValidationError, "depends_on"},
		{"one that is nowhere", fmt.Sprintf(`"depends_on":[%q,%q]`, there, nowhere), 404, api.NotFound, nowhere},
	} {
		a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q",`+c.more+`}`)
		if p := a.problem(t); a.status != c.status || p.Code != c.code || !strings.Contains(string(a.body), c.has) {
			t.Errorf("%s: %d %.300s", c.name, a.status, a.body)
		}
	}
	n.same(before)
	// The maximum number of dependencies, in a request for one job and as the sum of a batch request.
	ids := make([]string, job.MaxDependencies)
	var jobs []api.EnqueueRequest
	for range job.MaxEnqueueJobs {
		jobs = append(jobs, api.EnqueueRequest{Queue: "many"})
	}
	for i := 0; i < len(ids); i += job.MaxEnqueueJobs {
		made, err := n.client(n.admin).EnqueueBatch(context.Background(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		copy(ids[i:], made.JobIDs)
	}
	single := fmt.Sprintf(`{"queue":"q","depends_on":%s}`, quoted(ids))
	if a := n.send("POST", "/api/v1/enqueue", n.admin, single); a.status != 201 {
		t.Errorf("as many as may be: %d %.300s", a.status, a.body)
	}
	two := fmt.Sprintf(`{"jobs":[%s,{"queue":"q","depends_on":[%q]}]}`, single, there)
	if a := n.send("POST", "/api/v1/enqueue/batch", n.admin, two); a.status != 400 || a.problem(t).Code != api.ValidationError {
		t.Errorf("one more in another job of the request: %d %.300s", a.status, a.body)
	}
}

// TestAScopedKeyDependsOnWhatItSees checks that an enqueue by a key with a scope may name no job that the key
// cannot see, neither as a dependency nor as the parent.
func TestAScopedKeyDependsOnWhatItSees(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	admin := n.client(n.admin)
	theirs, mine := n.one(admin, "theirs").JobID, n.one(admin, "mine.a").JobID
	nowhere := n.cell.NewID("mine.a").String()
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mine.*"}})
	for id, want := range map[string]int{theirs: 404, nowhere: 404, mine: 201} {
		a := n.send("POST", "/api/v1/enqueue", scoped, fmt.Sprintf(`{"queue":"mine.b","depends_on":[%q],"dependency_policy":"ignore"}`, id))
		if a.status != want {
			t.Errorf("depending on %s: %d %s, want %d", id, a.status, a.body, want)
		}
		child := fmt.Sprintf(`{"queue":"mine.b","parent_id":%q}`, id)
		for path, body := range map[string]string{
			"enqueue": child, "enqueue/batch": `{"jobs":[{"queue":"mine.b"},` + child + `]}`, "webhooks/mine.b?parent_id=" + id: `{}`,
		} {
			if a := n.send("POST", "/api/v1/"+path, scoped, body); a.status != want {
				t.Errorf("%s of a child of %s: %d %s, want %d", path, id, a.status, a.body, want)
			}
		}
	}
}

// TestARepeatedEnqueueWithDependencies checks that an enqueue that is repeated with its Idempotency-Key gets
// the first answer.
func TestARepeatedEnqueueWithDependencies(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	id := n.one(n.client(n.admin), "q").JobID
	body := fmt.Sprintf(`{"queue":"w","depends_on":[%q]}`, id)
	first := n.send("POST", "/api/v1/enqueue", n.admin, body, "Idempotency-Key: k")
	second := n.send("POST", "/api/v1/enqueue", n.admin, body, "Idempotency-Key: k")
	if first.status != 201 || string(first.body) != string(second.body) {
		t.Errorf("%d %s and then %d %s", first.status, first.body, second.status, second.body)
	}
	var made api.EnqueueResponse
	if err := json.Unmarshal(first.body, &made); err != nil {
		t.Fatal(err)
	}
	if j, err := n.cell.State().Job(mustID(t, made.JobID)); err != nil || j.GetBlockedBy() != 1 {
		t.Errorf("the job is blocked by %d, %v", j.GetBlockedBy(), err)
	}
}

func mustID(t testing.TB, text string) job.ID {
	t.Helper()
	id, err := job.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
