package job

import "fmt"

// These are short names of the states; State_... are the generated names.
const (
	Scheduled = State_STATE_SCHEDULED
	Pending   = State_STATE_PENDING
	Active    = State_STATE_ACTIVE
	Retrying  = State_STATE_RETRYING
	Held      = State_STATE_HELD
	Completed = State_STATE_COMPLETED
	Dead      = State_STATE_DEAD
	Cancelled = State_STATE_CANCELLED
)

// States is the number of values of State, including the unspecified one: the length of arrays by state.
const States = 9

var stateWords = [States]string{"", "scheduled", "pending", "active", "retrying", "held", "completed", "dead", "cancelled"}

// Word returns the state as clients write it.
func (s State) Word() string {
	if s < 0 || int(s) >= len(stateWords) {
		return fmt.Sprintf("state(%d)", int32(s))
	}
	return stateWords[s]
}

// Settled reports whether a job in the state has ended. It then changes no more unless a person acts on it.
func (s State) Settled() bool { return s == Completed || s == Dead || s == Cancelled }

// Waits reports whether a job in the state waits to be fetched, now or later. Held jobs wait for a person
// instead.
func (s State) Waits() bool { return s == Pending || s == Scheduled || s == Retrying }

// ParseState converts the text of Word back.
func ParseState(word string) (State, bool) {
	for s, w := range stateWords {
		if w == word && w != "" {
			return State(s), true
		}
	}
	return 0, false
}

// These are short names of the backoffs.
const (
	BackoffNone        = Backoff_BACKOFF_NONE
	BackoffFixed       = Backoff_BACKOFF_FIXED
	BackoffLinear      = Backoff_BACKOFF_LINEAR
	BackoffExponential = Backoff_BACKOFF_EXPONENTIAL
)

var backoffWords = [...]string{"", "none", "fixed", "linear", "exponential"}

// Word returns the backoff as clients write it.
func (b Backoff) Word() string {
	if b < 0 || int(b) >= len(backoffWords) {
		return fmt.Sprintf("backoff(%d)", int32(b))
	}
	return backoffWords[b]
}

// ParseBackoff converts the text of Word back.
func ParseBackoff(word string) (Backoff, bool) {
	for b, w := range backoffWords {
		if w == word && w != "" {
			return Backoff(b), true
		}
	}
	return 0, false
}

// The priorities, the most urgent first.
const (
	Critical   = 0
	High       = 1
	Normal     = 2
	Priorities = 3
)

var priorityWords = [Priorities]string{"critical", "high", "normal"}

// PriorityWord returns the word of a priority.
func PriorityWord(p uint32) string {
	if p >= Priorities {
		return fmt.Sprintf("priority(%d)", p)
	}
	return priorityWords[p]
}

// ParsePriority converts the text of PriorityWord back.
func ParsePriority(word string) (uint32, bool) {
	for p, w := range priorityWords {
		if w == word {
			return uint32(p), true
		}
	}
	return 0, false
}

// BlobKind tells which of a job's blobs a record holds.
type BlobKind uint8

// The blobs of a job. The values are part of keys, so they are permanent.
const (
	Payload BlobKind = iota
	Result
	Checkpoint
	Progress
	ChainConfig // an encoded Chain
	Previous    // the result of the job before, see Origin
	// ResultSchema is the JSON Schema that the job's result must match.
	ResultSchema
	BlobKinds
)
