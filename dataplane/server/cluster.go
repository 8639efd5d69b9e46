package server

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/engine/pipeline"
)

func (s *Server) clusterStatus(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	status, err := q.cell.Status()
	if err != nil {
		return err
	}
	out := toClusterStatus(status)
	if out.Disk, err = diskStatus(q.cell); err != nil {
		return err
	}
	if s.cloud() {
		out.Disk.Free = nil // it tells what others write
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// toClusterStatus is what a node that is its own cluster knows of it.
func toClusterStatus(s cell.Status) api.ClusterStatus {
	applied := s.Engine.Applied.Index
	state := strings.ToLower(s.Engine.State)
	out := api.ClusterStatus{
		Mode:          "single",
		Cluster:       s.Engine.Group,
		NodeID:        s.Engine.NodeID,
		State:         state,
		Term:          s.Engine.Term,
		AppliedIndex:  applied,
		CommitIndex:   s.Engine.Last, // a sole voter commits what it logs
		SnapshotIndex: s.Engine.Snapshot,
		Nodes:         []api.ClusterNode{{ID: s.Engine.NodeID, Role: state, Self: true, Voter: true}},
		ApplyPending:  s.Engine.BacklogOps,
		View:          api.ViewStatus{Applied: uint64(s.ViewApplied)},
		RaftStore:     "wal",
		Shards:        1,
		QueueTime:     toHistogram(&s.Engine.QueueTime),
		ApplyTime:     toHistogram(&s.Engine.ApplyTime),
	}
	if view := uint64(s.ViewApplied); view < applied {
		out.View.Lag = applied - view
	}
	if state == "leader" {
		out.LeaderID = s.Engine.NodeID
	}
	return out
}

func toHistogram(d *pipeline.Distribution) api.Histogram {
	h := api.Histogram{
		Unit:    "us",
		Count:   d.Count(),
		P50:     d.Quantile(.5).Microseconds(),
		P90:     d.Quantile(.9).Microseconds(),
		P99:     d.Quantile(.99).Microseconds(),
		Avg:     d.Mean().Microseconds(),
		Buckets: make([]api.HistogramBucket, pipeline.Buckets),
	}
	for i, n := range d.Counts {
		h.Buckets[i].Count = n
		if i < pipeline.Buckets-1 {
			bound := int64(pipeline.BucketBound(i) / time.Microsecond)
			h.Buckets[i].UpTo = &bound
		}
	}
	return h
}

func diskStatus(c *cell.Cell) (out api.DiskStatus, err error) {
	if out.Data, err = c.DataBytes(); err != nil {
		return out, err
	}
	switch free, err := c.FreeDisk(); {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		return out, err
	default:
		out.Free = &free
	}
	return out, nil
}
