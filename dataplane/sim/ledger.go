package sim

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ledger counts for all shards of a history together, and for removed jobs, so that the simulation can check
// the counts of each shard.
type ledger struct {
	gone     map[job.ID]bool // removed for good
	used     modelUsage      // by removed jobs
	promised map[job.ID]bool // jobs that follow from others and do not exist yet
	byRuns   map[job.ID]bool // jobs that may be created again, such as those of a schedule that is created anew
	members  map[job.ID]*tally
	bulks    map[string]*state.BulkCounts // the effects of bulk operations, by id
	steps    map[chainStep]job.ID         // the job of each step of a chain
	lives    map[job.ID]int               // how often the first job of its chain was created again
}

// tally counts how the members of a batch ended, each the first time.
type tally struct{ succeeded, failed, cancelled uint64 }

// chainStep is a step in one life of a chain. A chain begins another life when its removed first job is created
// again.
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

// made notes a new job. The job may be a removed one whose enqueue was repeated when no record of it was
// left. Such a job starts from nothing, and so does its chain, whatever happened to the steps of its earlier
// life.
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

// isStep notes the job of a chain's step, and fails if another job is already that step.
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

// traveller is one op that a shard sends to another.
type traveller struct {
	arrive func(to *model)
	job    *job.ID // the job that the op carries or creates
	about  *job.ID // the job that the op informs
}

// send sends something to a shard, or does it at once if the shard is this one.
func (m *model) send(shard uint32, t traveller) {
	if shard == m.number {
		t.arrive(m)
		return
	}
	m.sent[shard] = append(m.sent[shard], t)
}

// underway returns the ops that this shard has sent to another and that have not arrived.
func (m *model) underway(to *model) []traveller { return m.sent[to.number][to.inbox[m.number]:] }
