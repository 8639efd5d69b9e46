package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/transport"
)

const (
	// joinInterval is the pause between attempts to find and join a cluster.
	joinInterval = 500 * time.Millisecond
	// An unchanged condition is logged again after reportAgainAfter.
	reportAgainAfter = 15 * time.Second
)

// joinCluster makes this node part of a cluster. It tries again until it succeeds, ctx ends or an attempt
// returns an error.
func (c *Cluster) joinCluster(ctx context.Context) error {
	if c.cfg.Bootstrap {
		return c.bootstrap()
	}
	try := func(ctx context.Context) (string, error) { return "waiting to be invited", nil }
	switch {
	case c.cfg.Find != nil:
		try = c.formOrJoin
	case len(c.cfg.Join) > 0:
		try = func(ctx context.Context) (string, error) { return c.join(ctx, c.cfg.Join) }
	}
	last := ""
	for {
		why, err := try(ctx)
		switch {
		case err != nil:
			return err
		case c.inCluster():
			return nil
		case ctx.Err() != nil:
			return errNotJoined(ctx, cmp.Or(last, why)) // an attempt that ctx ended has no reason of its own
		}
		last = why
		c.joinLog.report(why)
		select {
		case address := <-c.invited:
			if why, err = c.tryJoinAt(ctx, address); err != nil {
				return err
			}
			if c.inCluster() {
				return nil
			}
			c.cfg.Logger.Warn("the node could not join the cluster that invited it", "address", address, "reason", why)
		case <-ctx.Done():
			return errNotJoined(ctx, why)
		case <-time.After(joinInterval):
		}
	}
}

func errNotJoined(ctx context.Context, why string) error {
	return api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "this node is in no cluster yet: "+why)
}

func (c *Cluster) inCluster() bool { r := c.current(); return r.inCluster() }

// conditionLog logs a condition when it changes, and repeats it at intervals.
type conditionLog struct {
	log  func(why string)
	mu   sync.Mutex
	last string
	at   time.Time
}

func (p *conditionLog) report(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); why != p.last || now.Sub(p.at) > reportAgainAfter {
		p.last, p.at = why, now
		p.log(why)
	}
}

// bootstrap creates a cluster of this node. It returns CONFLICT if this node has promised to let another node
// create the cluster.
func (c *Cluster) bootstrap() error {
	return c.change(func(r *record) error {
		if r.Promise.To != "" && !r.isCandidate() {
			return api.Errorf(api.Conflict, "this node has promised %q to let it found the cluster: join that one, or, if it is gone for good and has founded none, delete %s", r.Promise.To, recordName)
		}
		r.startFounding(max(c.cfg.Shards, 1))
		return nil
	})
}

// formOrJoin asks all nodes of the set once and takes the next step. It returns the condition it waits for. A
// refusal is not an error, because the state of the set may change.
func (c *Cluster) formOrJoin(ctx context.Context) (why string, err error) {
	addresses, err := c.cfg.Find.Addresses(ctx)
	if err != nil {
		return fmt.Sprintf("the addresses of the nodes are not known: %v", err), nil
	}
	heard, silent, taken := c.survey(ctx, addresses)
	if taken != nil {
		var failed *joinError
		if err := c.idTaken(taken); !errors.As(err, &failed) {
			return "", err
		}
	}
	r := c.current()
	p := r.plan(heard, c.cfg.Find.Expect)
	switch {
	case p.err != nil:
		c.cfg.Logger.Error("the nodes cannot form a cluster", "error", p.err)
		return p.err.Error(), nil
	case p.join != nil:
		return c.tryJoinAt(ctx, p.join.Address)
	case p.release:
		return "the node that was to found the cluster is not standing any more", c.change(func(r *record) error {
			if i := slices.IndexFunc(heard, func(h hello) bool { return r.over(&h) }); i >= 0 {
				r.setPromise(promise{})
			}
			return nil
		})
	case p.stand:
		return c.formCluster(ctx, p.others)
	case len(silent) > 0:
		return p.why + "; " + strings.Join(silent, "; "), nil
	}
	return p.why, nil
}

// tryJoinAt is like joinAt, but returns every refusal as why, even a final one, because the state of the set
// may change or another invitation may come. It returns an error only if idTaken's timeout is over or this
// node's own disk fails.
func (c *Cluster) tryJoinAt(ctx context.Context, address string) (why string, err error) {
	err = c.joinAt(ctx, address)
	var failed *joinError
	if errors.As(err, &failed) {
		return fmt.Sprintf("%s: %v", address, failed.error), nil
	}
	return "", err
}

// survey asks all addresses concurrently. silent lists the addresses without an answer, with the reasons.
// taken is the conflict over this node's ID (see conflict) if an address led to one.
func (c *Cluster) survey(ctx context.Context, addresses []string) (heard []hello, silent []string, taken error) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, address := range addresses {
		if address == c.wire.Address() {
			continue
		}
		asking.Go(func() {
			h, err := ask[hello](ctx, c.wire, transport.Peer{Address: address}, kindHello, c.helloRequest(c.current()), callLimit)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, fmt.Sprintf("%s: %v", address, err))
				taken = cmp.Or(taken, conflict(err))
				return
			}
			h.Address = address // the address that was reached
			heard = append(heard, h)
		})
	}
	asking.Wait()
	slices.Sort(silent)
	return heard, silent, taken
}

// formCluster asks all other nodes for their promises, and creates the cluster if all of them promise.
func (c *Cluster) formCluster(ctx context.Context, others []hello) (why string, err error) {
	var mine promise
	var late error
	err = c.change(func(r *record) error {
		late = r.becomeCandidate()
		mine = r.Promise
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case late != nil:
		return late.Error(), nil
	}
	refused := make([]string, len(others))
	var asking sync.WaitGroup
	for i, o := range others {
		asking.Go(func() {
			a, err := ask[promiseAnswer](ctx, c.wire, transport.Peer{ID: o.NodeID, Address: o.Address}, kindPromise, mine, callLimit)
			switch {
			case err != nil:
				refused[i] = err.Error()
			case a.Code != "":
				refused[i] = a.Message
			case a.Round != mine.Round:
				refused[i] = "a promise of another round"
			}
		})
	}
	asking.Wait()
	if why := strings.Join(slices.DeleteFunc(refused, func(s string) bool { return s == "" }), "; "); why != "" {
		return why, nil
	}
	err = c.change(func(r *record) error {
		// This node may have withdrawn in the meantime, or joined a cluster.
		if !r.inCluster() && r.Promise == mine {
			r.startFounding(max(c.cfg.Shards, 1))
		}
		return nil
	})
	return "this node has stood back for another", err
}

func (c *Cluster) answerPromise(_ context.Context, from transport.Peer, q promise) promiseAnswer {
	if from.ID != q.To {
		return promiseAnswer{verdict: refuse(api.Forbidden, "node %q asks for itself alone", from.ID)}
	}
	err := c.change(func(r *record) error { return r.consider(q) })
	if err != nil {
		return promiseAnswer{verdict: retryLaterFor(err)}
	}
	return promiseAnswer{Round: q.Round}
}

// joinError is a failed attempt to join. final says that every later attempt fails too.
type joinError struct {
	error
	final bool
}

func (a *joinError) Unwrap() error { return a.error }

// join asks at the addresses in turn until one of the members lets this node join. It returns an error if all
// of them refuse finally, if another process keeps holding this node's ID, or if this node's own disk fails.
func (c *Cluster) join(ctx context.Context, addresses []string) (why string, err error) {
	var refusals, all []error
	for _, address := range addresses {
		if address == c.wire.Address() || ctx.Err() != nil {
			continue
		}
		var failed *joinError
		switch err := c.joinAt(ctx, address); {
		case err == nil:
			return "", nil
		case !errors.As(err, &failed):
			return "", err
		case failed.final:
			refusals = append(refusals, fmt.Errorf("%s: %w", address, failed.error))
			fallthrough
		default:
			all = append(all, fmt.Errorf("%s: %w", address, failed.error))
		}
	}
	if len(all) == 0 {
		return "no address to join at is another node's", nil
	}
	if len(refusals) == len(all) {
		return "", errors.Join(refusals...)
	}
	return errors.Join(all...).Error(), nil
}

// joinAt asks the member at an address to describe the cluster and to free this node's ID. It records the
// answer, and this node is then joining.
func (c *Cluster) joinAt(ctx context.Context, address string) error {
	begun := time.Now()
	q := joinRequest{Address: c.wire.Address(), Level: c.cfg.Level, Version: c.cfg.Version}
	a, err := ask[joinAnswer](ctx, c.wire, transport.Peer{Address: address}, kindJoin, q, joinLimit)
	switch {
	case cause(err, api.Unauthorized) != nil:
		return &joinError{error: cause(err, api.Unauthorized), final: true}
	case conflict(err) != nil:
		return c.idTaken(conflict(err))
	case err != nil:
		if !transport.Unsent(err) {
			// The member may still be removing an earlier node with this node's ID, and must not do so after
			// it has added this one. So wait until the member has given up. Twice the limit is enough,
			// because the member's limit begins when the request arrives.
			sleep(ctx, time.Until(begun.Add(2*joinLimit)))
		}
		return &joinError{error: err}
	case a.Code != "":
		if a.Held {
			return c.idTaken(a.err())
		}
		return &joinError{error: a.err(), final: a.Final}
	case c.cfg.Shards != 0 && c.cfg.Shards != len(a.Groups):
		return &joinError{error: api.Errorf(api.Conflict, "the cluster has %d shards, not %d: leave --shards out where a node joins", len(a.Groups), c.cfg.Shards), final: true}
	}
	err = c.change(func(r *record) error {
		if r.inCluster() {
			return nil // joined in another way in the meantime
		}
		r.Phase, r.Cluster, r.Shards, r.Groups = joining, a.Cluster, len(a.Groups), a.Groups
		r.Members = maps.Clone(a.Members)
		r.Known = maps.Clone(a.Known)
		return nil
	})
	if err != nil {
		return err
	}
	c.publishKeys()
	return nil
}

// cause returns the innermost *api.Error with the given code in err, or nil if there is none. The outer ones
// add the transport's general advice, such as to try again.
func cause(err error, code api.Code) (found *api.Error) {
	var e *api.Error
	for errors.As(err, &e) {
		if e.Code == code {
			found = e
		}
		err = errors.Unwrap(e)
	}
	return found
}

// conflict returns the CONFLICT of a refused connection, if another process uses the ID of one of the two
// nodes. It returns nil for every other error.
func conflict(err error) error {
	if e := cause(err, api.Conflict); e != nil && errors.Is(err, transport.ErrRefused) {
		return e
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (c *Cluster) answerInvite(_ context.Context, from transport.Peer, q inviteRequest) verdict {
	switch r := c.current(); {
	case r.Cluster == q.Cluster:
		return verdict{}
	case r.inCluster():
		return refuse(api.Conflict, "node %q is a member of another cluster: to move it, remove it there and start it in an empty directory", r.NodeID)
	}
	select {
	case c.invited <- q.Address:
		c.cfg.Logger.Info("the node was invited to a cluster", "node", from.ID, "address", q.Address)
	default: // another invitation is in progress or queued
	}
	return verdict{}
}
