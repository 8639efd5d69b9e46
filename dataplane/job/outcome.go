package job

import "fmt"

// These are short names of the outcomes. OUTCOME_CANCELLED is GivenUp, because Cancelled is a state: it is
// the outcome of an attempt whose job was cancelled while it ran.
const (
	Failed    = Outcome_OUTCOME_FAILED
	Reclaimed = Outcome_OUTCOME_RECLAIMED
	Expired   = Outcome_OUTCOME_EXPIRED
	GivenUp   = Outcome_OUTCOME_CANCELLED
	Rejected  = Outcome_OUTCOME_REJECTED
	Blocked   = Outcome_OUTCOME_BLOCKED
	Dropped   = Outcome_OUTCOME_DROPPED
)

// Made returns the attempt that an error ended, as clients count it. It returns 0 if the job ended while it
// waited, because that error has the number of an attempt that never began.
func (x *AttemptError) Made() uint32 {
	if x.GetStartedNs() == 0 {
		return 0
	}
	return x.Attempt
}

var outcomeWords = [...]string{"failed", "lease_expired", "expired", "cancelled", "rejected", "blocked", "dropped"}

// Word returns the outcome as clients write it.
func (o Outcome) Word() string {
	if o < 0 || int(o) >= len(outcomeWords) {
		return fmt.Sprintf("outcome(%d)", int32(o))
	}
	return outcomeWords[o]
}

// ParseOutcome converts the text of Word back.
func ParseOutcome(word string) (Outcome, bool) {
	for o, w := range outcomeWords {
		if w == word {
			return Outcome(o), true
		}
	}
	return 0, false
}
