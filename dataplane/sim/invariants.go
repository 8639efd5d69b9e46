package sim

import (
	"fmt"
	"io"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// progress is what of a store must never fall.
type progress struct {
	index, numbers, feedFirst, feedNext, usageFirst, usageNext uint64
	clockNs                                                    int64
	level                                                      uint32
	active                                                     map[string]limited
}

// limited is how many jobs of a queue were active, and how many might be.
type limited struct {
	active, most uint64
}

// advance moves on to what a store is now.
func (p progress) advance(v *state.Snapshot) (progress, error) {
	h := v.Head()
	now := progress{
		index: h.GetIndex(), numbers: h.GetNextJobNumber(), feedFirst: h.GetFeedFirstSeq(), feedNext: h.GetFeedNextSeq(),
		usageFirst: h.GetUsageFirstSeq(), usageNext: h.GetUsageNextSeq(), clockNs: h.GetClockNs(), level: h.GetFeatureLevel(),
		active: map[string]limited{},
	}
	if now.index < p.index || now.numbers < p.numbers || now.feedFirst < p.feedFirst || now.feedNext < p.feedNext ||
		now.usageFirst < p.usageFirst || now.usageNext < p.usageNext || now.clockNs < p.clockNs || now.level < p.level {
		return now, fmt.Errorf("the store went back: it was at %+v and is at %+v", p, now)
	}
	for q, err := range v.Queues() {
		if err != nil {
			return now, err
		}
		l := limited{q.GetInState()[job.Active], uint64(q.GetMaxConcurrency())}
		before, known := p.active[q.GetName()]
		// A limit that was lowered takes nothing from those who hold more.
		if known && before.most == l.most && l.most > 0 && l.active > max(l.most, before.active) {
			return now, fmt.Errorf("queue %s has %d active jobs, at most %d may be", q.GetName(), l.active, l.most)
		}
		now.active[q.GetName()] = l
	}
	return now, nil
}

// inspect checks every invariant of a shard that can be checked now.
func (sh *shard) inspect() error {
	steady := sh.steady.store.Snapshot()
	defer steady.Close()
	if err := steady.Check(); err != nil {
		return fmt.Errorf("derived keys: %w", err)
	}
	var err error
	if sh.seen, err = sh.seen.advance(steady); err != nil {
		return err
	}
	if err := sh.model.compare(steady); err != nil {
		return fmt.Errorf("store and model: %w", err)
	}
	if err := sh.compareOutboxes(); err != nil {
		return fmt.Errorf("store and model: %w", err)
	}
	if sh.troubled.index() != sh.steady.index() {
		return nil
	}
	troubled := sh.troubled.store.Snapshot()
	defer troubled.Close()
	if err := sameBytes(steady, troubled); err != nil {
		return fmt.Errorf("the replicas differ: %w", err)
	}
	return nil
}

// hear is what a client takes from an answer: a job that was enqueued is there
// from then on.
func (sh *shard) hear(o op.Op, result any) {
	if enqueued, ok := result.(*op.EnqueueResult); ok {
		for _, j := range enqueued.GetJobs() {
			sh.acked[job.ID(j.GetId())] = true
		}
	}
}

// inspectPlaces wants each job that a client knows of in exactly one place: in one
// shard, or on its way between two.
func (s *simulation) inspectPlaces() error {
	places := map[job.ID]int{}
	for _, sh := range s.shards {
		if err := sh.countPlaces(places); err != nil {
			return fmt.Errorf("shard %d: %w", sh.number, err)
		}
	}
	for id := range s.acked {
		if n := places[id]; n != 1 {
			return fmt.Errorf("job %s is in %d places", id, n)
		}
		delete(places, id)
	}
	for id := range places {
		return fmt.Errorf("job %s is there and was never enqueued", id)
	}
	return nil
}

func (sh *shard) countPlaces(places map[job.ID]int) error {
	v := sh.steady.store.Snapshot()
	defer v.Close()
	for j, err := range v.Jobs() {
		if err != nil {
			return err
		}
		places[job.ID(j.GetId())]++
	}
	for _, to := range sh.shards {
		if to == sh {
			continue
		}
		rows, err := sh.steady.store.Outgoing(to.number, to.model.inbox[sh.number]+1, 1<<20, 1<<40)
		if err != nil {
			return err
		}
		for _, row := range rows {
			sent := &op.Arrive{}
			if err := sent.UnmarshalVT(row.Op.GetOp()); err != nil {
				return fmt.Errorf("op %d on its way to shard %d: %w", row.Seq, to.number, err)
			}
			places[job.ID(sent.GetJob().GetId())]++
		}
	}
	return nil
}

// record writes a store's whole state.
func record(to io.Writer, store *state.Store) error {
	v := store.Snapshot()
	defer v.Close()
	for kv, err := range v.All() {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(to, "%x=%x\n", kv.Key, kv.Value); err != nil {
			return err
		}
	}
	return nil
}

// balance wants all that was ever reported to be what the jobs say they used:
// those of all shards together, since a job takes what it used along.
func (s *simulation) balance() error {
	var reported, used modelUsage
	for _, sh := range s.shards {
		for _, row := range sh.model.usage {
			reported.sum(row.tokens, row.costNano)
		}
		for _, j := range sh.model.jobs {
			used.sum(j.tokens, j.costNano)
		}
	}
	if used != reported {
		return fmt.Errorf("the jobs used %+v, the usage rows say %+v", used, reported)
	}
	return nil
}

// pull turns a snapshot's pairs into a function.
func pull(v *state.Snapshot) (next func() (state.KV, error, bool), stop func()) {
	return iter.Pull2(v.All())
}
