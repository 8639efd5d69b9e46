package job

import "fmt"

// The outcomes under their field names, but for the one whose name a state has:
// GivenUp is that of an attempt whose job was cancelled while it ran.
const (
	Failed    = Outcome_OUTCOME_FAILED
	Reclaimed = Outcome_OUTCOME_RECLAIMED
	Expired   = Outcome_OUTCOME_EXPIRED
	GivenUp   = Outcome_OUTCOME_CANCELLED
	Rejected  = Outcome_OUTCOME_REJECTED
	Blocked   = Outcome_OUTCOME_BLOCKED
	Dropped   = Outcome_OUTCOME_DROPPED
)

// Made is the attempt that an error ended, as clients see it: 0 where the job waited, and
// ended without the attempt under whose number the error is kept.
func (x *AttemptError) Made() uint32 {
	if x.GetStartedNs() == 0 {
		return 0
	}
	return x.Attempt
}

var outcomeWords = [...]string{"failed", "lease_expired", "expired", "cancelled", "rejected", "blocked", "dropped"}

// Word is the outcome as clients see it.
func (o Outcome) Word() string {
	if o < 0 || int(o) >= len(outcomeWords) {
		return fmt.Sprintf("outcome(%d)", int32(o))
	}
	return outcomeWords[o]
}

// ParseOutcome reads what Word printed.
func ParseOutcome(word string) (Outcome, bool) {
	for o, w := range outcomeWords {
		if w == word {
			return Outcome(o), true
		}
	}
	return 0, false
}
