package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/transport"
)

// changeEvery is how long a change of membership rests between tries.
const changeEvery = 200 * time.Millisecond

// Node is one member of the cluster.
type Node struct {
	ID, Address string
	HTTP        string // "" = not known
	Version     string
	Level       uint32
	Self        bool
	Connected   bool
	Clock       time.Duration // its clock less ours
}

// Nodes is what is known of all members, by ID.
func (c *Cluster) Nodes() []Node {
	r, groups := c.open()
	peers := map[string]transport.PeerStatus{}
	for _, p := range c.wire.Peers() {
		peers[p.ID] = p
	}
	var all []Node
	at := c.addresses(groups)
	for _, id := range slices.Sorted(maps.Keys(at)) {
		n := Node{ID: id, Address: at[id]}
		if id == r.NodeID {
			n.Self, n.Connected, n.HTTP, n.Version, n.Level = true, true, c.cfg.HTTP, c.cfg.Version, c.cfg.Level
		} else if p, ok := peers[id]; ok {
			n.Connected, n.Clock = p.Connected, p.Offset
			if about, ok := aboutPeer(p, r.Cluster); ok {
				n.HTTP, n.Version, n.Level = about.HTTP, about.Version, about.Level
			}
		}
		all = append(all, n)
	}
	return all
}

// aboutPeer is what a peer says of itself. One of another cluster is nobody's
// member, whatever its name.
func aboutPeer(p transport.PeerStatus, cluster string) (about info, ok bool) {
	if p.LastSeen.IsZero() || json.Unmarshal(p.Info, &about) != nil {
		return info{}, false
	}
	return about, about.Cluster == "" || about.Cluster == cluster
}

// URL is where clients reach a node; "" = not known.
func (c *Cluster) URL(id string) string {
	if id == c.cfg.NodeID {
		return c.cfg.HTTP
	}
	for _, p := range c.wire.Peers() {
		if p.ID == id {
			about, _ := aboutPeer(p, c.ID())
			return about.HTTP
		}
	}
	return ""
}

// Level is the highest feature level that all members of all shards know; ok says
// whether all have been heard of.
func (c *Cluster) Level() (level uint32, ok bool) {
	level, ok = c.cfg.Level, true
	nodes := c.Nodes()
	for _, n := range nodes {
		level = min(level, n.Level)
		ok = ok && n.Level > 0
	}
	if !ok || len(nodes) == 0 {
		return 0, false
	}
	return level, true
}

// Members is a shard's membership as its leader sees it, by ID.
func (c *Cluster) Members(ctx context.Context, shard int) ([]engine.Member, error) {
	r, groups := c.open()
	if shard < 0 || shard >= len(groups) {
		return nil, api.Errorf(api.NotFound, "the cluster has no shard %d", shard)
	}
	switch leader := groups[shard].LeaderID(); leader {
	case r.NodeID:
		return groups[shard].Members(), nil
	case "":
		return nil, api.Errorf(api.LeaderUnavailable, "shard %d has no leader now", shard)
	default:
		q := membersRequest{Cluster: r.Cluster, Shard: shard}
		a, err := ask[membersAnswer](ctx, c.wire, transport.Peer{ID: leader}, kindMembers, q, callLimit)
		if err != nil {
			return nil, err
		}
		return a.Members, a.err()
	}
}

func (c *Cluster) answerMembers(_ context.Context, _ transport.Peer, q membersRequest) membersAnswer {
	r, groups := c.open()
	switch {
	case r.Cluster != q.Cluster:
		return membersAnswer{verdict: refuse(api.Conflict, "node %q is in another cluster", r.NodeID)}
	case q.Shard < 0 || q.Shard >= len(groups):
		return membersAnswer{verdict: later("node %q has not opened shard %d yet", r.NodeID, q.Shard)}
	case groups[q.Shard].LeaderID() != r.NodeID:
		return membersAnswer{verdict: later("node %q does not lead shard %d any more", r.NodeID, q.Shard)}
	}
	return membersAnswer{Members: groups[q.Shard].Members()}
}

// Invite has a node that waits for it join this cluster. It returns when the node
// has taken the invitation.
func (c *Cluster) Invite(ctx context.Context, address string) error {
	q := inviteRequest{Cluster: c.ID(), Address: c.wire.Address()}
	v, err := ask[verdict](ctx, c.wire, transport.Peer{Address: address}, kindInvite, q, callLimit)
	if err != nil {
		return err
	}
	return v.err()
}

// Remove ends a node's membership in all shards. Where a quorum of any of them
// would be lost it is refused before anything is changed. It may be repeated until
// it succeeds.
func (c *Cluster) Remove(ctx context.Context, id string) error {
	r, groups := c.open()
	if !c.knows(groups, id) {
		return api.Errorf(api.NotFound, "the cluster has no node %q", id)
	}
	asked := time.Now()
	for shard := range groups {
		if err := c.insist(ctx, func() error { return c.spare(ctx, shard, id, asked) }); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	var birth string
	if id != r.NodeID {
		// Of whoever is there now, so that a later node of this name is not meant.
		if h, err := ask[hello](ctx, c.wire, transport.Peer{ID: id}, kindHello, c.about(r), callLimit); err == nil {
			birth = h.Birth
		}
	}
	for shard, g := range groups {
		if err := c.insist(ctx, func() error { return g.Remove(ctx, id) }); err != nil {
			return fmt.Errorf("remove %q from shard %d: %w", id, shard, err)
		}
	}
	if birth != "" {
		q := removedRequest{Cluster: r.Cluster, Birth: birth}
		if _, err := ask[verdict](ctx, c.wire, transport.Peer{ID: id}, kindRemoved, q, callLimit); err != nil {
			c.cfg.Logger.Warn("a node was removed and could not be told: stop it", "node", id, "error", err)
		}
	}
	// Its ID is free for another process now.
	return c.know(func(r *record) {
		if id != r.NodeID {
			r.setKey(id, "")
		}
	})
}

// spare says whether a shard can do without a node. Its leader says so again when
// it is asked to remove it: this is for the shards after one that had agreed. A
// leader that is new gets some time, from when it was asked, to hear of the others.
func (c *Cluster) spare(ctx context.Context, shard int, id string, asked time.Time) error {
	members, err := c.Members(ctx, shard)
	if err != nil {
		return err
	}
	left, alive, unheard := 0, 0, 0
	voter := false
	for _, m := range members {
		switch {
		case m.ID == id:
			voter = m.Voter
		case !m.Voter:
		case m.LastContact < 0:
			left, unheard = left+1, unheard+1
		case m.LastContact < aliveWithin:
			left, alive = left+1, alive+1
		default:
			left++
		}
	}
	switch {
	case !voter || alive > left/2:
		return nil
	case alive+unheard > left/2 && time.Since(asked) < aliveWithin:
		return api.Errorf(api.LeaderUnavailable, "the leader of shard %d has not heard of all members yet", shard)
	}
	return api.Errorf(api.StateConflict, "without %s, %d of %d voters of shard %d would be alive, which is no majority: bring one back first", id, alive, left, shard)
}

func (c *Cluster) knows(groups []Group, id string) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return isMember(g, id) })
}

// insist repeats what fails for want of a leader, until ctx ends.
func (c *Cluster) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if api.CodeOf(err) != api.LeaderUnavailable || ctx.Err() != nil {
			return err
		}
		sleep(ctx, changeEvery)
	}
}

// removedRequest tells a node that it has been removed.
type removedRequest struct {
	Cluster string `json:"cluster_id"`
	Birth   string `json:"birth"` // of the directory that is meant
}

func (c *Cluster) answerRemoved(_ context.Context, from transport.Peer, q removedRequest) verdict {
	err := c.change(func(r *record) error {
		if r.Cluster != q.Cluster || r.Birth != q.Birth {
			return api.Errorf(api.Conflict, "node %q is not the one that was removed", r.NodeID)
		}
		r.Phase = removed
		return nil
	})
	if err != nil {
		return because(err)
	}
	c.cfg.Logger.Error("this node was removed from its cluster and serves nobody any more: stop it", "by", from.ID)
	return verdict{}
}

// Transfer hands the leadership of all shards to a node; "" = away from those who
// have it.
func (c *Cluster) Transfer(ctx context.Context, to string) error {
	_, groups := c.open()
	if to != "" && !c.knows(groups, to) {
		return api.Errorf(api.NotFound, "the cluster has no node %q", to)
	}
	var errs []error
	for shard, g := range groups {
		if to != "" && g.LeaderID() == to {
			continue
		}
		if err := g.Transfer(ctx, to); err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", shard, err))
		}
	}
	return errors.Join(errs...)
}
