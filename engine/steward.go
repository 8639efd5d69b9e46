package engine

import (
	"context"
	"sync"
	"time"

	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
)

const (
	// stewardTick is how often a leader with other members looks after its group.
	stewardTick = time.Second
	// silentAfter is how long a member has not answered before that is worth a line
	// in the log.
	silentAfter = 5 * time.Second
	// maxLearnerLag is how many entries a learner may be behind and still keep up.
	maxLearnerLag = 512
)

// watch is what a leader knows of another member since it leads.
type watch struct {
	heard  time.Time // when it answered last; zero = never
	silent time.Time // since when it has not answered; zero = it does
	steady time.Time // since when it keeps up; zero = it does not
	stands standing
	lag    uint64 // how many entries of the leader's log it had not got then
	told   bool   // its silence is in the log
}

// watches is what a leader knows of all of them.
type watches struct {
	mu   sync.Mutex
	all  map[string]watch
	term uint64
}

// of is what is known of a member that has been heard of.
func (w *watches) of(id string) (watch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of, ok := w.all[id]
	return of, ok && !of.heard.IsZero()
}

// copy is all that is known now.
func (w *watches) copy() map[string]watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]watch, len(w.all))
	for id, of := range w.all {
		all[id] = of
	}
	return all
}

// note takes what a member has answered, or that it has not, in a term whose
// leader's log ended at last.
func (w *watches) note(id string, term, last uint64, s standing, err error) watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.term != term || w.all == nil { // another leadership: what was known is old
		w.all, w.term = map[string]watch{}, term
	}
	now, of := time.Now(), w.all[id]
	switch {
	case err != nil:
		of.steady = time.Time{}
		if of.silent.IsZero() {
			of.silent = now
		}
	default:
		of.heard, of.silent, of.stands, of.lag = now, time.Time{}, s, last-min(last, s.last)
		if of.lag > maxLearnerLag {
			of.steady = time.Time{}
		} else if of.steady.IsZero() {
			of.steady = now
		}
	}
	w.all[id] = of
	return of
}

// forget leaves only those that are members.
func (w *watches) forget(members []replica.Peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := make(map[string]watch, len(members))
	for _, p := range members {
		if of, ok := w.all[p.ID]; ok {
			kept[p.ID] = of
		}
	}
	w.all = kept
}

func (w *watches) tell(id string, told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.all[id]
	of.told = told
	w.all[id] = of
}

// steward looks after the group while this node leads it: who answers, where
// members are, whether its clock is right, and who should have a vote. Without
// other members it sleeps until there are some.
func (g *Group) steward(ctx context.Context, term *pipeline.Pipeline) {
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
		g.readdress()
		var tick <-chan time.Time
		if members := g.replica.Members(); len(members) > 1 {
			g.probe(ctx)
			g.watches.forget(members)
			g.checkClock(ctx, &skew)
			g.pilot(ctx)
			tick, changed = time.After(stewardTick), nil
		}
		select {
		case <-tick:
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// probe asks all other members where they stand.
func (g *Group) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stewardTick)
	defer cancel()
	term, last := g.replica.Term(), g.replica.Last()
	var asking sync.WaitGroup
	for _, p := range g.replica.Members() {
		if p.ID == g.identity.NodeID {
			continue
		}
		asking.Go(func() {
			s, err := g.ask(ctx, p)
			of := g.watches.note(p.ID, term, last, s, err)
			log := g.config.Logger.With("group", g.identity.Group, "member", p.ID)
			switch {
			case err != nil && !of.told && time.Since(of.silent) >= silentAfter:
				log.Warn("a member does not answer", "error", err)
				g.watches.tell(p.ID, true)
			case err == nil && of.told:
				log.Info("a member answers again")
				g.watches.tell(p.ID, false)
			}
		})
	}
	asking.Wait()
}

// alive says whether a member answered when it was asked last.
func (g *Group) alive(id string) bool {
	if id == g.identity.NodeID {
		return true
	}
	w, heard := g.watches.of(id)
	return heard && w.silent.IsZero()
}

// readdress tells the group where members are now: a member finds the others by
// it when it has never met them.
func (g *Group) readdress() {
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
			g.config.Logger.Info("a member's new address could not be recorded: it is tried again", "group", g.identity.Group, "member", p.ID, "address", now, "error", err)
			return
		}
		g.config.Logger.Info("a member has moved", "group", g.identity.Group, "member", p.ID, "from", before, "to", now)
		return // the next with the configuration that this has made
	}
}
