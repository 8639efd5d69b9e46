package op

// Repeat says what comes of an op that is applied a second time: the very same
// one, Meta included, in whatever entry. Who has lost the answer of an op that
// repeats may propose it again; of one that does not, only the client knows
// whether it still wants it.
type Repeat uint8

// The numbers are not stored.
const (
	// RepeatNever: what came between the two would be undone by the second. An op
	// that says what a setting shall be is of this kind.
	RepeatNever Repeat = iota
	// RepeatHarmless: the second finds nothing left to do, and says so: it may count
	// less than the first.
	RepeatHarmless
	// RepeatAnswers: the second changes nothing and answers as the first did, for as
	// long as nobody went on from there (a lease that ended since is not answered).
	RepeatAnswers
)

var repeatWords = [...]string{"never", "harmless", "answers"}

func (r Repeat) String() string { return repeatWords[r] }

// unsure is an op of which some cannot be repeated, though its kind can.
type unsure interface {
	repeats() bool
}

// repeats says whether an op may be applied a second time. An idempotency key
// makes any op repeatable: its result is remembered.
func (k *Kind) repeats(o Op) bool {
	if o.GetMeta().GetIdempotency() != nil {
		return true
	}
	if u, ok := o.(unsure); ok && !u.repeats() {
		return false
	}
	return k.Repeats != RepeatNever
}
