package sim

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// progress holds the numbers of a store that must never fall, and the active jobs by queue.
type progress struct {
	index, numbers, feedFirst, feedNext, usageFirst, usageNext uint64
	clockNs                                                    int64
	level                                                      uint32
	active                                                     map[string]limited
}

// limited holds the number of a queue's active jobs and their limit.
type limited struct {
	active, most uint64
}

// advance compares a store with its earlier numbers and returns the new ones. It does not check the limits of
// retuned queues, because their limits in between are unknown.
func (p progress) advance(v *state.Snapshot, retuned map[string]bool) (progress, error) {
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
		// A lowered limit does not end jobs that are active already.
		if known && !retuned[q.GetName()] && before.most == l.most && l.most > 0 && l.active > max(l.most, before.active) {
			return now, fmt.Errorf("queue %s has %d active jobs, at most %d may be", q.GetName(), l.active, l.most)
		}
		now.active[q.GetName()] = l
	}
	return now, nil
}

// inspect checks every invariant of a shard that holds after each step.
func (sh *shard) inspect() error {
	steady := sh.steady.store.Snapshot()
	defer steady.Close()
	if err := steady.Check(); err != nil {
		return fmt.Errorf("derived keys: %w", err)
	}
	var err error
	if sh.seen, err = sh.seen.advance(steady, sh.retuned); err != nil {
		return err
	}
	clear(sh.retuned)
	if err := sh.model.compare(steady); err != nil {
		return fmt.Errorf("store and model: %w", err)
	}
	if err := sh.inspectKeys(steady); err != nil {
		return err
	}
	if err := sh.inspectFetchable(); err != nil {
		return err
	}
	if err := sh.compareOutboxes(); err != nil {
		return fmt.Errorf("store and model: %w", err)
	}
	if err := errors.Join(sh.compareDeliveries(steady), sh.compareBulks(steady)); err != nil {
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

// hear records an answer as a client does: a job that the shard has acknowledged must exist from then on. It
// also records that a queue's settings may have changed.
func (sh *shard) hear(o op.Op, result any) {
	switch o := o.(type) {
	case *op.SetQueue:
		sh.retuned[o.GetQueue()] = true
	case *op.DeleteQueue:
		sh.retuned[o.GetQueue()] = true
	}
	sh.model.told.hearOfDeliveries(result)
	if enqueued, ok := result.(*op.EnqueueResult); ok {
		for _, j := range enqueued.GetJobs() {
			// The answer may name a job that does not exist: a repeat of an op names a job by its own id even
			// if the job was never created, because another job held its key then and has released it since.
			// A remembered answer may name a job that was removed.
			if id := job.ID(j.GetId()); sh.model.jobs[id] != nil {
				sh.acked[id] = true
			}
		}
	}
}

// inspectPlaces checks that each job that a client knows is in exactly one place, in a shard or on its way
// between two, unless it was removed for good. All other jobs must be in the places where the models have
// them.
func (s *simulation) inspectPlaces() error {
	places, should := map[job.ID]int{}, map[job.ID]int{}
	for _, sh := range s.shards {
		if err := sh.countPlaces(places); err != nil {
			return fmt.Errorf("shard %d: %w", sh.number, err)
		}
		sh.model.countPlaces(should)
	}
	// A client's job is in one place.
	for id := range s.acked {
		if n := places[id]; n != 1 && !(n == 0 && s.ledger.gone[id]) {
			return fmt.Errorf("job %s is in %d places", id, n)
		}
	}
	// All jobs are where the models have them.
	for id, n := range should {
		if places[id] != n || n != 1 && !s.ledger.byRuns[id] {
			return fmt.Errorf("job %s is in %d places, in the model in %d", id, places[id], n)
		}
		delete(places, id)
	}
	for id := range places {
		return fmt.Errorf("job %s is there, in the model it is not", id)
	}
	return nil
}

// countPlaces counts the places of each job in the model.
func (m *model) countPlaces(places map[job.ID]int) {
	for id := range m.jobs {
		places[id]++
	}
	for _, to := range m.shards {
		for _, t := range m.underway(to) {
			if t.job != nil {
				places[*t.job]++
			}
		}
	}
}

func (sh *shard) countPlaces(places map[job.ID]int) error {
	v := sh.steady.store.Snapshot()
	defer v.Close()
	for j, err := range v.Jobs() {
		if err != nil {
			return err
		}
		places[job.ID(j.GetId())]++
		if err := sh.ledger.isStep(j); err != nil {
			return err
		}
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
			ids, err := sentJobs(entry.Op{Number: entry.Number(row.Op.GetNumber()), Bytes: row.Op.GetOp()})
			if err != nil {
				return fmt.Errorf("op %d on its way to shard %d: %w", row.Seq, to.number, err)
			}
			for _, id := range ids {
				places[job.ID(id)]++
			}
		}
	}
	return nil
}

// sentJobs returns the jobs that an op between shards carries or will create.
func sentJobs(framed entry.Op) ([][]byte, error) {
	o, err := op.Decode(framed)
	if err != nil {
		return nil, err
	}
	switch o := o.(type) {
	case *op.Arrive:
		return [][]byte{o.GetJob().GetId()}, nil
	case *op.CreateJobs:
		return o.GetMeta().GetIds(), nil
	}
	return nil, nil
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

// balance checks that the sum of all accepted usage reports equals the sum of the usage of all jobs. It adds
// up all shards and the removed jobs, because a job takes its usage along when it moves.
func (s *simulation) balance() error {
	var reported, used modelUsage
	used.sum(s.ledger.used.tokens, s.ledger.used.costNano)
	for _, sh := range s.shards {
		if err := sh.model.balanceMeters(); err != nil {
			return err
		}
		for _, row := range sh.model.usage {
			if row.rejected == "" {
				reported.sum(row.tokens, row.costNano)
			}
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

// pull turns the iteration over a snapshot's pairs into a function.
func pull(v *state.Snapshot) (next func() (state.KV, error, bool), stop func()) {
	return iter.Pull2(v.All())
}
