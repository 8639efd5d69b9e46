package op

import (
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// This file decides whether the next job of a queue may start. The same code runs when a worker fetches, when a
// gate opens, and when a client asks why a job was not fetched. The conditions that keep back all jobs of a
// queue or of a fairness key (deletion, pause, concurrency, rate) are checked before a job is looked at: see
// queue_check.go and state's lanes. Each check below may keep back one job.

// DecisionState is the state that a decision reads: the running entry, or a snapshot of the store.
type DecisionState interface {
	ClockNs() int64
	Head() *state.Head
	ResourceIndex() *state.ResourceIndex
	Queue(name string) *state.Queue
	Account(id [16]byte) (*state.Account, error)
	Traffic(id [16]byte) (*state.Traffic, error)
}

// Decision says what happens to the next job of a queue.
type Decision uint8

// The decisions.
const (
	Take   Decision = iota // it is leased
	Park                   // it waits at a gate, and later jobs go first
	Hold                   // it is held until a person approves or rejects it
	Reject                 // it dies
)

// Verdict is a decision about a job with its reason. The zero Verdict lets the job start.
type Verdict struct {
	Do      Decision
	Reason  Reason
	Name    string   // of the policy, provider or budget, or modelHolds and the model; empty for an agent's limit
	Text    string   // for people
	UntilNs int64    // the earliest time at which the decision may change; 0 = unknown
	Hold    job.Hold // the kind of hold, if Do is Hold
	Gate    job.Gate // the gate at which it waits, if Do is Park
	// The amount to ask the first shard for, and the budget; see decide.
	asks money.Nano
	of   *state.Resource
}

// check is one condition that may keep back a job.
type check func(g DecisionState, j *job.Job) (Verdict, error)

// checks lists all checks in the order in which they decide. The cheapest come first and the budgets last.
var checks = [...]check{checkPolicies, checkModel, checkAgent, checkProvider, checkBudgets}

// governed reports whether any check can keep back the job. It is false for a job without options in a
// namespace without budgets, providers and approval policies, so that plain jobs cost no checks.
func governed(g DecisionState, j *job.Job) bool {
	return j.Options != nil || g.ResourceIndex().Governs()
}

// Decide runs the checks on a pending job and returns the first verdict that keeps the job back, or the zero
// Verdict.
func Decide(g DecisionState, j *job.Job) (Verdict, error) {
	for _, check := range checks {
		if v, err := check(g, j); err != nil || v.Do != Take {
			return v, err
		}
	}
	return Verdict{}, nil
}

// decide runs the checks in an entry. If a check needs money of a shared budget, decide asks the first shard
// and checks again. If this is the first shard, its answer is there at once. On another shard the job then
// waits for the answer.
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

// follow parks, rejects or holds a job that may not start.
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

// events returns the causes that the feed records before the event that the job is held or dead.
func (v Verdict) events() []state.EventType {
	if v.Reason == ReasonBudget {
		return []state.EventType{state.EventType_EVENT_BUDGET_EXCEEDED}
	}
	return nil
}
