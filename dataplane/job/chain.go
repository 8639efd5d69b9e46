package job

// The outcomes of a chain, as its exit step receives them.
const (
	ChainCompleted = "completed" // its last step completed
	ChainExited    = "exited"    // the worker of a completed step ended the chain
	ChainFailed    = "failed"    // a step died
	ChainCancelled = "cancelled" // a step was cancelled, or deleted before it had settled
)

// ChainPrefix starts the API form of every chain's id.
const ChainPrefix = "chain_"

// ChainText returns the API form of the id of the chain whose first job has this id.
func (id ID) ChainText() string { return ChainPrefix + id.String()[len(IDPrefix):] }

// Turn is the reaction of a chain to a settled step.
type Turn struct {
	Next    bool   // the next step is made
	Failure bool   // the chain's failure step is made
	Outcome string // how the chain has ended; empty if it goes on
}

// After returns the reaction of the chain to a settled step; steps count from 0. exit is true if the worker
// asked to end the chain.
func (c *Chain) After(step uint32, settled State, exit bool) Turn {
	left := int(step)+1 < len(c.GetSteps())
	switch {
	case settled == Cancelled:
		return Turn{Outcome: ChainCancelled}
	case settled == Completed && exit:
		return Turn{Outcome: ChainExited}
	case left && (settled == Completed || c.GetOnFailure() == OnFailure_ON_FAILURE_CONTINUE):
		return Turn{Next: true}
	case settled == Completed:
		return Turn{Outcome: ChainCompleted}
	}
	return Turn{Failure: c.GetOnFailure() == OnFailure_ON_FAILURE_QUEUE, Outcome: ChainFailed}
}

// PayloadOf returns a step's payload: its own, or else the payload that the chain began with.
func (c *Chain) PayloadOf(s *Step) *Blob {
	if s.GetPayload() != nil {
		return s.Payload
	}
	return c.Steps[0].Payload
}

// PayloadBytes returns the size of all payloads that the chain carries.
func (c *Chain) PayloadBytes() (n int) {
	for _, s := range c.GetSteps() {
		n += len(s.GetPayload().GetData())
	}
	return n + len(c.GetFailure().GetPayload().GetData()) + len(c.GetExit().GetPayload().GetData())
}
