package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/engine/pipeline"
)

// Cluster is the self-hosted cluster that a node is a member of. *cluster.Cluster implements it.
type Cluster interface {
	// Nodes returns the known data of all members, sorted by ID.
	Nodes() []cluster.Node
	// URL returns the address of a node for clients, or "" if it is not known.
	URL(id string) string
	// Members returns the members of a shard as its leader sees them.
	Members(ctx context.Context, shard int) ([]engine.Member, error)
	// Invite asks the node that waits at an address to join. It may return before the node has joined.
	Invite(ctx context.Context, address string) error
	// Remove removes a node from all shards. It fails before any change if a shard would lose its quorum.
	// After another error, Remove may be repeated.
	Remove(ctx context.Context, id string) error
	// Transfer transfers the leadership of all shards to a node; "" = to any other node.
	Transfer(ctx context.Context, to string) error
}

const (
	// membersWait is the longest time that a status request waits for the leaders' answers.
	membersWait = 2 * time.Second
	// memberChangeWait is the longest time that a change of the members or of the leader may take.
	memberChangeWait = 30 * time.Second
)

func (s *Server) clusterStatus(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	cells := q.shards.All()
	status, err := cells[0].Status()
	if err != nil {
		return err
	}
	out := s.toClusterStatus(status)
	for shard, c := range cells {
		of, err := c.Status()
		if err != nil {
			return err
		}
		out.ShardStatus = append(out.ShardStatus, toShardStatus(shard, of, s.leaderOf(c, of)))
	}
	out.Shards, out.LeaderID = len(cells), out.ShardStatus[0].LeaderID
	if s.cfg.Cluster != nil {
		s.describe(r.Context(), cells, &out)
	}
	for _, c := range cells {
		disk, err := diskStatus(c)
		if err != nil {
			return err
		}
		out.Disk.Data, out.Disk.Free = out.Disk.Data+disk.Data, disk.Free
	}
	if s.cloud() {
		out.Disk.Free = nil // the free space would tell a tenant how much others write
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// leaderOf returns the ID of the node that leads a cell's group, or "" if the cell does not know it. Without
// Config.Cluster it names no node but this one.
func (s *Server) leaderOf(c *cell.Cell, of cell.Status) string {
	switch {
	case strings.EqualFold(of.Engine.State, leads):
		return of.Engine.NodeID
	case s.cfg.Cluster == nil:
		return ""
	}
	return c.Engine().LeaderID()
}

// leads is the state of a member that is the leader.
const leads = "leader"

// toClusterStatus converts the data that a node has about itself, without other nodes.
func (s *Server) toClusterStatus(of cell.Status) api.ClusterStatus {
	applied := of.Engine.Applied.Index
	state := strings.ToLower(of.Engine.State)
	out := api.ClusterStatus{
		Mode:          "single",
		Cluster:       of.Engine.Group,
		NodeID:        of.Engine.NodeID,
		State:         state,
		Term:          of.Engine.Term,
		AppliedIndex:  applied,
		CommitIndex:   of.Engine.Commit,
		SnapshotIndex: of.Engine.Snapshot,
		Nodes:         []api.ClusterNode{{ID: of.Engine.NodeID, Role: state, Self: true, Voter: true, Connected: true, Version: s.cfg.Version}},
		ApplyPending:  of.Engine.BacklogOps,
		View:          api.ViewStatus{Applied: uint64(of.ViewApplied)},
		RaftStore:     s.cfg.RaftStore,
		RaftNoSync:    s.cfg.RaftNoSync,
		QueueTime:     toHistogram(&of.Engine.QueueTime),
		ApplyTime:     toHistogram(&of.Engine.ApplyTime),
	}
	if view := uint64(of.ViewApplied); view < applied {
		out.View.Lag = applied - view
	}
	return out
}

func toShardStatus(shard int, of cell.Status, leader string) api.ShardStatus {
	return api.ShardStatus{
		Shard: shard, State: strings.ToLower(of.Engine.State), Term: of.Engine.Term, LeaderID: leader,
		AppliedIndex: of.Engine.Applied.Index, CommitIndex: of.Engine.Commit,
	}
}

// describe adds the members to the status. If a shard's leader does not answer, describe uses the members that
// this node knows, without their last contact and lag.
func (s *Server) describe(ctx context.Context, cells []*cell.Cell, out *api.ClusterStatus) {
	ctx, cancel := context.WithTimeout(ctx, membersWait)
	defer cancel()
	var shards [][]engine.Member
	for shard, c := range cells {
		members, err := s.cfg.Cluster.Members(ctx, shard)
		if err != nil {
			members = c.Engine().Members()
			for i := range members {
				members[i].LastContact, members[i].Lag = -1, 0
			}
		}
		shards = append(shards, members)
	}
	out.LeaderAddr = s.cfg.Cluster.URL(out.LeaderID)
	out.Nodes = toClusterNodes(s.cfg.Cluster.Nodes(), shards, out)
	if len(out.Nodes) > 1 {
		out.Mode = "cluster"
	}
}

// toClusterNodes joins the data of nodes with their membership as the shards' leaders see it. A node's lag
// and last contact are the largest of its shards; the last contact is -1 if it is not known for one of them.
// A node is a voter if it is one in every shard. The leader of the first shard has the role "leader".
func toClusterNodes(nodes []cluster.Node, shards [][]engine.Member, out *api.ClusterStatus) []api.ClusterNode {
	all := make([]api.ClusterNode, 0, len(nodes))
	for _, n := range nodes {
		row := api.ClusterNode{
			ID: n.ID, Address: n.Address, Self: n.Self, URL: n.HTTP, Version: n.Version, Connected: n.Connected,
			ClockOffsetMs: n.Clock.Milliseconds(), Voter: true,
		}
		for _, members := range shards {
			m, ok := member(members, n.ID)
			row.Voter = row.Voter && ok && m.Voter
			row.Lag = max(row.Lag, m.Lag)
			if row.LastContactMs >= 0 && ok {
				row.LastContactMs = max(row.LastContactMs, m.LastContact.Milliseconds())
			}
			if !ok || m.LastContact < 0 {
				row.LastContactMs = -1
			}
		}
		switch {
		case n.ID == out.LeaderID:
			row.Role = leads
		case !row.Voter:
			row.Role = "learner"
		case n.Self:
			row.Role = out.State
		default:
			row.Role = "follower"
		}
		all = append(all, row)
	}
	return all
}

func member(members []engine.Member, id string) (engine.Member, bool) {
	for _, m := range members {
		if m.ID == id {
			return m, true
		}
	}
	return engine.Member{}, false
}

// joinCluster invites a node into the cluster.
func (s *Server) joinCluster(w http.ResponseWriter, r *http.Request) error {
	var req api.ClusterJoinRequest
	return s.changeCluster(w, r, &req, "invited", func(ctx context.Context, c Cluster) error {
		if req.Address == "" {
			err := api.Errorf(api.ValidationError, "address: where the node that waits has its raft listener, as host:port")
			err.Details = map[string]any{"fields": []api.FieldError{{Field: "address", Error: "is required"}}}
			return err
		}
		return c.Invite(ctx, req.Address)
	})
}

func (s *Server) transferCluster(w http.ResponseWriter, r *http.Request) error {
	var req api.ClusterTransferRequest
	return s.changeCluster(w, r, &req, "transferred", func(ctx context.Context, c Cluster) error {
		return c.Transfer(ctx, req.To)
	})
}

func (s *Server) removeServer(w http.ResponseWriter, r *http.Request) error {
	return s.changeCluster(w, r, nil, "removed", func(ctx context.Context, c Cluster) error {
		return c.Remove(ctx, r.PathValue("id"))
	})
}

// changeCluster runs a change of the members or of the leader. It refuses with STATE_CONFLICT if the node has
// no cluster listener.
func (s *Server) changeCluster(w http.ResponseWriter, r *http.Request, req any, done string, change func(context.Context, Cluster) error) error {
	if _, err := s.begin(r, req); err != nil {
		return err
	}
	if s.cfg.Cluster == nil {
		return api.Errorf(api.StateConflict, "this node has no cluster listener: start it with --raft-bind, so that other nodes can join it")
	}
	ctx, cancel := context.WithTimeout(r.Context(), memberChangeWait)
	defer cancel()
	if err := change(ctx, s.cfg.Cluster); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: done})
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
