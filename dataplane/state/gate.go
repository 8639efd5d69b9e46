package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/corvo/corvo/dataplane/job"
)

// A gate keeps pending jobs from being fetched for a reason outside their queue: the limits of a provider, or
// a budget without room. Its jobs lie in an index of their own and not among the ready jobs of their queue,
// so that the queue's other jobs are fetched as usual and a fetch does not examine the kept ones again and
// again. The store does not know the conditions that open a gate. It notes when something has happened that
// may open a gate, and a duty examines that gate.

// Gate describes a gate with waiting jobs, as of the last commit.
type Gate struct {
	Kind job.Gate
	Name string
	Jobs uint64
	// Changes has a new value after every commit that may have opened the gate or brought a job to it.
	Changes uint64
}

// gateName identifies a gate. The zero gateName is no gate.
type gateName struct {
	kind job.Gate
	name string
}

// gateOf returns the gate that a job waits at, or the zero gateName.
func gateOf(j *job.Job) gateName {
	if j.State != job.Pending || j.Detail.GetGate() == job.Gate_GATE_NONE {
		return gateName{}
	}
	return gateName{j.Detail.Gate, j.Detail.GateName}
}

// gates is the set of gates with waiting jobs. It lies only in memory: it derives from the index, and apply
// does not depend on it.
type gates struct {
	all       map[gateName]*Gate
	changes   uint64 // counts over all gates, so that a gate that comes back has a new number
	changed   bool   // by the running entry
	published atomic.Pointer[[]Gate]
}

// Gates returns the gates with waiting jobs, sorted by kind and name. The caller must not change them.
func (s *Store) Gates() []Gate {
	if all := s.gates.published.Load(); all != nil {
		return *all
	}
	return nil
}

// move takes a job from one gate to another; the zero gateName is none.
func (g *gates) move(from, to gateName) error {
	if from == to {
		return nil
	}
	if from.kind != job.Gate_GATE_NONE {
		at := g.all[from]
		if at == nil {
			return fmt.Errorf("nobody waits at gate %d of %q, and a job leaves it", from.kind, from.name)
		}
		if at.Jobs--; at.Jobs == 0 {
			delete(g.all, from)
		}
		g.changed = true
	}
	if to.kind != job.Gate_GATE_NONE {
		at := g.all[to]
		if at == nil {
			at = &Gate{Kind: to.kind, Name: to.name}
			g.all[to] = at
		}
		at.Jobs++
		g.mark(to)
	}
	return nil
}

// mark notes that a gate may have opened, if jobs wait at it.
func (g *gates) mark(name gateName) {
	if at := g.all[name]; at != nil {
		g.changes++
		at.Changes, g.changed = g.changes, true
	}
}

// markAll notes that any gate may have opened.
func (g *gates) markAll() {
	g.changes++
	for _, at := range g.all {
		at.Changes, g.changed = g.changes, true
	}
}

// install replaces the gates by those read from the store.
func (g *gates) install(all map[gateName]*Gate) {
	g.all = all
	g.markAll()
	g.publish()
}

// publish makes the current gates visible to readers.
func (g *gates) publish() {
	g.changed = false
	list := make([]Gate, 0, len(g.all))
	for _, at := range g.all {
		list = append(list, *at)
	}
	slices.SortFunc(list, func(a, b Gate) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	g.published.Store(&list)
}

// markGates marks the gates that the entry may have opened: those of a provider or budget whose record
// changed, or all of them if a resource or a queue's settings changed. It costs nothing while no job waits at
// any gate.
func (tx *Tx) markGates() {
	g := &tx.s.gates
	if len(g.all) == 0 {
		return
	}
	if tx.resourcesPut || tx.opensGates {
		g.markAll()
		return
	}
	for _, r := range tx.traffic.order {
		if by := tx.ResourceIndex().ResourceByID(r.id); r.dirty && by != nil {
			g.mark(gateName{job.Gate_GATE_PROVIDER, by.Name})
		}
	}
	for _, r := range tx.accounts.order {
		if by := tx.ResourceIndex().ResourceByID(r.id); r.dirty && by != nil {
			g.mark(gateName{job.Gate_GATE_BUDGET, by.Name})
		}
	}
}

// moveGate updates the gates and the queue's count of gated jobs when a job changes.
func (tx *Tx) moveGate(h *entryJob, to index) error {
	was := h.now
	if was.gate == (gateName{}) && to.gate == (gateName{}) {
		return nil
	}
	rec := h.queue.rec
	if was.gate.kind != job.Gate_GATE_NONE {
		if rec.Gated == 0 {
			return fmt.Errorf("queue %q counts no jobs at gates and one of them changes", rec.Name)
		}
		rec.Gated--
	}
	if to.gate.kind != job.Gate_GATE_NONE {
		rec.Gated++
	}
	tx.touch(h.queue)
	return tx.s.gates.move(was.gate, to.gate)
}

// encodeGate moves the key of a job at a gate.
func (tx *Tx) encodeGate(was, is index, id job.ID) error {
	if was.gate == is.gate && (is.gate == gateName{} || was.priority == is.priority && was.number == is.number) {
		return nil
	}
	if was.gate.kind != job.Gate_GATE_NONE {
		tx.key = appendGateKey(tx.key[:0], was.gate, was.priority, was.number)
		if err := tx.batch.SingleDelete(tx.key, nil); err != nil {
			return err
		}
	}
	if is.gate.kind != job.Gate_GATE_NONE {
		tx.key = appendGateKey(tx.key[:0], is.gate, is.priority, is.number)
		return tx.batch.Set(tx.key, id[:], nil)
	}
	return nil
}

// AtGate returns up to limit jobs at a gate, or all of them if limit is 0, in order of (priority, number)
// over all queues, so that within a priority the jobs enqueued first come first.
func (v *Snapshot) AtGate(kind job.Gate, name string, limit int) ([]job.ID, error) {
	return v.AtGateFrom(kind, name, 0, 0, limit)
}

// AtGateFrom is AtGate from the place (priority, number) on.
func (v *Snapshot) AtGateFrom(kind job.Gate, name string, priority uint8, number uint64, limit int) ([]job.ID, error) {
	g := gateName{kind, name}
	var ids []job.ID
	for kv, err := range scanPairs(v.snap, appendGateKey(nil, g, priority, number), appendGateKey(nil, g, job.Priorities, 0)) {
		if err != nil {
			return nil, err
		}
		id, err := job.IDFromBytes(kv.Value)
		if err != nil {
			return nil, fmt.Errorf("key %x: %w", kv.Key, err)
		}
		if ids = append(ids, id); len(ids) == limit {
			break
		}
	}
	return ids, nil
}

// BeforeAtGate returns the number of jobs that wait before j at its gate, or `most` if there are more.
func (v *Snapshot) BeforeAtGate(j *job.Job, most int) (int, error) {
	g := gateOf(j)
	return countKeys(v.snap, appendGateKey(nil, g, 0, 0), appendGateKey(nil, g, uint8(j.Priority), j.Number), most)
}

// countKeys returns the number of keys between two keys, or `most` if there are more.
func countKeys(r source, lower, upper []byte, most int) (n int, err error) {
	for _, err := range scanKeys(r, lower, upper) {
		if err != nil || n == most {
			return n, err
		}
		n++
	}
	return n, nil
}

// loadGates counts the jobs at each gate.
func loadGates(r source) (map[gateName]*Gate, error) {
	all := map[gateName]*Gate{}
	for key, err := range scanKeys(r, []byte{prefixGate}, afterPrefix(prefixGate)) {
		if err != nil {
			return nil, err
		}
		name, err := decodeGateKey(key)
		if err != nil {
			return nil, err
		}
		if all[name] == nil {
			all[name] = &Gate{Kind: name.kind, Name: name.name}
		}
		all[name].Jobs++
	}
	return all, nil
}

// BeforeReady returns the number of ready jobs that come before j by priority and number in j's queue and
// fairness key, or `most` if there are more.
func (v *Snapshot) BeforeReady(j *job.Job, most int) (int, error) {
	key := j.FairnessKey
	return countKeys(v.snap, appendReadyOf(nil, j.Queue, key, 0, 0), appendReadyOf(nil, j.Queue, key, uint8(j.Priority), j.Number), most)
}
