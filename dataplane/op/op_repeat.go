package op

// Repeat tells what happens if an op is applied a second time with the same content and Meta, in any entry. A
// proposer that has lost the answer of a repeatable op may propose the op again. For any other op only the
// client can know whether it should be proposed again.
type Repeat uint8

// The numbers are not stored.
const (
	// RepeatNever: the second application may undo changes made between the two, as an op that sets a setting
	// does, or have its effect a second time.
	RepeatNever Repeat = iota
	// RepeatHarmless: the second application finds nothing left to do and answers so. Its counts may be lower
	// than the first's.
	RepeatHarmless
	// RepeatAnswers: the second application changes nothing and gives the first one's answer, until a later
	// change makes that impossible. The answer of a repeated fetch, for example, leaves out the leases that
	// have ended.
	RepeatAnswers
)

var repeatWords = [...]string{"never", "harmless", "answers"}

func (r Repeat) String() string { return repeatWords[r] }

// unsure is an op of a repeatable kind. Its content decides whether the op itself is repeatable.
type unsure interface {
	repeats() bool
}

// repeats reports whether an op may be applied a second time. An idempotency key makes any op repeatable,
// because the result of an op that did something is stored under the key.
func (k *Kind) repeats(o Op) bool {
	if o.GetMeta().GetIdempotency() != nil {
		return true
	}
	if u, ok := o.(unsure); ok && !u.repeats() {
		return false
	}
	return k.Repeats != RepeatNever
}
