//go:build unix

package perf_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
)

// This file holds the load of TestEveryCountIsARecount: the jobs that producers enqueue, and the work of the
// workers.

type object = map[string]any

// roundJobs is about the number of jobs that one call of produce causes, including those that follow from
// other jobs.
const roundJobs = 196

const (
	laterQueue = "later" // its jobs wait for a time that does not come
	posedQueue = "posed" // its jobs keep the states in which pose leaves them
)

// worked lists the queues from which workers fetch.
var worked = []string{
	"plain", "flaky", "members", "callbacks", "first", "second", "third", "exits", "alerts", "dependents", "cached", "index",
	"reviewed", "ticks",
}

// soon and inAnHour return times for scheduled_at.
func soon() string     { return time.Now().Add(50 * time.Millisecond).UTC().Format(time.RFC3339Nano) }
func inAnHour() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano) }

// produce enqueues jobs of every shape, under a name of their own.
func (r *run) produce(producer, round int) {
	name := fmt.Sprintf("%d-%d", producer, round)
	ids := r.enqueue(object{"jobs": plain(name)}).JobIDs
	r.enqueue(object{"jobs": chains()})
	r.enqueue(object{"jobs": debounced(name)})
	r.enqueue(object{"jobs": []object{
		{"queue": "dependents", "depends_on": ids[0:2], "dependency_policy": "ignore"},
		{"queue": "dependents", "depends_on": ids[10:12], "dependency_policy": "fail"},
		{"queue": "dependents", "depends_on": ids[20:22], "dependency_policy": "hold"},
		{"queue": "dependents", "depends_on": ids[1:2]},
		{"queue": "expiring", "expire_after": "50ms"},
		{"queue": "expiring", "expire_after": "50ms", "priority": "high"},
		{"queue": laterQueue, "scheduled_at": inAnHour(), "unique_key": name},
	}})
	r.batch()
	r.byHand()
}

// plain returns about a hundred independent jobs. Every tenth fails until it is dead, and one of these is
// then revived. Every tenth is delayed, and every tenth shares a unique key with another. Two further jobs
// hold a key for a period.
func plain(name string) (jobs []object) {
	for i := range 100 {
		j := object{"queue": "plain", "payload": object{"n": i}, "tags": object{"round": name}}
		switch i % 10 {
		case 0:
			j = object{"queue": "flaky", "payload": object{"fail": true, "revive": i == 50}, "max_retries": 1 + i/10%3, "retry_backoff": "none"}
		case 1:
			j["scheduled_at"] = soon()
		case 2:
			j["unique_key"], j["priority"] = fmt.Sprintf("%s-%d", name, i/20), "high"
		}
		jobs = append(jobs, j)
	}
	for range 2 {
		jobs = append(jobs, object{"queue": "cached", "unique_key": name, "unique_until": "period"})
	}
	return jobs
}

// chains returns ten chains, of which two fail at their first step.
func chains() (jobs []object) {
	for i := range 10 {
		jobs = append(jobs, object{"queue": "first", "payload": object{"fail": i < 2}, "max_retries": 1, "chain": object{
			"steps":      []object{{"queue": "first"}, {"queue": "second"}, {"queue": "third"}},
			"on_failure": object{"queue": "alerts", "payload": object{}},
			"on_exit":    object{"queue": "exits", "payload": object{}},
		}})
	}
	return jobs
}

// debounced returns three enqueues of one job, which two of them postpone.
func debounced(name string) (jobs []object) {
	for i := range 3 {
		jobs = append(jobs, object{"queue": "index", "debounce_key": name, "debounce": "50ms", "payload": object{"version": i}})
	}
	return jobs
}

// batch enqueues a batch of which one member fails, one is cancelled and one deleted.
func (r *run) batch() {
	var members []object
	for i := range 50 {
		members = append(members, object{"queue": "members", "payload": object{"fail": i == 7}, "max_retries": 1})
	}
	members[8]["scheduled_at"], members[9]["scheduled_at"] = inAnHour(), inAnHour()
	made := r.enqueue(object{"jobs": members, "batch": object{"callback_queue": "callbacks"}})
	r.act(made.JobIDs[8], "cancel")
	r.delete("members", made.JobIDs[9])
	r.mu.Lock()
	r.batches[made.BatchID] = 1
	r.mu.Unlock()
}

// byHand acts on jobs as a person may.
func (r *run) byHand() {
	var jobs []object
	for range 3 {
		jobs = append(jobs, object{"queue": "unwanted", "scheduled_at": inAnHour()}, object{"queue": "reviewed", "scheduled_at": inAnHour()})
	}
	ids := r.enqueue(object{"jobs": jobs}).JobIDs
	r.act(ids[0], "cancel")
	r.delete("unwanted", ids[2])
	r.act(ids[4], "cancel")
	r.delete("unwanted", ids[4])
	for _, id := range []string{ids[1], ids[3], ids[5]} {
		r.act(id, "hold") // the last of them stays held
	}
	r.act(ids[1], "approve")
	r.act(ids[3], "reject")
}

func (r *run) act(id, what string) { r.call("POST", "/jobs/"+id+"/"+what, `{}`, nil) }

func (r *run) delete(queue, id string) {
	r.call("DELETE", "/jobs/"+id, ``, nil)
	r.hear(queue, func(h *heard) { h.deleted++ })
}

func (r *run) enqueue(body object) (made api.EnqueueBatchResponse) {
	r.send("POST", "/enqueue/batch", body, &made)
	jobs := body["jobs"].([]object)
	if len(made.JobIDs) != len(jobs) || len(made.Results) != len(jobs) {
		r.t.Errorf("%d jobs were enqueued, and answered %+v", len(jobs), made)
		return api.EnqueueBatchResponse{JobIDs: make([]string, len(jobs))} // so that what is done to them fails too
	}
	for i, one := range made.Results {
		if !one.UniqueExisting {
			r.hear(jobs[i]["queue"].(string), func(h *heard) { h.enqueued++ })
		}
	}
	return made
}

// pose leaves jobs of one queue pending, active and retrying.
func (r *run) pose() {
	var jobs []object
	for i := range 5 {
		jobs = append(jobs, object{"queue": posedQueue, "retry_base_delay": "1h", "retry_max_delay": "1h", "unique_key": fmt.Sprint(i)})
	}
	r.enqueue(object{"jobs": jobs})
	var got api.FetchBatchResponse
	r.call("POST", "/fetch/batch", `{"queues":["`+posedQueue+`"],"worker_id":"poser","count":2}`, &got)
	if len(got.Jobs) != 2 {
		r.t.Fatalf("fetched %d jobs, not 2", len(got.Jobs))
	}
	r.fail(&got.Jobs[0])
}

// work fetches jobs of all worked queues. It fails the jobs that ask for it and acks the others.
func (r *run) work(ctx context.Context, worker int) {
	ask := object{"queues": worked, "worker_id": fmt.Sprint("worker-", worker), "count": 256, "timeout": 1}
	for ctx.Err() == nil {
		var got api.FetchBatchResponse
		r.send("POST", "/fetch/batch", ask, &got)
		var acks []api.AckItem
		var failing sync.WaitGroup
		acked := map[string]int{}
		for i := range got.Jobs {
			j := &got.Jobs[i]
			if r.wantsToFail(j) {
				failing.Go(func() { r.fail(j) })
				continue
			}
			acks = append(acks, api.AckItem{JobID: j.JobID, AckRequest: api.AckRequest{LeaseToken: j.LeaseToken, Result: []byte(`{"ok":true}`)}})
			acked[j.Queue]++
		}
		failing.Wait()
		r.ack(acks, acked)
	}
}

func (r *run) ack(acks []api.AckItem, by map[string]int) {
	if len(acks) == 0 {
		return
	}
	var done api.AckBatchResponse
	r.send("POST", "/ack/batch", api.AckBatchRequest{Acks: acks}, &done)
	if done.Acked != len(acks) {
		r.t.Errorf("%d of %d jobs acked: %+v", done.Acked, len(acks), done.Errors)
	}
	for queue, n := range by {
		r.hear(queue, func(h *heard) { h.acked += n })
	}
}

// wantsToFail reports whether a job asks to be failed and has not been revived since.
func (r *run) wantsToFail(j *api.FetchedJob) bool {
	_, revived := r.revived.Load(j.JobID)
	return !revived && asks(j, "fail")
}

// fail fails an attempt. If the job is then dead and asks for it, fail revives it.
func (r *run) fail(j *api.FetchedJob) {
	var failed api.FailResponse
	revive := asks(j, "revive")
	if revive && j.Attempt == j.MaxRetries {
		r.revived.Store(j.JobID, true)
	}
	r.send("POST", "/fail/"+j.JobID, api.FailRequest{LeaseToken: j.LeaseToken, Error: "as it was told"}, &failed)
	r.hear(j.Queue, func(h *heard) { h.failed++ })
	if revive && failed.Status == "dead" {
		r.act(j.JobID, "retry")
		r.hear(j.Queue, func(h *heard) { h.revived++ })
	}
}
