package gateway

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api/fleet"
)

// hintEvery is the least time between two hints that the gateway follows for a namespace. During an election two hosts
// may each name the other as the leader. Without a limit the requests would change from one to the other each time.
const hintEvery = time.Second

// firstMembers remembers, for each namespace of several members, the member that gets requests first: the one that a
// host has named as the leader, or else the last one that answered. It has no namespace that the directory does not
// have open.
type firstMembers struct{ of sync.Map } // namespace -> firstMember

// firstMember is the member that gets a namespace's requests first.
type firstMember struct {
	store  string
	hinted time.Time // when the gateway followed the last hint; zero = never
}

// get returns the first member of a namespace; the zero firstMember = none is known.
func (f *firstMembers) get(namespace string) firstMember {
	known, _ := f.of.Load(namespace)
	first, _ := known.(firstMember)
	return first
}

// put makes a store the first member of a namespace, unless another request has changed the first member meanwhile.
func (f *firstMembers) put(namespace string, was firstMember, store string, hinted time.Time) {
	now := firstMember{store, hinted}
	if was == (firstMember{}) {
		f.of.LoadOrStore(namespace, now)
		return
	}
	f.of.CompareAndSwap(namespace, was, now)
}

// take forgets the first member of a namespace that is not open, or that it is no member of any more.
func (f *firstMembers) take(d fleet.Doc) {
	if first := f.get(d.Namespace); d.Desired != fleet.Open || !isMember(d.Members, first.store) {
		f.of.Delete(d.Namespace)
	}
}

func isMember(all []fleet.GroupMember, store string) bool {
	return slices.ContainsFunc(all, func(m fleet.GroupMember) bool { return m.Store == store })
}

// learn chooses the first member for later requests of a namespace by the response of a host. It follows the host's
// hint, at most once in hintEvery. If the host refused the request and gave no hint, the next member of the list comes
// first. If the host served a request that the first member did not take, it becomes the first member.
func (g *Gateway) learn(t *proxiedRequest, leader string, refused bool) {
	if len(t.members) < 2 {
		return
	}
	first := g.first.get(t.namespace)
	store, hinted := t.store, first.hinted
	switch {
	case leader != "" && leader != t.store && isMember(t.members, leader):
		if now := g.config.Now(); now.Sub(hinted) >= hintEvery {
			store, hinted = leader, now
		} else {
			store = first.store
		}
	case refused:
		if first.store != "" && first.store != t.store {
			return
		}
		at := slices.IndexFunc(t.members, func(m fleet.GroupMember) bool { return m.Store == t.store })
		store = t.members[(at+1)%len(t.members)].Store
	case first != t.first: // another request has learned more since this one was sent
		return
	}
	if store == first.store {
		return
	}
	g.first.put(t.namespace, first, store, hinted)
	// A document may have closed the namespace after this request began, and take has then run before put.
	if d, _ := g.directory.Namespace(t.namespace); d.Desired != fleet.Open {
		g.first.of.Delete(t.namespace)
	}
}

// The ranks of members, by which choose selects one.
const (
	rankFirst   = iota // see firstMembers
	rankMember         // in the order of the list
	rankLeaving        // it may have left the namespace before the document says so
	rankAway           // added for a member that is away
)

// choose selects the member that a request is sent to next, among those that it was not sent to in this round. It
// returns false if none is left. A member whose address is no URL counts as absent.
func (g *Gateway) choose(t *proxiedRequest, d *fleet.Doc) bool {
	t.members, t.first = d.Members, firstMember{}
	if len(d.Members) > 1 {
		t.first = g.first.get(d.Namespace)
	}
	var best *fleet.GroupMember
	var target, lost *url.URL
	least := 2 * rankAway
	for i := range d.Members {
		m := &d.Members[i]
		if slices.Contains(t.tried, m.Store) {
			continue
		}
		at := g.targetOf(m.URL)
		if at == nil {
			continue
		}
		rank := rankMember
		switch {
		case m.Store == t.first.store:
			rank = rankFirst
		case m.Role == fleet.Leaving:
			rank = rankLeaving
		}
		if g.away.has(at) {
			if rank == rankFirst {
				lost = at
			}
			rank += rankAway
		}
		if rank < least {
			best, target, least = m, at, rank
		}
	}
	if best == nil {
		return false
	}
	t.target, t.host, t.store = target, best.Host, best.Store
	if lost != nil && lost != target {
		g.lookFor(t, lost)
	}
	return true
}

// lookFor probes the first member, which is away, in the background, because another member serves the request
// meanwhile.
func (g *Gateway) lookFor(t *proxiedRequest, target *url.URL) {
	done := g.away.begin(target)
	if done == nil {
		return
	}
	at := slices.IndexFunc(t.members, func(m fleet.GroupMember) bool { return m.Store == t.first.store })
	to := peer{t.members[at].Host, t.first.store}
	g.probes.Go(func() { done(answers(context.Background(), g.transport, to, target)) })
}

// targetOf returns a base URL of a host, from a cache by address. It returns nil for an address that is not an http or
// https URL.
func (g *Gateway) targetOf(address string) *url.URL {
	if u, ok := g.targets.Load(address); ok {
		return u.(*url.URL)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil
	}
	known, _ := g.targets.LoadOrStore(address, u) // one for each address, because awayHosts compares them
	return known.(*url.URL)
}
