package server

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"runtime/metrics"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
)

// These administration routes act on the node that receives the request and on no other, because each node
// has its own disk and process.

// snapshot writes the state of all shards durably to this node's disk and truncates their logs, except the
// newest entries.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) error {
	return s.onEach(w, r, "snapshot", func(_ context.Context, c *cell.Cell) error { return c.Engine().Snapshot() })
}

// rebuildView rebuilds the views of all shards on this node from their state.
func (s *Server) rebuildView(w http.ResponseWriter, r *http.Request) error {
	return s.onEach(w, r, "rebuild", func(ctx context.Context, c *cell.Cell) error { return c.View().Rebuild(ctx) })
}

// onEach runs an action on one shard after another, because such an action reads or writes all data of a
// shard. It stops at the first error.
func (s *Server) onEach(w http.ResponseWriter, r *http.Request, what string, do func(context.Context, *cell.Cell) error) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	for _, c := range q.shards.All() {
		if err := do(r.Context(), c); err != nil {
			return fmt.Errorf("%s shard %d: %w", what, c.Shard(), err)
		}
	}
	return serve.WriteJSON(w, http.StatusOK, ok)
}

// verify checks everything that this node's stores of the namespace have on disk, one shard after another. At
// the first shard with damage it stops and answers UNHEALTHY.
func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	out := api.Verified{Status: "ok", Shards: []api.VerifiedShard{}}
	for _, c := range q.shards.All() {
		report, err := c.State().Verify(r.Context())
		if r.Context().Err() != nil {
			return err // the client has left, so the error says nothing about the store
		}
		if err != nil {
			s.cfg.Logger.Error("a shard's store is damaged", "shard", c.Shard(), "error", err)
			return api.Wrap(err, api.Unhealthy, fmt.Sprintf("shard %d of this node is damaged or unreadable: see the node's log; take the node out of service and let it join again with an empty directory", c.Shard()))
		}
		out.Shards = append(out.Shards, api.VerifiedShard{
			Shard: int(c.Shard()), AppliedIndex: report.Applied.Index, Files: report.Tables, Bytes: report.Bytes,
		})
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// The metrics of runtime/metrics that the runtime route reports.
const (
	heapObjects = "/memory/classes/heap/objects:bytes"
	heapUnused  = "/memory/classes/heap/unused:bytes"
	stackInUse  = "/memory/classes/heap/stacks:bytes"
	gcPauses    = "/sched/pauses/total/gc:seconds"
)

// runtime reports the resources that the process uses. A host of the cloud answers FORBIDDEN, because the
// figures would tell one tenant about the others.
func (s *Server) runtime(w http.ResponseWriter, r *http.Request) error {
	if s.cloud() {
		return api.Errorf(api.Forbidden, "only operators may see the resources of a cloud host")
	}
	samples := []metrics.Sample{{Name: heapObjects}, {Name: heapUnused}, {Name: stackInUse}, {Name: gcPauses}}
	metrics.Read(samples)
	out := api.Runtime{
		Goroutines:      runtime.NumGoroutine(),
		GOMAXPROCS:      runtime.GOMAXPROCS(0),
		HeapInuseBytes:  samples[0].Value.Uint64() + samples[1].Value.Uint64(),
		StackInuseBytes: samples[2].Value.Uint64(),
		GCPauseP99Ns:    quantileNs(samples[3].Value.Float64Histogram(), 0.99),
	}
	var err error
	if out.CPUUserNs, out.CPUSysNs, err = cpuTime(); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// quantileNs returns the upper bound, in nanoseconds, of the bucket that contains a quantile of a histogram
// in seconds, or the lower bound if the upper one is infinite. It returns 0 if the histogram is empty.
func quantileNs(h *metrics.Float64Histogram, quantile float64) int64 {
	var total uint64
	for _, n := range h.Counts {
		total += n
	}
	rank := uint64(math.Ceil(quantile * float64(total)))
	var seen uint64
	for i, n := range h.Counts {
		if seen += n; n == 0 || seen < rank {
			continue
		}
		bound := h.Buckets[i+1]
		if math.IsInf(bound, 1) {
			bound = h.Buckets[i]
		}
		return int64(bound * 1e9)
	}
	return 0
}
