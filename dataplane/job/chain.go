package job

// The ways a chain ends, as its exit step is told.
const (
	ChainCompleted = "completed" // its last step completed
	ChainExited    = "exited"    // a step completed and said that the rest is not needed
	ChainFailed    = "failed"    // a step died
	ChainCancelled = "cancelled" // a step was cancelled, or deleted before it had settled
)

// ChainPrefix starts every chain's id as clients see it.
const ChainPrefix = "chain_"

// ChainText is the id of the chain whose first job has this id, as clients see it.
func (id ID) ChainText() string { return ChainPrefix + id.String()[len(IDPrefix):] }

// Turn is what a chain does when one of its steps has settled.
type Turn struct {
	Next    bool   // the next step is made
	Failure bool   // its failure step is made
	Outcome string // how it has ended; empty where it goes on
}

// After is the turn the chain takes when a step has settled; exit says that its
// worker asked for the end.
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

// PayloadOf is a step's payload: its own, or the one the chain began with.
func (c *Chain) PayloadOf(s *Step) *Blob {
	if s.GetPayload() != nil {
		return s.Payload
	}
	return c.Steps[0].Payload
}

// PayloadBytes is the length of all the payloads the chain carries along.
func (c *Chain) PayloadBytes() (n int) {
	for _, s := range c.GetSteps() {
		n += len(s.GetPayload().GetData())
	}
	return n + len(c.GetFailure().GetPayload().GetData()) + len(c.GetExit().GetPayload().GetData())
}
