package server

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/view"
)

// fetched records a worker that asks for jobs. It ignores an error, because an error means that the namespace
// is closing, and then nothing needs the record.
func (s *Server) fetched(q *request, ask *convert.Fetch) {
	if ask.WorkerID == "" {
		return
	}
	if workers, err := s.cfg.Host.Workers(q.who.Namespace); err == nil {
		workers.Fetched(ask.WorkerID, ask.Hostname, ask.Queues, s.cfg.Now().UnixNano())
		if ask.Concurrency > 0 {
			workers.Reports(ask.WorkerID, ask.Concurrency, false, s.cfg.Now().UnixNano())
		}
	}
}

// reported records the concurrency and draining state that a worker's heartbeat reports.
func (s *Server) reported(q *request, b *api.HeartbeatRequest) {
	if b.WorkerID == "" {
		return
	}
	if workers, err := s.cfg.Host.Workers(q.who.Namespace); err == nil {
		workers.Reports(b.WorkerID, b.Concurrency, b.Draining, s.cfg.Now().UnixNano())
	}
}

// markSeen records the workers that proved a lease with their worker id. proof returns the n proofs by index;
// markSeen skips the refused ones. markSeen does not look up a worker that proved its lease only by the
// token, because that would cost every ack a read. listWorkers then learns of the worker's request from the
// view, if the request renewed a lease, or else not before the next fetch.
func (s *Server) markSeen(q *request, n int, proof func(i int) (*op.LeaseProof, *op.Refusal)) {
	last := ""
	for i := range n {
		p, refused := proof(i)
		id := p.GetWorkerId()
		if id == last || refused.GetCode() != "" {
			continue
		}
		last = id
		if workers, err := s.cfg.Host.Workers(q.who.Namespace); err == nil {
			workers.Seen(id, s.cfg.Now().UnixNano())
		}
	}
}

// listWorkers answers with the workers that this node has seen within job.WorkerForgotten, and with the
// workers that hold jobs, even from another node. A caller with a scope gets only workers and queues in it.
func (s *Server) listWorkers(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	known, err := s.cfg.Host.Workers(q.who.Namespace)
	if err != nil {
		return err
	}
	if _, err := s.awaitView(w, r, &q, q.shards.All()...); err != nil {
		return err
	}
	held, err := router.Gather(q.shards, func(c *cell.Cell) ([]view.Holding, error) { return c.View().Holdings(r.Context()) })
	if err != nil {
		return err
	}
	all := workers{}
	for _, one := range known.List(s.cfg.Now().UnixNano()) {
		if queues := q.covered(one.Queues); len(queues) > 0 || len(q.who.QueueScope) == 0 {
			one.Queues = queues
			all.addSeen(&one)
		}
	}
	for _, part := range held {
		for i := range part {
			if q.who.Covers(part[i].Queue) {
				all.holds(&part[i])
			}
		}
	}
	return serve.WriteJSON(w, http.StatusOK, all.list())
}

// covered returns those of the queues that the caller may see. It overwrites queues.
func (q *request) covered(queues []string) []string {
	return slices.DeleteFunc(queues, func(name string) bool { return !q.who.Covers(name) })
}

// workers collects workers by id.
type workers map[string]*workerRow

// workerRow is the data of one worker.
type workerRow struct {
	api.Worker
	startedNs, seenNs int64
}

func (all workers) of(id, hostname string, startedNs, seenNs int64) *workerRow {
	g := all[id]
	if g == nil {
		g = &workerRow{Worker: api.Worker{ID: id, Queues: []string{}}, startedNs: startedNs}
		all[id] = g
	}
	g.Hostname = cmp.Or(g.Hostname, hostname)
	g.startedNs, g.seenNs = min(g.startedNs, startedNs), max(g.seenNs, seenNs)
	return g
}

// addSeen adds a worker that this node has seen.
func (all workers) addSeen(one *host.Worker) {
	g := all.of(one.ID, one.Hostname, one.StartedNs, one.SeenNs)
	g.Queues = append(g.Queues, one.Queues...)
	g.Concurrency, g.Draining = one.Concurrency, one.Draining
}

// holds adds the jobs that a worker holds.
func (all workers) holds(h *view.Holding) {
	g := all.of(h.WorkerID, h.Hostname, h.StartedNs, h.RenewedNs)
	g.Active += h.Active
	if !slices.Contains(g.Queues, h.Queue) {
		g.Queues = append(g.Queues, h.Queue)
	}
}

// list returns the workers by id. It never returns nil.
func (all workers) list() []api.Worker {
	list := make([]api.Worker, 0, len(all))
	for _, g := range all {
		slices.Sort(g.Queues)
		g.StartedAt, g.LastHeartbeat = api.TimeOf(time.Unix(0, g.startedNs)), api.TimeOf(time.Unix(0, g.seenNs))
		list = append(list, g.Worker)
	}
	slices.SortFunc(list, func(a, b api.Worker) int { return strings.Compare(a.ID, b.ID) })
	return list
}
