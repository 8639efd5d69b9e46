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

// A member contacts the others at these intervals. It uses retryInterval if one of them did not answer in the
// last round or finishJoin failed, and else contactInterval.
const (
	retryInterval   = time.Second
	contactInterval = 5 * time.Second
)

// Start is called once this process has opened its groups, given by shard. From then on the process accepts
// joining nodes and, if it is new to the cluster, asks to be added to the groups. Start returns UNHEALTHY if
// a group's incarnation differs from the record's, and INTERNAL if the number of groups is not that of the
// shards.
func (c *Cluster) Start(groups []Group) error {
	r := c.current()
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
	for id, address := range c.current().Members {
		c.wire.Learn(id, address)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.running.Go(func() { c.maintain(ctx) })
	return nil
}

// state returns the record and the groups, which are nil before Start.
func (c *Cluster) state() (record, []Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record, c.groups
}

// maintain keeps this node a member that the others can reach.
func (c *Cluster) maintain(ctx context.Context) {
	for {
		rest := contactInterval
		if !c.contactMembers(ctx) {
			rest = retryInterval
		}
		if err := c.finishJoin(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Info("the node has not finished joining its cluster", "error", err)
			rest = retryInterval
		}
		if err := c.saveMembers(); err != nil {
			c.cfg.Logger.Error("the node cannot save the addresses of the other members", "error", err)
		}
		sleep(ctx, rest)
		if ctx.Err() != nil {
			return
		}
	}
}

// contactMembers calls all members, so that they learn this node's address and cluster, and this node learns
// theirs. It reports whether all have answered.
func (c *Cluster) contactMembers(ctx context.Context) (all bool) {
	r, groups := c.state()
	known := maps.Clone(r.Members)
	if known == nil {
		known = map[string]string{}
	}
	maps.Copy(known, c.addresses(groups))
	delete(known, r.NodeID)
	all = true
	for id, address := range known {
		h, err := ask[hello](ctx, c.wire, transport.Peer{ID: id, Address: address}, kindHello, c.helloRequest(r), callLimit)
		if err != nil {
			all = false
			continue
		}
		c.checkCluster(id, h.Cluster)
		if err := c.pinKey(id); err != nil {
			c.cfg.Logger.Error("the node cannot save the key of a member", "member", id, "error", err)
		}
		if err := c.adoptKeys(h); api.CodeOf(err) == api.Conflict {
			c.idTakenLog.report(err.Error())
		} else if err != nil {
			c.cfg.Logger.Error("the node cannot save the keys of the other members", "error", err)
		}
	}
	if !all && ctx.Err() == nil {
		// The members that did not answer may have moved to other addresses while this node was away. The
		// transport learns the addresses from the calls.
		c.survey(ctx, c.joinAddresses(ctx))
	}
	return all
}

// checkCluster logs a node with the same secret in another cluster. Usually it is a founder that lost its
// disk and was bootstrapped again.
func (c *Cluster) checkCluster(id, theirs string) {
	if ours := c.ID(); ours != "" && theirs != "" && theirs != ours {
		c.foreignLog.report(fmt.Sprintf("node %q is in cluster %s, this one in %s: if one of them was founded because its node had lost its disk, start that node empty, with --join and without --bootstrap", id, theirs, ours))
	}
}

// joinAddresses returns the configured addresses of other nodes.
func (c *Cluster) joinAddresses(ctx context.Context) []string {
	if c.cfg.Find == nil {
		return c.cfg.Join
	}
	addresses, err := c.cfg.Find.Addresses(ctx)
	if err != nil {
		c.cfg.Logger.Debug("the node cannot look up the addresses of the other nodes", "error", err)
	}
	return addresses
}

// finishJoin has the cluster add this node, or reports this node's new address.
func (c *Cluster) finishJoin(ctx context.Context) error {
	r, groups := c.state()
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

// askToBeAdded asks the members in turn to add this node, until one has done it.
func (c *Cluster) askToBeAdded(ctx context.Context, r record, address string) error {
	q := joinRequest{Address: address, Cluster: r.Cluster, Level: c.cfg.Level, Version: c.cfg.Version}
	err := error(api.Errorf(api.LeaderUnavailable, "no member of the cluster is known"))
	var peers []transport.Peer
	for id, at := range r.Members {
		peers = append(peers, transport.Peer{ID: id, Address: at})
	}
	for _, at := range c.joinAddresses(ctx) {
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

// saveMembers stores the members' addresses for the next start.
func (c *Cluster) saveMembers() error {
	r, groups := c.state()
	known := c.addresses(groups)
	delete(known, r.NodeID)
	for _, g := range groups {
		if !isMember(g, r.NodeID) {
			return nil // not added yet: keep the addresses from the join
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

// addresses returns the known addresses of the members of all shards.
func (c *Cluster) addresses(groups []Group) map[string]string {
	all := map[string]string{}
	for _, g := range groups {
		for _, m := range g.Members() {
			if all[m.ID] = c.wire.AddressOf(m.ID); all[m.ID] == "" {
				all[m.ID] = m.Address
			}
		}
	}
	if r := c.current(); len(all) > 0 {
		all[r.NodeID] = c.wire.Address()
	}
	return all
}
