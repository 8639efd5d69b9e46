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

// aliveWithin is how recently a leader must have heard of a member for its name to
// be taken: many heartbeats, and less than it takes to notice that one waits.
const aliveWithin = 3 * time.Second

// answerJoin tells a node that comes with an empty directory what the cluster is,
// once nothing of an earlier node of its name is left in it. That must be over
// before the newcomer opens its groups: it would vote there without the log that
// the earlier one has promised to keep.
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
		if err := c.vacate(ctx, shard, g, from.ID); err != nil {
			v := because(err)
			v.Held = api.CodeOf(err) == api.StateConflict
			return joinAnswer{verdict: v}
		}
		status, err := g.Status()
		if err != nil {
			return joinAnswer{verdict: because(err)}
		}
		a.Groups = append(a.Groups, status.Incarnation)
	}
	// From now on the newcomer is the node, before anybody is asked to hear it.
	err := c.know(func(r *record) {
		if from.Key != "" {
			r.setKey(from.ID, from.Key)
		}
	})
	if err != nil {
		return joinAnswer{verdict: because(err)}
	}
	if err := c.exchange(ctx, a.Members); err != nil {
		return joinAnswer{verdict: because(err)} // this process is the wrong one itself, or cannot write
	}
	a.Known = c.is().Known
	c.cfg.Logger.Info("a node joins the cluster", "node", from.ID, "address", q.Address, "version", q.Version)
	return a
}

// mayAdd says why a node cannot become a member by this one, now or ever.
func (c *Cluster) mayAdd(id string, q joinRequest) ([]Group, verdict) {
	r, groups := c.open()
	switch level := c.cfg.Replicated; {
	case r.inCluster() && q.Cluster != "" && q.Cluster != r.Cluster:
		return nil, refuse(api.Conflict, "node %q is a member of another cluster (%s, not %s): its data directory or the address it joins at is the wrong one", id, q.Cluster, r.Cluster)
	case groups == nil || r.Phase != member:
		return nil, later("node %q is no member itself yet", r.NodeID)
	case id == r.NodeID:
		return nil, refuse(api.Conflict, "the member that was asked is called %q itself: give each node its own --node-id", id)
	case q.Level < level():
		return nil, refuse(api.PreconditionFailed, "the cluster works at feature level %d and version %s knows no higher one than %d: start version %s or later", level(), q.Version, q.Level, c.cfg.Version)
	}
	return groups, verdict{}
}

// vacate ends the membership of an earlier node of the name in a shard.
func (c *Cluster) vacate(ctx context.Context, shard int, g Group, id string) error {
	members, err := c.Members(ctx, shard)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(m engine.Member) bool { return m.ID == id })
	if i >= 0 && members[i].LastContact >= 0 && members[i].LastContact < aliveWithin {
		c.cfg.Logger.Warn("a node asks to join under the id of a member that is alive: it is refused", "node", id, "shard", shard, "member_address", members[i].Address)
		return api.Errorf(api.StateConflict, "another process holds node id %q, and is alive: give this node its own id (--node-id), or stop and remove %q first (corvo cluster remove %[1]s)", id, id)
	}
	// Also where the leader's list has none: this node may take the wrong one for it.
	if err := g.Remove(ctx, id); err != nil {
		return fmt.Errorf("remove the earlier node %q from shard %d: %w", id, shard, err)
	}
	return nil
}

// answerAdd makes a node that has opened its groups a learner in all of them. It
// may be asked again and again.
func (c *Cluster) answerAdd(ctx context.Context, from transport.Peer, q joinRequest) verdict {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	groups, v := c.mayAdd(from.ID, q)
	if v.Code != "" {
		return v
	}
	for shard, g := range groups {
		if err := g.AddLearner(ctx, from.ID, q.Address); err != nil {
			return because(fmt.Errorf("add it to shard %d: %w", shard, err))
		}
	}
	if err := c.remember(); err != nil { // that this node is not alone any more
		return because(err)
	}
	return verdict{}
}
