package sim

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ledger is what is known of all shards of a history together, and of jobs that are
// gone: it counts again what the shards count each for themselves.
type ledger struct {
	gone     map[job.ID]bool // removed for good
	used     modelUsage      // by those
	promised map[job.ID]bool // jobs that follow from others and are not there yet
	byRuns   map[job.ID]bool // jobs of schedules: a schedule made anew may run again
	members  map[job.ID]*tally
	bulks    map[string]*state.BulkCounts // what bulk operations have done, by their ids
	steps    map[chainStep]job.ID         // the job that each step of a chain is
	lives    map[job.ID]int               // how often the first job of its chain was made anew before
}

// tally is how members of a batch ended, each the first time.
type tally struct{ succeeded, failed, cancelled uint64 }

type chainStep struct {
	chain job.ID
	life  int
	step  int
}

func newLedger() *ledger {
	return &ledger{
		gone: map[job.ID]bool{}, promised: map[job.ID]bool{}, byRuns: map[job.ID]bool{},
		members: map[job.ID]*tally{}, bulks: map[string]*state.BulkCounts{}, steps: map[chainStep]job.ID{}, lives: map[job.ID]int{},
	}
}

func (l *ledger) removed(j *modelJob) {
	l.gone[j.id] = true
	l.used.sum(j.tokens, j.costNano)
}

// made notes a job that is born: maybe one that was removed, whose enqueue was
// repeated when nothing was left of it. It starts from nothing then, and so does its
// chain, whatever has become of the steps of its earlier life.
func (l *ledger) made(j *modelJob) {
	if l.gone[j.id] {
		delete(l.gone, j.id)
		l.lives[j.id]++
	}
}

// settled counts how a member of a batch ended.
func (l *ledger) settled(batch job.ID, how job.State) {
	t := l.members[batch]
	switch {
	case t == nil:
	case how == job.Completed:
		t.succeeded++
	case how == job.Dead:
		t.failed++
	default:
		t.cancelled++
	}
}

// isStep notes which job a step of a chain is: it is made once.
func (l *ledger) isStep(j *job.Job) error {
	if j.GetChain() == nil {
		return nil
	}
	id := job.ID(j.GetId())
	at := chainStep{job.ID(j.Chain.GetChainId()), l.lives[id], int(j.Chain.GetStep())}
	if other, known := l.steps[at]; known && other != id {
		return fmt.Errorf("step %d of chain %s was made twice: %s and %s", at.step, at.chain.ChainText(), other, id)
	}
	l.steps[at] = id
	return nil
}

// traveller is what one shard has sent to another.
type traveller struct {
	arrive func(to *model)
	job    *job.ID // the job that is on its way, or follows
	about  *job.ID // the job that is told something
}

// send has a shard do something, now if it is this one.
func (m *model) send(shard uint32, t traveller) {
	if shard == m.number {
		t.arrive(m)
		return
	}
	m.sent[shard] = append(m.sent[shard], t)
}

// underway yields what one shard has sent another that has not arrived.
func (m *model) underway(to *model) []traveller { return m.sent[to.number][to.inbox[m.number]:] }
