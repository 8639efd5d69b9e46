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

// changeEvery is the pause between attempts to change the membership.
const changeEvery = 200 * time.Millisecond

// Node is one member of the cluster.
type Node struct {
	ID, Address string
	HTTP        string // "" = not known
	Version     string // "" = not known
	Level       uint32 // 0 = not known
	Self        bool
	Connected   bool
	Clock       time.Duration // its clock less this node's; 0 if not measured
}

// Nodes returns all members, sorted by ID; none before Start.
func (c *Cluster) Nodes() []Node {
	r, groups := c.state()
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

// aboutPeer decodes a peer's info. ok is false if none has arrived, or if the peer is in another cluster,
// even under a member's ID.
func aboutPeer(p transport.PeerStatus, cluster string) (about info, ok bool) {
	if p.LastSeen.IsZero() || json.Unmarshal(p.Info, &about) != nil {
		return info{}, false
	}
	return about, about.Cluster == "" || about.Cluster == cluster
}

// URL returns the URL under which clients reach a node; "" = unknown.
func (c *Cluster) URL(id string) string {
	if id == c.cfg.NodeID {
		return c.cfg.HTTP
	}
	for _, p := range c.wire.Peers() {
		if p.ID == id {
			if about, ok := aboutPeer(p, c.ID()); ok {
				return about.HTTP
			}
		}
	}
	return ""
}

// Level returns the highest feature level that all members of all shards support. ok is false, and level 0,
// if there are no members or the level of one is unknown.
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

// Members returns a shard's members as its leader sees them, sorted by ID. It returns LEADER_UNAVAILABLE
// while the shard has no leader, and NOT_FOUND before Start or for a shard that does not exist.
func (c *Cluster) Members(ctx context.Context, shard int) ([]engine.Member, error) {
	r, groups := c.state()
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
	r, groups := c.state()
	switch {
	case r.Cluster != q.Cluster:
		return membersAnswer{verdict: refuse(api.Conflict, "node %q is in another cluster", r.NodeID)}
	case q.Shard < 0 || q.Shard >= len(groups):
		return membersAnswer{verdict: retryLater("node %q has not opened shard %d yet", r.NodeID, q.Shard)}
	case groups[q.Shard].LeaderID() != r.NodeID:
		return membersAnswer{verdict: retryLater("node %q does not lead shard %d any more", r.NodeID, q.Shard)}
	}
	return membersAnswer{Members: groups[q.Shard].Members()}
}

// Invite asks a waiting node to join this cluster. It returns once the node has this or an earlier
// invitation, or is in this cluster already; CONFLICT if the node is in another. The node joins on its own
// afterwards.
func (c *Cluster) Invite(ctx context.Context, address string) error {
	q := inviteRequest{Cluster: c.ID(), Address: c.wire.Address()}
	v, err := ask[verdict](ctx, c.wire, transport.Peer{Address: address}, kindInvite, q, callLimit)
	if err != nil {
		return err
	}
	return v.err()
}

// CheckRemovable returns NOT_FOUND if no shard has the node, and STATE_CONFLICT if any shard would lose its
// quorum without it.
func (c *Cluster) CheckRemovable(ctx context.Context, id string) error {
	_, groups := c.state()
	if !c.hasMember(groups, id) {
		return api.Errorf(api.NotFound, "the cluster has no node %q", id)
	}
	asked := time.Now()
	for shard := range groups {
		if err := c.retryWithoutLeader(ctx, func() error { return c.checkRemovable(ctx, shard, id, asked) }); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	return nil
}

// Remove removes a node from all shards. Before it changes anything, it returns the errors of CheckRemovable.
// It can be repeated until it succeeds.
func (c *Cluster) Remove(ctx context.Context, id string) error {
	r, groups := c.state()
	if err := c.CheckRemovable(ctx, id); err != nil {
		return err
	}
	var directoryID string
	if id != r.NodeID {
		// Ask the present node for its directory, so that a later node with the same ID ignores the notice.
		if h, err := ask[hello](ctx, c.wire, transport.Peer{ID: id}, kindHello, c.helloRequest(r), callLimit); err == nil {
			directoryID = h.DirectoryID
		}
	}
	for shard, g := range groups {
		if err := c.retryWithoutLeader(ctx, func() error { return g.Remove(ctx, id) }); err != nil {
			return fmt.Errorf("remove %q from shard %d: %w", id, shard, err)
		}
	}
	if directoryID != "" {
		q := removedRequest{Cluster: r.Cluster, DirectoryID: directoryID}
		if _, err := ask[verdict](ctx, c.wire, transport.Peer{ID: id}, kindRemoved, q, callLimit); err != nil {
			c.cfg.Logger.Warn("a removed node could not be notified: stop it", "node", id, "error", err)
		}
	}
	// Another process may use the ID now.
	return c.changeKeys(func(r *record) {
		if id != r.NodeID {
			r.setKey(id, "")
		}
	})
}

// checkRemovable checks that a shard can do without a node. The shard's leader checks it again when it
// removes the node; this check comes before any shard is changed. A new leader gets aliveWithin, from asked
// on, to hear from its members.
func (c *Cluster) checkRemovable(ctx context.Context, shard int, id string, asked time.Time) error {
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

func (c *Cluster) hasMember(groups []Group, id string) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return isMember(g, id) })
}

// retryWithoutLeader repeats f while it fails because a leader is missing, until ctx ends.
func (c *Cluster) retryWithoutLeader(ctx context.Context, f func() error) error {
	for {
		err := f()
		if api.CodeOf(err) != api.LeaderUnavailable || ctx.Err() != nil {
			return err
		}
		sleep(ctx, changeEvery)
	}
}

// removedRequest tells a node that it was removed.
type removedRequest struct {
	Cluster     string `json:"cluster_id"`
	DirectoryID string `json:"directory_id"` // of the removed directory
}

func (c *Cluster) answerRemoved(_ context.Context, from transport.Peer, q removedRequest) verdict {
	err := c.change(func(r *record) error {
		if r.Cluster != q.Cluster || r.DirectoryID != q.DirectoryID {
			return api.Errorf(api.Conflict, "node %q is not the one that was removed", r.NodeID)
		}
		r.Phase = removed
		return nil
	})
	if err != nil {
		return retryLaterFor(err)
	}
	c.cfg.Logger.Error("this node was removed from its cluster and refuses all requests: stop it", "node", from.ID)
	return verdict{}
}

// Transfer transfers the leadership of all shards to a node; "" = to any node but the present leader. It
// tries every shard and joins the errors. It returns NOT_FOUND if no shard has the node.
func (c *Cluster) Transfer(ctx context.Context, to string) error {
	_, groups := c.state()
	if to != "" && !c.hasMember(groups, to) {
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
