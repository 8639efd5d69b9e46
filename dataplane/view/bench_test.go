package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// perEntry is the number of jobs that an entry of the benchmarks changes.
const perEntry = 100

// enqueueMany creates n jobs with payloads of 200 bytes in a few queues.
func (h *shard) enqueueMany(n int) []job.ID {
	body := payload(`{"x":"` + strings.Repeat("y", 192) + `"}`)
	return h.enqueueEach(n, func() *job.Blob { return body })
}

// enqueueEach creates n jobs in a few queues and calls a function for the payload of each.
func (h *shard) enqueueEach(n int, body func() *job.Blob) (ids []job.ID) {
	for len(ids) < n {
		h.commit(func(tx *state.Tx) {
			for range min(perEntry, n-len(ids)) {
				queue := fmt.Sprint("queue-", len(ids)%5)
				tx.EnsureQueue(queue)
				j := h.newJob(tx, queue)
				must(h.t, tx.PutBlob(j, job.Payload, body()))
				must(h.t, tx.CreateJob(j, evEnqueued))
				ids = append(ids, job.ID(j.Id))
			}
		})
	}
	return ids
}

func (h *shard) changeMany(ids []job.ID, edit func(tx *state.Tx, j *job.Job), events ...state.EventType) {
	for len(ids) > 0 {
		n := min(perEntry, len(ids))
		h.commit(func(tx *state.Tx) {
			for _, id := range ids[:n] {
				h.edit(tx, id, edit, events...)
			}
		})
		ids = ids[n:]
	}
}

func complete(tx *state.Tx, j *job.Job) { j.State, j.CompletedNs = job.Completed, tx.ClockNs() }

// BenchmarkProjection measures flushes of a view that is behind by whole lifecycles of three transitions. It
// projects each transition by itself, and all three coalesced into one row.
func BenchmarkProjection(b *testing.B) {
	const jobs = 20_000
	for _, coalesced := range []bool{false, true} {
		b.Run(fmt.Sprintf("coalesced=%v", coalesced), func(b *testing.B) {
			h := newShard(b)
			h.settle()
			for b.Loop() {
				b.StopTimer()
				h.closeView()
				ids := h.enqueueMany(jobs)
				step := func(do func()) {
					b.StopTimer()
					do()
					if !coalesced {
						h.openView()
						b.StartTimer()
						h.settle()
						b.StopTimer()
						h.closeView()
					}
				}
				step(func() {})
				step(func() { h.changeMany(ids, fetched("w"), evStarted) })
				step(func() { h.changeMany(ids, complete, evCompleted) })
				h.openView()
				b.StartTimer()
				h.settle()
			}
			b.ReportMetric(float64(3*jobs*b.N)/b.Elapsed().Seconds(), "transitions/s")
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	const jobs = 100_000
	h := newShard(b)
	ids := h.enqueueMany(jobs)
	half := ids[:jobs/2]
	h.changeMany(half, fetched("w"), evStarted)
	h.changeMany(half, complete, evCompleted)
	h.settle()
	for _, c := range []struct {
		name string
		q    Query
	}{
		{"queue and state", Query{Queue: "queue-1", States: []job.State{job.Completed}}},
		{"queue and state, 1000", Query{Queue: "queue-1", States: []job.State{job.Completed}, Limit: 1000}},
		{"queue", Query{Queue: "queue-1"}},
		{"three queues", Query{Queues: []string{"queue-0", "queue-2", "queue-4"}}},
		{"state", Query{States: []job.State{job.Completed}}},
		{"all", Query{}},
		{"payload_jq of none", Query{PayloadJQ: `.x == "z"`}},
		{"payload text of none", Query{PayloadContains: "zz"}},
		{"sorted by start", Query{Sort: SortStarted}},
		{"a word", Query{Words: "x"}},
		{"prefix of one", Query{IDPrefix: ids[777].String()}},
		{"prefix of all", Query{IDPrefix: ids[0].String()[:6]}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				page, err := h.view.Search(b.Context(), c.q)
				must(b, err)
				if len(page.Jobs) == 0 && !strings.Contains(c.name, "of none") {
					b.Fatal("nothing found")
				}
			}
		})
	}
	b.Run("queues", func(b *testing.B) {
		for b.Loop() {
			_, err := h.view.Queues(b.Context(), nil)
			must(b, err)
		}
	})
}

// BenchmarkScrub measures the comparison of as many rows as one scrub compares.
func BenchmarkScrub(b *testing.B) {
	h := newShard(b)
	h.enqueue("q", 10*scrubJobs)
	h.settle()
	h.closeView()
	v := newView(h.dir, h.store, h.options(), h.limits)
	must(b, v.resume(b.Context()))
	b.Cleanup(func() { must(b, v.db.close()) })
	snap := h.store.Snapshot()
	defer snap.Close()
	records, err := snap.JobIterator()
	must(b, err)
	defer records.Close()
	for b.Loop() {
		wrong, err := v.scrubFrom(records, v.scrubbed.to)
		must(b, err)
		if wrong != "" {
			b.Fatal(wrong)
		}
	}
}
