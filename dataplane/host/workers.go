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

// Workers are those that a namespace's requests on this node have named, for people
// to look at: nothing is decided by them, and they are gone with the process. Which
// jobs a worker holds is not known here; the leases say that.
//
// A worker that is known costs a request a look-up and an atomic store: no lock is
// shared by fetches. Only new ones meet at one.
type Workers struct {
	known sync.Map // id -> *worker

	growing sync.Mutex // guards what follows, and additions to known
	count   int
	oldest  []candidate // unseen longest first; see evict
}

// worker is what is known of one.
type worker struct {
	startedNs int64
	seenNs    atomic.Int64
	says      atomic.Pointer[saying]
}

// saying is what a worker says of itself; it is replaced, never changed.
type saying struct {
	hostname string
	queues   []string // latest named first

	concurrency int // jobs it runs at once; 0: it has not said
	draining    bool
}

// candidate is a worker that may be the one unseen longest.
type candidate struct {
	id     string
	seenNs int64
}

// Worker is a worker that this node has heard of.
type Worker struct {
	ID       string
	Hostname string
	// Queues are those it has fetched from, sorted, of more than job.MaxFetchQueues
	// those it named last.
	Queues []string
	// Concurrency is how many jobs it runs at once, 0 if it has not said, and Draining
	// whether it takes no more of them.
	Concurrency int
	Draining    bool
	StartedNs   int64 // when it was heard of first
	SeenNs      int64 // and last
}

// Workers are a namespace's.
func (h *Host) Workers(ns tenancy.NamespaceID) (*Workers, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	return &t.workers, nil
}

// Fetched notes that a worker asks for jobs of some queues. No id is nobody.
func (w *Workers) Fetched(id, hostname string, queues []string, nowNs int64) {
	if id == "" {
		return
	}
	of := w.seen(id, nowNs)
	for {
		was := of.says.Load()
		if was.covers(hostname, queues) || of.says.CompareAndSwap(was, was.with(hostname, queues)) {
			return
		}
	}
}

// Reports notes how many jobs a worker runs at once, 0 where it does not say, and whether
// it takes no more of them. No id is nobody.
func (w *Workers) Reports(id string, concurrency int, draining bool, nowNs int64) {
	if id == "" {
		return
	}
	of := w.seen(id, nowNs)
	for {
		was := of.says.Load()
		next := *was
		next.concurrency, next.draining = cmp.Or(concurrency, was.concurrency), draining
		if next.concurrency == was.concurrency && draining == was.draining || of.says.CompareAndSwap(was, &next) {
			return
		}
	}
}

// Seen notes that a worker has spoken of a job it holds. No id is nobody.
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

// add makes a worker known, and forgets one where there are too many.
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
	fresh.says.Store(&saying{})
	fresh.seenNs.Store(nowNs)
	w.known.Store(strings.Clone(id), fresh) // it may lie in a message that is much larger
	w.count++
	return fresh
}

// candidates is how many workers are found to be forgotten in one walk over all, so
// that a flood of new ones does not pay a walk for each.
const candidates = 256

// evict forgets the worker unseen longest. The candidates of a walk stay good for
// as long as nobody sees them: all others were seen later then, and time goes on.
// growing is held.
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

// forget drops a worker; growing is held.
func (w *Workers) forget(id string) {
	w.known.Delete(id)
	w.count--
}

// List are the workers seen in the last job.WorkerForgotten, in no order. Others
// are forgotten by it.
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
		says := of.says.Load()
		all = append(all, Worker{
			ID: id.(string), Hostname: says.hostname, Queues: slices.Sorted(slices.Values(says.queues)),
			Concurrency: says.concurrency, Draining: says.draining,
			StartedNs: of.startedNs, SeenNs: seenNs,
		})
	}
	return all
}

// covers says whether there is nothing new in what a worker says.
func (s *saying) covers(hostname string, queues []string) bool {
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

// with is what a worker says now and has said before.
func (s *saying) with(hostname string, queues []string) *saying {
	next := &saying{hostname: strings.Clone(cmp.Or(hostname, s.hostname)), queues: make([]string, 0, len(queues)),
		concurrency: s.concurrency, draining: s.draining}
	for _, queue := range queues { // they may lie in a message that is much larger
		next.queues = append(next.queues, strings.Clone(queue))
	}
	for _, queue := range s.queues {
		if len(next.queues) < job.MaxFetchQueues && !slices.Contains(next.queues, queue) {
			next.queues = append(next.queues, queue)
		}
	}
	return next
}
