package op

import (
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Whether a job that is next in its queue may be let go is decided here, by the same
// code when it is fetched and when somebody asks why it was not. What keeps all jobs
// of a queue or of a fairness key (pause, concurrency, rate) is known before a job is
// looked at: see mayFetch and state's lanes. What keeps one job is a check below.

// Ground is what is decided on: the running entry, or a snapshot of the store.
type Ground interface {
	ClockNs() int64
	Head() *state.Head
	ResourceIndex() *state.ResourceIndex
	Queue(name string) *state.Queue
	Account(id [16]byte) (*state.Account, error)
	Traffic(id [16]byte) (*state.Traffic, error)
}

// Decision is what becomes of a job that is next.
type Decision uint8

// The decisions.
const (
	Take   Decision = iota // it is leased
	Park                   // it waits at a gate, and those behind it go first
	Hold                   // it is held until a person says what becomes of it
	Reject                 // it dies
)

// Verdict is what was decided of a job, and why. The zero Verdict lets it go.
type Verdict struct {
	Do      Decision
	Reason  Reason
	Name    string   // of the policy, provider or budget
	Text    string   // for people
	UntilNs int64    // when it may be otherwise at the earliest; 0 = nobody knows
	Hold    job.Hold // what holds it, where Do is Hold
	Gate    job.Gate // where it waits, where Do is Park
	// What the first shard is to be asked for of a budget, and of which; see decide.
	asks money.Nano
	of   *state.Resource
}

// check is one thing that may keep a job.
type check func(g Ground, j *job.Job) (Verdict, error)

// checks are all there are, in the order in which they decide: those that cost
// nothing to have been asked first, money last.
var checks = [...]check{checkPolicies, checkModel, checkAgent, checkProvider, checkBudgets}

// governed says whether decide may say anything but Take of a job. It is false for a
// plain job in a namespace that has declared nothing, which then pays nothing.
func governed(g Ground, j *job.Job) bool { return j.Options != nil || g.ResourceIndex().Governs() }

// Decide says whether a pending job may be let go.
func Decide(g Ground, j *job.Job) (Verdict, error) {
	for _, check := range checks {
		if v, err := check(g, j); err != nil || v.Do != Take {
			return v, err
		}
	}
	return Verdict{}, nil
}

// decide is Decide in an entry: what a budget's first shard has to be asked for it is, and
// on that shard itself the answer is there at once.
func decide(tx *state.Tx, j *job.Job) (Verdict, error) {
	for {
		v, err := Decide(tx, j)
		if err != nil || v.of == nil || v.asks == 0 {
			return v, err
		}
		if err := askFor(tx, v.of, v.asks); err != nil {
			return v, err
		}
	}
}

// follow does to a job that is not let go what was decided of it.
func (v Verdict) follow(tx *state.Tx, j *job.Job) error {
	switch v.Do {
	case Park:
		d := j.Details()
		d.Gate, d.GateName = v.Gate, v.Name
		return tx.PutJob(j, state.EventType_EVENT_GATED)
	case Reject:
		why := &job.AttemptError{Error: v.Text, Outcome: job.Rejected}
		return die(tx, j, job.OnDrop, why, v.events()...)
	default:
		return hold(tx, j, v.Hold, v.Name, v.Text, v.events()...)
	}
}

// events are the causes the feed is told of.
func (v Verdict) events() []state.EventType {
	if v.Reason == ReasonBudget {
		return []state.EventType{state.EventType_EVENT_BUDGET_EXCEEDED}
	}
	return nil
}
