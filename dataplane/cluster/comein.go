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
	// comeInEvery is how long a node that looks for its cluster rests between tries.
	comeInEvery = 500 * time.Millisecond
	// sayEvery is how often it says again what it waits for.
	sayEvery = 15 * time.Second
)

// comeIn makes a directory that is in no cluster part of one.
func (c *Cluster) comeIn(ctx context.Context) error {
	if c.cfg.Bootstrap {
		return c.foundAlone()
	}
	try := func(ctx context.Context) (string, error) { return "waiting to be invited", nil }
	switch {
	case c.cfg.Find != nil:
		try = c.seek
	case len(c.cfg.Join) > 0:
		try = func(ctx context.Context) (string, error) { return c.knock(ctx, c.cfg.Join) }
	}
	last := ""
	for {
		why, err := try(ctx)
		switch {
		case err != nil:
			return err
		case c.in():
			return nil
		case ctx.Err() != nil:
			return notIn(ctx, cmp.Or(last, why)) // a try that was cut short found no reason but that
		}
		last = why
		c.progress.say(why)
		select {
		case address := <-c.invited:
			if why, err = c.follow(ctx, address); err != nil {
				return err
			}
			if c.in() {
				return nil
			}
			c.cfg.Logger.Warn("could not join the cluster this node was invited to", "address", address, "why", why)
		case <-ctx.Done():
			return notIn(ctx, why)
		case <-time.After(comeInEvery):
		}
	}
}

func notIn(ctx context.Context, why string) error {
	return api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "this node is in no cluster yet: "+why)
}

func (c *Cluster) in() bool { r := c.is(); return r.inCluster() }

// progress says what is the matter, when that changes and now and then.
type progress struct {
	log  func(why string)
	mu   sync.Mutex
	last string
	at   time.Time
}

func (p *progress) say(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); why != p.last || now.Sub(p.at) > sayEvery {
		p.last, p.at = why, now
		p.log(why)
	}
}

// foundAlone founds a cluster of this node, unless it has promised another to let
// it found one.
func (c *Cluster) foundAlone() error {
	return c.change(func(r *record) error {
		if r.Promise.To != "" && !r.stands() {
			return api.Errorf(api.Conflict, "this node has promised %q to let it found the cluster: join that one, or, if it is gone for good and has founded none, delete %s", r.Promise.To, recordName)
		}
		r.found(max(c.cfg.Shards, 1))
		return nil
	})
}

// seek looks at all nodes of the set once, and does what is to be done. It answers
// what is waited for; there is no error that a set may not grow out of.
func (c *Cluster) seek(ctx context.Context) (why string, err error) {
	addresses, err := c.cfg.Find.Addresses(ctx)
	if err != nil {
		return fmt.Sprintf("the addresses of the nodes are not known: %v", err), nil
	}
	heard, silent, taken := c.survey(ctx, addresses)
	if taken != nil {
		var vain *attempt
		if err := c.heldBy(taken); !errors.As(err, &vain) {
			return "", err
		}
	}
	r := c.is()
	p := r.plan(heard, c.cfg.Find.Expect)
	switch {
	case p.err != nil:
		c.cfg.Logger.Error("the nodes cannot form a cluster", "error", p.err)
		return p.err.Error(), nil
	case p.join != nil:
		return c.follow(ctx, p.join.Address)
	case p.release:
		return "the node that was to found the cluster is not standing any more", c.change(func(r *record) error {
			if i := slices.IndexFunc(heard, func(h hello) bool { return r.over(&h) }); i >= 0 {
				r.promised(promise{})
			}
			return nil
		})
	case p.stand:
		return c.found(ctx, p.others)
	case len(silent) > 0:
		return p.why + "; " + strings.Join(silent, "; "), nil
	}
	return p.why, nil
}

// follow is knock where a refusal is no reason to give up: the set may grow out of
// it, or another invitation come.
func (c *Cluster) follow(ctx context.Context, address string) (why string, err error) {
	err = c.knockAt(ctx, address)
	var vain *attempt
	if errors.As(err, &vain) {
		return fmt.Sprintf("%s: %v", address, vain.error), nil
	}
	return "", err
}

// survey asks at all addresses at once who is there. silent says who did not
// answer, and why; taken is the refusal of a process with this node's ID.
func (c *Cluster) survey(ctx context.Context, addresses []string) (heard []hello, silent []string, taken error) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, address := range addresses {
		if address == c.wire.Address() {
			continue
		}
		asking.Go(func() {
			h, err := ask[hello](ctx, c.wire, transport.Peer{Address: address}, kindHello, c.about(c.is()), callLimit)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, fmt.Sprintf("%s: %v", address, err))
				taken = cmp.Or(taken, conflict(err))
				return
			}
			h.Address = address // that it is reached under
			heard = append(heard, h)
		})
	}
	asking.Wait()
	slices.Sort(silent)
	return heard, silent, taken
}

// found asks all others to let this node found the cluster, and does so when all
// have promised that.
func (c *Cluster) found(ctx context.Context, others []hello) (why string, err error) {
	var mine promise
	var late error
	err = c.change(func(r *record) error {
		late = r.stand()
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
		// It may have stood back meanwhile, or been taken in by a cluster.
		if !r.inCluster() && r.Promise == mine {
			r.found(max(c.cfg.Shards, 1))
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
		return promiseAnswer{verdict: because(err)}
	}
	return promiseAnswer{Round: q.Round}
}

// attempt is a knock that was in vain; final says that another will be too.
type attempt struct {
	error
	final bool
}

func (a *attempt) Unwrap() error { return a.error }

// knock asks at the addresses, one after another, to be taken in. Its error is
// that all of them refuse for good, or one of this node's own disk.
func (c *Cluster) knock(ctx context.Context, addresses []string) (why string, err error) {
	var refusals, all []error
	for _, address := range addresses {
		if address == c.wire.Address() || ctx.Err() != nil {
			continue
		}
		var vain *attempt
		switch err := c.knockAt(ctx, address); {
		case err == nil:
			return "", nil
		case !errors.As(err, &vain):
			return "", err
		case vain.final:
			refusals = append(refusals, fmt.Errorf("%s: %w", address, vain.error))
			fallthrough
		default:
			all = append(all, fmt.Errorf("%s: %w", address, vain.error))
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

// knockAt asks one member.
func (c *Cluster) knockAt(ctx context.Context, address string) error {
	begun := time.Now()
	q := joinRequest{Address: c.wire.Address(), Level: c.cfg.Level, Version: c.cfg.Version}
	a, err := ask[joinAnswer](ctx, c.wire, transport.Peer{Address: address}, kindJoin, q, joinLimit)
	switch {
	case cause(err, api.Unauthorized) != nil:
		return &attempt{error: cause(err, api.Unauthorized), final: true}
	case conflict(err) != nil:
		return c.heldBy(conflict(err))
	case err != nil:
		if !transport.Unsent(err) {
			// The member may still be removing an earlier node of our name. It must not
			// do that to us: wait until it has stopped trying. It counts from when it got
			// the request, hence twice as long.
			sleep(ctx, time.Until(begun.Add(2*joinLimit)))
		}
		return &attempt{error: err}
	case a.Code != "":
		if a.Held {
			return c.heldBy(a.err())
		}
		return &attempt{error: a.err(), final: a.Final}
	case c.cfg.Shards != 0 && c.cfg.Shards != len(a.Groups):
		return &attempt{error: api.Errorf(api.Conflict, "the cluster has %d shards, not %d: leave --shards out where a node joins", len(a.Groups), c.cfg.Shards), final: true}
	}
	err = c.change(func(r *record) error {
		if r.inCluster() {
			return nil // by another way, meanwhile
		}
		r.Phase, r.Cluster, r.Shards, r.Groups = joining, a.Cluster, len(a.Groups), a.Groups
		r.Members = maps.Clone(a.Members)
		r.Known = maps.Clone(a.Known)
		return nil
	})
	if err != nil {
		return err
	}
	c.tellKeys()
	return nil
}

// cause is the refusal of a code that made a call fail, without what the transport
// says of calls in general, such as to try again; nil = it failed otherwise.
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

// conflict is the refusal of a peer that is known under this node's ID, or as
// whom another process answers.
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
	switch r := c.is(); {
	case r.Cluster == q.Cluster:
		return verdict{}
	case r.inCluster():
		return refuse(api.Conflict, "node %q is a member of another cluster: to move it, remove it there and start it in an empty directory", r.NodeID)
	}
	select {
	case c.invited <- q.Address:
		c.cfg.Logger.Info("invited to a cluster", "by", from.ID, "address", q.Address)
	default: // one invitation is being followed, or waits to be
	}
	return verdict{}
}
