package host

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// Workers holds the workers that a namespace's requests on this node have named. The API lists them and alert
// rules count them; nothing else depends on them, and they are lost with the process. Workers does not know
// which jobs a worker holds; the leases do.
//
// A request of a known worker costs a look-up and an atomic store: fetches share no lock. Only new workers
// take one.
type Workers struct {
	known sync.Map // id -> *worker

	growing sync.Mutex // guards the fields below, and additions to and removals from known
	count   int
	oldest  []candidate // longest unseen first; see evict
}

// worker is the record of one worker.
type worker struct {
	startedNs int64
	seenNs    atomic.Int64
	report    atomic.Pointer[workerReport]
}

// workerReport holds the reports of a worker about itself. It is never changed, only replaced.
type workerReport struct {
	hostname string
	queues   []string // most recently named first

	concurrency int // jobs it runs at once; 0 = not reported
	draining    bool
}

// candidate is a worker that may be the longest unseen one.
type candidate struct {
	id     string
	seenNs int64
}

// Worker is a worker that this node has seen.
type Worker struct {
	ID       string
	Hostname string
	// Queues are the queues that it has fetched from, sorted. If there are more than job.MaxFetchQueues, they
	// are those that it named last.
	Queues []string
	// Concurrency is the number of jobs that it runs at once, 0 if it has not reported one. Draining reports
	// whether it takes no more jobs.
	Concurrency int
	Draining    bool
	StartedNs   int64 // when it was first seen
	SeenNs      int64 // when it was last seen
}

// Workers returns the workers of a namespace.
func (h *Host) Workers(ns tenancy.NamespaceID) (*Workers, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	return &t.workers, nil
}

// Fetched records that a worker asks for jobs of some queues. It ignores an empty id.
func (w *Workers) Fetched(id, hostname string, queues []string, nowNs int64) {
	if id == "" {
		return
	}
	of := w.seen(id, nowNs)
	for {
		was := of.report.Load()
		if was.covers(hostname, queues) || of.report.CompareAndSwap(was, was.with(hostname, queues)) {
			return
		}
	}
}

// Reports records how many jobs a worker runs at once and whether it takes no more of them. A concurrency of
// 0 leaves the earlier number. It ignores an empty id.
func (w *Workers) Reports(id string, concurrency int, draining bool, nowNs int64) {
	if id == "" {
		return
	}
	of := w.seen(id, nowNs)
	for {
		was := of.report.Load()
		next := *was
		next.concurrency, next.draining = cmp.Or(concurrency, was.concurrency), draining
		if next.concurrency == was.concurrency && draining == was.draining || of.report.CompareAndSwap(was, &next) {
			return
		}
	}
}

// Seen records that a worker has sent a request for a job that it holds. It ignores an empty id.
func (w *Workers) Seen(id string, nowNs int64) {
	if id != "" {
		w.seen(id, nowNs)
	}
}

func (w *Workers) seen(id string, nowNs int64) *worker {
	found, ok := w.known.Load(id)
	if !ok {
		found = w.add(id, nowNs)
	}
	of := found.(*worker)
	for { // requests of one worker overtake each other
		was := of.seenNs.Load()
		if was >= nowNs || of.seenNs.CompareAndSwap(was, nowNs) {
			return of
		}
	}
}

// add makes a worker known, and evicts one if there are too many.
func (w *Workers) add(id string, nowNs int64) any {
	w.growing.Lock()
	defer w.growing.Unlock()
	if found, ok := w.known.Load(id); ok {
		return found
	}
	for w.count >= job.MaxWorkers {
		w.evict()
	}
	fresh := &worker{startedNs: nowNs}
	fresh.report.Store(&workerReport{})
	fresh.seenNs.Store(nowNs)
	w.known.Store(strings.Clone(id), fresh) // cloned, because it may be a part of a much larger message
	w.count++
	return fresh
}

// candidates is the number of workers that one walk over all selects for eviction, so that a flood of new
// workers does not pay for a walk each.
const candidates = 256

// evict removes the first candidate that has sent no request since the last walk. That worker is the longest
// unseen one, because all workers after it were seen later. If no candidate is left, evict removes nothing
// and selects new candidates, and add calls it again. The caller holds growing.
func (w *Workers) evict() {
	for len(w.oldest) > 0 {
		next := w.oldest[0]
		w.oldest = w.oldest[1:]
		if found, ok := w.known.Load(next.id); ok && found.(*worker).seenNs.Load() == next.seenNs {
			w.forget(next.id)
			return
		}
	}
	for id, of := range w.known.Range {
		w.oldest = append(w.oldest, candidate{id.(string), of.(*worker).seenNs.Load()})
	}
	slices.SortFunc(w.oldest, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.seenNs, b.seenNs), cmp.Compare(a.id, b.id)) })
	w.oldest = slices.Clip(w.oldest[:min(candidates, len(w.oldest))])
}

// forget removes a worker; the caller holds growing.
func (w *Workers) forget(id string) {
	w.known.Delete(id)
	w.count--
}

// List returns the workers seen in the last job.WorkerForgotten, in no order. It removes the others.
func (w *Workers) List(nowNs int64) (all []Worker) {
	w.growing.Lock()
	defer w.growing.Unlock()
	for id, found := range w.known.Range {
		of := found.(*worker)
		seenNs := of.seenNs.Load()
		if nowNs-seenNs > int64(job.WorkerForgotten) {
			w.forget(id.(string))
			continue
		}
		report := of.report.Load()
		all = append(all, Worker{
			ID: id.(string), Hostname: report.hostname, Queues: slices.Sorted(slices.Values(report.queues)),
			Concurrency: report.concurrency, Draining: report.draining,
			StartedNs: of.startedNs, SeenNs: seenNs,
		})
	}
	return all
}

// covers reports whether a report already has the hostname and the queues.
func (s *workerReport) covers(hostname string, queues []string) bool {
	if hostname != "" && hostname != s.hostname {
		return false
	}
	for _, queue := range queues {
		if !slices.Contains(s.queues, queue) {
			return false
		}
	}
	return true
}

// with returns a report that has the hostname and the queues besides the earlier ones.
func (s *workerReport) with(hostname string, queues []string) *workerReport {
	next := &workerReport{hostname: strings.Clone(cmp.Or(hostname, s.hostname)), queues: make([]string, 0, len(queues)),
		concurrency: s.concurrency, draining: s.draining}
	for _, queue := range queues { // cloned, because they may be parts of a much larger message
		next.queues = append(next.queues, strings.Clone(queue))
	}
	for _, queue := range s.queues {
		if len(next.queues) < job.MaxFetchQueues && !slices.Contains(next.queues, queue) {
			next.queues = append(next.queues, queue)
		}
	}
	return next
}
