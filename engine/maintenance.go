package engine

import (
	"context"
	"sync"
	"time"

	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
)

const (
	// maintainInterval is the pause between two rounds of a leader's maintenance, and the time limit of a
	// probe.
	maintainInterval = time.Second
	// learnerInterval is that pause while a listed learner catches up. It is short, because the learner often receives only
	// a small log.
	learnerInterval = 50 * time.Millisecond
	// silentAfter is how long a member must have been silent before the leader logs it.
	silentAfter = 5 * time.Second
	// maxLearnerLag is the most entries that a learner may lack and still count as keeping up.
	maxLearnerLag = 512
	// maxViewLag is the largest lag of a member's view behind the leader's view, in entries, that counts as
	// caught up. It is not 0, because under load each view follows in steps of its own.
	maxViewLag = 512
)

// contact records the leader's contact with another member in the present term.
type contact struct {
	lastSeen    time.Time // time of the last answer; zero = none yet
	silentSince time.Time // start of the present silence; zero = it answers
	steadySince time.Time // since when it keeps up; zero = it does not
	progress    progress
	term        uint64 // of the leader at the last answer
	lag         uint64 // entries of the leader's log that it lacked at the last answer
	log, view   bool   // its log and its view had caught up at the last answer
	logged      bool   // its silence was logged
}

// contacts holds the contact with every other member.
type contacts struct {
	mu   sync.Mutex
	all  map[string]contact
	term uint64
}

// get returns the contact with a member, and whether the member has answered yet.
func (w *contacts) get(id string) (contact, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of, ok := w.all[id]
	return of, ok && !of.lastSeen.IsZero()
}

// copy returns a copy of all contacts.
func (w *contacts) copy() map[string]contact {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]contact, len(w.all))
	for id, of := range w.all {
		all[id] = of
	}
	return all
}

// record records an answer of a member, or its failure to answer. own is the leader's progress before it asked.
func (w *contacts) record(id string, own, s progress, err error) contact {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.term != own.term || w.all == nil { // a new term of leadership: the old contacts do not count
		w.all, w.term = map[string]contact{}, own.term
	}
	now, of := time.Now(), w.all[id]
	switch {
	case err != nil:
		of.steadySince = time.Time{}
		if of.silentSince.IsZero() {
			of.silentSince = now
		}
	default:
		of.lastSeen, of.silentSince, of.progress, of.term = now, time.Time{}, s, own.term
		of.lag = own.last - min(own.last, s.last)
		of.log, of.view = s.holds(own.applied), s.sees(own)
		if of.lag > maxLearnerLag || s.joining {
			of.steadySince = time.Time{}
		} else if of.steadySince.IsZero() {
			of.steadySince = now
		}
	}
	w.all[id] = of
	return of
}

// holds reports whether a member with progress s has the entry at index in its log and may get a vote. A member that
// joins may have the entry and take no part in elections yet. The group could wait for its vote in vain.
func (s progress) holds(index uint64) bool { return s.last >= index && !s.joining }

// sees reports whether the view of a member with progress s has caught up with the leader's. The position of
// a view that is being built is 0.
func (s progress) sees(leader progress) bool {
	return leader.view-min(leader.view, s.view) <= maxViewLag && (s.view > 0 || leader.view == 0)
}

// retain drops the contacts of nodes that are no longer members.
func (w *contacts) retain(members []replica.Peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := make(map[string]contact, len(members))
	for _, p := range members {
		if of, ok := w.all[p.ID]; ok {
			kept[p.ID] = of
		}
	}
	w.all = kept
}

func (w *contacts) setLogged(id string, logged bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.all[id]
	of.logged = logged
	w.all[id] = of
}

// maintain runs while this node leads: it probes the members, updates their addresses, checks this host's
// clock and changes the configuration, towards the list of members or, without a list, by the autopilot. While the
// group has no other members and its list names none, maintain only watches for a change.
func (g *Group) maintain(ctx context.Context, term *pipeline.Pipeline) {
	select {
	case <-g.opened:
	case <-ctx.Done():
		return
	}
	select {
	case <-term.Started():
	case <-term.Done():
		return
	}
	var skew skew
	for {
		g.mu.Lock()
		changed := g.changed
		g.mu.Unlock()
		g.updateAddresses()
		list, listed := g.list()
		var tick <-chan time.Time
		pause := maintainInterval
		members := g.replica.Members()
		if len(members) > 1 {
			g.probe(ctx)
			g.contacts.retain(members)
			g.checkClock(ctx, &skew)
		}
		switch {
		case len(list) == 0:
			g.runAutopilot(ctx)
		case g.followList(ctx, list):
			continue // to the next change, without a pause
		case g.learns(members):
			pause = learnerInterval
		}
		if len(members) > 1 || len(list) > 1 {
			tick, changed = time.After(pause), nil
		}
		select {
		case <-tick:
		case <-listed:
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// probe asks all other members for their progress.
func (g *Group) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maintainInterval)
	defer cancel()
	own := progress{term: g.replica.Term(), last: g.replica.Last(), applied: g.replica.Applied().Index, view: g.view()}
	var asking sync.WaitGroup
	for _, p := range g.replica.Members() {
		if p.ID == g.identity.NodeID {
			continue
		}
		asking.Go(func() {
			s, err := g.ask(ctx, p)
			of := g.contacts.record(p.ID, own, s, err)
			log := g.config.Logger.With("group", g.identity.Group, "member", p.ID)
			switch {
			case err != nil && !of.logged && time.Since(of.silentSince) >= silentAfter:
				log.Warn("a member does not answer", "error", err)
				g.contacts.setLogged(p.ID, true)
			case err == nil && of.logged:
				log.Info("a member answers again")
				g.contacts.setLogged(p.ID, false)
			}
		})
	}
	asking.Wait()
}

// alive reports whether a member answered the last probe.
func (g *Group) alive(id string) bool {
	if id == g.identity.NodeID {
		return true
	}
	w, seen := g.contacts.get(id)
	return seen && w.silentSince.IsZero()
}

// updateAddresses records one member's changed address in the configuration, so that a member also finds
// others that it was never connected to.
func (g *Group) updateAddresses() {
	members, since := g.replica.AppliedMembers()
	for _, p := range members {
		now := g.config.Transport.AddressOf(p.ID)
		if p.ID == g.identity.NodeID {
			now = g.config.Transport.Address()
		}
		if now == "" || now == p.Address {
			continue
		}
		before := p.Address
		p.Address = now
		if err := g.replica.Put(p, since); err != nil {
			g.config.Logger.Info("a member's new address could not be recorded; the leader tries again", "group", g.identity.Group, "member", p.ID, "address", now, "error", err)
			return
		}
		g.config.Logger.Info("a member has a new address", "group", g.identity.Group, "member", p.ID, "old_address", before, "address", now)
		return // continue with the configuration that this change creates
	}
}
