package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
)

// How often a member sees to it that it knows where the others are: while somebody
// has not been heard of, and otherwise.
const (
	attendSoon = time.Second
	attendIdle = 5 * time.Second
)

// Start begins to take others in, once this process has opened its groups, by
// shard; a process that is new to the cluster asks to be added to them. It refuses
// groups that are not the ones this directory is a member with.
func (c *Cluster) Start(groups []Group) error {
	r := c.is()
	if len(groups) != r.Shards {
		return api.Errorf(api.Internal, "the cluster has %d shards, %d groups were opened", r.Shards, len(groups))
	}
	opened := make([]entry.Incarnation, len(groups))
	for shard, g := range groups {
		status, err := g.Status()
		if err != nil {
			return err
		}
		opened[shard] = status.Incarnation
		if len(r.Groups) > 0 && r.Groups[shard] != opened[shard] {
			return api.Errorf(api.Unhealthy, "the data of shard %d in %s is not the cluster's (group %s, not %s): put back what was deleted, or remove node %q from the cluster and let it join again with an empty directory", shard, c.cfg.DataDir, opened[shard], r.Groups[shard], r.NodeID)
		}
	}
	err := c.change(func(r *record) error {
		r.Groups = opened
		if r.Known[r.NodeID].Key == "" {
			r.setKey(r.NodeID, c.key)
		}
		switch r.Phase {
		case founding:
			r.Phase, r.Address = member, c.wire.Address()
		case joining:
			r.Phase = adding
		}
		c.groups = groups
		return nil
	})
	if err != nil {
		return err
	}
	for id, address := range c.is().Members {
		c.wire.Learn(id, address)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.running.Go(func() { c.attend(ctx) })
	return nil
}

// open is what the directory is, and its groups; nil before Start.
func (c *Cluster) open() (record, []Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record, c.groups
}

// attend keeps this node a member that the others can find.
func (c *Cluster) attend(ctx context.Context) {
	for {
		rest := attendIdle
		if !c.contact(ctx) {
			rest = attendSoon
		}
		if err := c.settleIn(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Info("not all of this node's membership is settled yet", "why", err)
			rest = attendSoon
		}
		if err := c.remember(); err != nil {
			c.cfg.Logger.Error("cannot keep where the other members are", "error", err)
		}
		sleep(ctx, rest)
		if ctx.Err() != nil {
			return
		}
	}
}

// contact calls the members, so that they learn where this node is and which
// cluster it is in, and this node where they are. It says whether all are there.
func (c *Cluster) contact(ctx context.Context) (all bool) {
	r, groups := c.open()
	known := maps.Clone(r.Members)
	if known == nil {
		known = map[string]string{}
	}
	maps.Copy(known, c.addresses(groups))
	delete(known, r.NodeID)
	all = true
	for id, address := range known {
		h, err := ask[hello](ctx, c.wire, transport.Peer{ID: id, Address: address}, kindHello, c.about(r), callLimit)
		if err != nil {
			all = false
			continue
		}
		c.recognise(id, h.Cluster)
		if err := c.pin(id); err != nil {
			c.cfg.Logger.Error("cannot keep the key of a member", "member", id, "error", err)
		}
		if err := c.heed(h); api.CodeOf(err) == api.Conflict {
			c.held.say(err.Error())
		} else if err != nil {
			c.cfg.Logger.Error("cannot keep the keys of the other members", "error", err)
		}
	}
	if !all && ctx.Err() == nil {
		// Their addresses may have changed while this node was away.
		c.survey(ctx, c.where(ctx))
	}
	return all
}

// recognise complains of a node with our secret in another cluster. Mostly it is a
// founder that lost its disk and was started to found again.
func (c *Cluster) recognise(id, theirs string) {
	if ours := c.ID(); ours != "" && theirs != "" && theirs != ours {
		c.foreign.say(fmt.Sprintf("node %q is in cluster %s, this one in %s: if one of them was founded because its node had lost its disk, start that node empty, with --join and without --bootstrap", id, theirs, ours))
	}
}

// where is where others may be found, as the process was told.
func (c *Cluster) where(ctx context.Context) []string {
	if c.cfg.Find == nil {
		return c.cfg.Join
	}
	addresses, err := c.cfg.Find.Addresses(ctx)
	if err != nil {
		c.cfg.Logger.Debug("the addresses of the nodes are not known", "error", err)
	}
	return addresses
}

// settleIn has the cluster add this node, or tells it this node's new address.
func (c *Cluster) settleIn(ctx context.Context) error {
	r, groups := c.open()
	address := c.wire.Address()
	switch {
	case r.Phase == adding:
		if err := c.askToBeAdded(ctx, r, address); err != nil {
			return err
		}
	case r.Phase == member && r.Address != address:
		for shard, g := range groups {
			if !isMember(g, r.NodeID) {
				return fmt.Errorf("this node is no member of shard %d any more", shard)
			}
			if err := g.AddLearner(ctx, r.NodeID, address); err != nil {
				return fmt.Errorf("tell shard %d this node's new address: %w", shard, err)
			}
		}
	default:
		return nil
	}
	return c.change(func(r *record) error {
		if r.Phase == adding {
			r.Phase = member
		}
		r.Address = address
		return nil
	})
}

func isMember(g Group, id string) bool {
	return slices.ContainsFunc(g.Members(), func(m engine.Member) bool { return m.ID == id })
}

// askToBeAdded asks one member after another.
func (c *Cluster) askToBeAdded(ctx context.Context, r record, address string) error {
	q := joinRequest{Address: address, Cluster: r.Cluster, Level: c.cfg.Level, Version: c.cfg.Version}
	err := error(api.Errorf(api.LeaderUnavailable, "no member of the cluster is known"))
	var peers []transport.Peer
	for id, at := range r.Members {
		peers = append(peers, transport.Peer{ID: id, Address: at})
	}
	for _, at := range c.where(ctx) {
		peers = append(peers, transport.Peer{Address: at})
	}
	for _, to := range peers {
		if to.Address == address {
			continue
		}
		var v verdict
		if v, err = ask[verdict](ctx, c.wire, to, kindAdd, q, joinLimit); err == nil {
			err = v.err()
		}
		if err == nil {
			return nil
		}
		err = fmt.Errorf("ask %s to add this node: %w", to.Address, err)
	}
	return err
}

// remember keeps where the others are, for the next start.
func (c *Cluster) remember() error {
	r, groups := c.open()
	known := c.addresses(groups)
	delete(known, r.NodeID)
	for _, g := range groups {
		if !isMember(g, r.NodeID) {
			return nil // not added yet: it knows only what it was told
		}
	}
	if maps.Equal(known, r.Members) {
		return nil
	}
	return c.change(func(r *record) error {
		r.Members = known
		r.prune(known)
		return nil
	})
}

// addresses is where the members of all shards are, as far as is known.
func (c *Cluster) addresses(groups []Group) map[string]string {
	all := map[string]string{}
	for _, g := range groups {
		for _, m := range g.Members() {
			if all[m.ID] = c.wire.AddressOf(m.ID); all[m.ID] == "" {
				all[m.ID] = m.Address
			}
		}
	}
	if r := c.is(); len(all) > 0 {
		all[r.NodeID] = c.wire.Address()
	}
	return all
}
