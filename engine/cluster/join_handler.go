package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/transport"
)

// aliveWithin is how recently a member must have answered its leader's probe, which comes each second, to
// count as alive. A joining node does not get the ID of a live member. An operator hardly notices a wait of
// this length.
const aliveWithin = 3 * time.Second

// answerJoin describes the cluster to a node with an empty directory, after any earlier node with its ID has
// been removed. The removal must be committed before the newcomer opens its groups, so that the newcomer
// never votes in place of the earlier node, whose acknowledged log it lacks.
func (c *Cluster) answerJoin(ctx context.Context, from transport.Peer, q joinRequest) joinAnswer {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	groups, v := c.mayAdd(from.ID, q)
	if v.Code != "" {
		return joinAnswer{verdict: v}
	}
	a := joinAnswer{Cluster: c.ID(), Members: c.addresses(groups)}
	delete(a.Members, from.ID)
	for shard, g := range groups {
		if err := c.removeEarlier(ctx, shard, g, from.ID); err != nil {
			v := retryLaterFor(err)
			v.Held = api.CodeOf(err) == api.StateConflict
			return joinAnswer{verdict: v}
		}
		status, err := g.Status()
		if err != nil {
			return joinAnswer{verdict: retryLaterFor(err)}
		}
		a.Groups = append(a.Groups, status.Incarnation)
	}
	// Record the newcomer's key before any member is asked to accept the newcomer's messages, because from
	// now on it is the node with this ID.
	err := c.changeKeys(func(r *record) {
		if from.Key != "" {
			r.setKey(from.ID, from.Key)
		}
	})
	if err != nil {
		return joinAnswer{verdict: retryLaterFor(err)}
	}
	if err := c.exchangeKeys(ctx, a.Members); err != nil {
		return joinAnswer{verdict: retryLaterFor(err)} // another process holds this member's ID, or its disk fails
	}
	a.Known = c.current().Known
	c.cfg.Logger.Info("a node joins the cluster", "node", from.ID, "address", q.Address, "version", q.Version)
	return a
}

// mayAdd returns all groups if this member can add a node to them, or else the refusal.
func (c *Cluster) mayAdd(id string, q joinRequest) ([]Group, verdict) {
	r, groups := c.state()
	switch level := c.cfg.Replicated; {
	case r.inCluster() && q.Cluster != "" && q.Cluster != r.Cluster:
		return nil, refuse(api.Conflict, "node %q is a member of another cluster (%s, not %s): its data directory or the address it joins at is the wrong one", id, q.Cluster, r.Cluster)
	case groups == nil || r.Phase != member:
		return nil, retryLater("node %q is no member itself yet", r.NodeID)
	case id == r.NodeID:
		return nil, refuse(api.Conflict, "the member that was asked is called %q itself: give each node its own --node-id", id)
	case q.Level < level():
		return nil, refuse(api.PreconditionFailed, "the cluster works at feature level %d and version %s knows no higher one than %d: start version %s or later", level(), q.Version, q.Level, c.cfg.Version)
	}
	return groups, verdict{}
}

// removeEarlier removes an earlier node with the same ID from a shard. It returns STATE_CONFLICT if that node
// is alive.
func (c *Cluster) removeEarlier(ctx context.Context, shard int, g Group, id string) error {
	members, err := c.Members(ctx, shard)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(m engine.Member) bool { return m.ID == id })
	if i >= 0 && members[i].LastContact >= 0 && members[i].LastContact < aliveWithin {
		c.cfg.Logger.Warn("this node refuses a join: the new node has the id of a live member", "node", id, "shard", shard, "member_address", members[i].Address)
		return api.Errorf(api.StateConflict, "another process holds node id %q, and is alive: give this node its own id (--node-id), or stop and remove %q first (in a bare cluster: corvo cluster remove %[1]s; in a control plane: corvo cloud processes remove %[1]s)", id, id)
	}
	// Remove it even if the leader does not list it, because this node may be wrong about the leader.
	if err := g.Remove(ctx, id); err != nil {
		return fmt.Errorf("remove the earlier node %q from shard %d: %w", id, shard, err)
	}
	return nil
}

// answerAdd adds a node, which has opened its groups, to all shards as a learner. The request can be
// repeated.
func (c *Cluster) answerAdd(ctx context.Context, from transport.Peer, q joinRequest) verdict {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	groups, v := c.mayAdd(from.ID, q)
	if v.Code != "" {
		return v
	}
	for shard, g := range groups {
		if err := g.AddLearner(ctx, from.ID, q.Address); err != nil {
			return retryLaterFor(fmt.Errorf("add it to shard %d: %w", shard, err))
		}
	}
	if err := c.saveMembers(); err != nil { // records that this node is no longer alone
		return retryLaterFor(err)
	}
	return verdict{}
}
