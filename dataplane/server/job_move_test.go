package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/tenancy"
)

// arrived moves a job and waits until it is there.
func (n *node) arrived(id, queue string) {
	n.t.Helper()
	var s api.Status
	n.moveUntilThere(id, queue, &s)
	eventually(n.t, "the job arrives in "+queue, func() bool {
		a := n.send("GET", "/api/v1/jobs/"+id, "", "")
		var j api.Job
		return a.status == 200 && json.Unmarshal(a.body, &j) == nil && j.Queue == queue
	})
}

// cutOff makes a shard refuse everything from another shard, as if that shard had been restored.
func (n *node) cutOff(to, from int) {
	n.t.Helper()
	shards, err := router.Open(n.server.Config().Host, tenancy.Default)
	if err != nil {
		n.t.Fatal(err)
	}
	count := &op.CountMember{BatchId: make([]byte, len(job.ID{})), Outcome: job.Completed}
	data, err := count.MarshalVT()
	if err != nil {
		n.t.Fatal(err)
	}
	o := &op.Deliver{From: uint32(from), Incarnation: make([]byte, 16), FirstSeq: 1, Items: []*op.Sent{{Number: uint32(op.KindFor(count).Number), Op: data}}}
	if _, _, err := cell.Propose[*op.DeliverResult](n.t.Context(), shards.All()[to], o); err != nil {
		n.t.Fatal(err)
	}
}

// A job that has left a shard and not reached the next cannot be read for a moment. The answer says so, also
// for a job that returns to its first shard, and never that the job does not exist.
func TestAJobOnItsWay(t *testing.T) {
	t.Parallel()
	for name, home := range map[string]bool{"away": false, "home": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startShards(t, 2, nil)
			here, there := onShard(0, 2, 0), onShard(1, 2, 0)
			id := n.enqueue(here)
			n.arrived(id, there) // so that the next parcel is not the first
			n.arrived(id, here)
			to, from := there, 0
			if home {
				n.arrived(id, there)
				to, from = here, 1
			}
			n.cutOff(1-from, from)
			n.do("POST", "/api/v1/jobs/"+id+"/move", fmt.Sprintf(`{"queue":%q}`, to), 200, nil)
			for _, ask := range [][3]string{
				{"GET", "", ""}, {"POST", "/move", fmt.Sprintf(`{"queue":%q}`, onShard(0, 2, 5))}, {"POST", "/move", fmt.Sprintf(`{"queue":%q}`, onShard(1, 2, 5))},
				{"POST", "/cancel", "{}"}, {"POST", "/retry", "{}"}, {"DELETE", "", ""},
			} {
				if a := n.send(ask[0], "/api/v1/jobs/"+id+ask[1], "", ask[2]); a.status != 503 || !strings.Contains(string(a.body), string(api.ViewBehind)) {
					t.Errorf("%s %s: %d %s", ask[0], ask[1], a.status, a.body)
				}
			}
		})
	}
}

// TestAMovedJobThatIsGone checks that the answer for a job that was moved and then deleted is that the job
// does not exist, and not that it is on its way.
func TestAMovedJobThatIsGone(t *testing.T) {
	t.Parallel()
	for name, home := range map[string]bool{"away": false, "home": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startShards(t, 2, nil)
			here, there := onShard(0, 2, 0), onShard(1, 2, 0)
			id := n.enqueue(here)
			n.arrived(id, there)
			if home {
				n.arrived(id, here)
			}
			n.do("DELETE", "/api/v1/jobs/"+id, "", 200, nil)
			for _, ask := range [][3]string{
				{"GET", "", ""}, {"POST", "/move", fmt.Sprintf(`{"queue":%q}`, onShard(0, 2, 5))}, {"POST", "/cancel", "{}"}, {"DELETE", "", ""},
			} {
				eventually(t, "it is known to be gone", func() bool { // the delivery of the job is removed first
					a := n.send(ask[0], "/api/v1/jobs/"+id+ask[1], "", ask[2])
					if a.status != 404 && a.status != 503 {
						t.Fatalf("%s %s: %d %s", ask[0], ask[1], a.status, a.body)
					}
					return a.status == 404
				})
			}
		})
	}
}

// A caller with a scope cannot act on a job that cannot be seen: no op is proposed that could find the job in
// a hidden queue.
func TestNothingIsDoneToAnUnseenJob(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	scoped := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mine.*"}})
	id := n.cell.NewID("theirs").String()
	before := n.cell.Applied()
	for _, ask := range [][3]string{
		{"POST", "/move", `{"queue":"mine.a"}`}, {"POST", "/cancel", "{}"}, {"POST", "/retry", "{}"}, {"POST", "/hold", "{}"},
		{"POST", "/approve", "{}"}, {"POST", "/reject", "{}"}, {"DELETE", "", ""},
	} {
		if a := n.send(ask[0], "/api/v1/jobs/"+id+ask[1], scoped, ask[2]); a.status != 404 {
			t.Errorf("%s %s: %d %s", ask[0], ask[1], a.status, a.body)
		}
	}
	if after := n.cell.Applied(); after != before {
		t.Errorf("%d entries were written", after-before)
	}
}

// A job is not moved into a queue that is being deleted, on any shard.
func TestNoMoveIntoADeletedQueue(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	for shard := range 2 {
		old := onShard(shard, 2, 0)
		n.enqueue(old)
		var f api.FetchedJob
		n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q]}`, old), 200, &f)
		id := n.enqueue(onShard(0, 2, 1))
		// The deletion would wait for the worker, which keeps its job.
		n.waitsAtMost(50*time.Millisecond, func() { n.do("DELETE", "/api/v1/queues/"+old+"?confirm=true", "", 202, nil) })
		n.do("POST", "/api/v1/jobs/"+id+"/move", fmt.Sprintf(`{"queue":%q}`, old), 409, nil)
		n.do("DELETE", "/api/v1/jobs/"+id, "", 200, nil)
	}
}
