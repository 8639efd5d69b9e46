package resultschema

import (
	"regexp/syntax"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// pattern is a regular expression that charges the meter for its steps. Package regexp takes a time of up to
// the product of the sizes of text and expression, but does not report it. To charge this product would end
// checks of ordinary results, because even a long ordinary expression takes only a few steps at each
// character.
//
// A pattern follows all alternatives at once (a Pike machine without captures), so it reads each character
// once.
type pattern struct {
	meter *meter
	text  string
	prog  *syntax.Prog
	begin bool // it matches only from the beginning of a text

	now, next threads
}

// newPattern compiles an expression that survey has bounded.
func newPattern(m *meter, text string) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	return &pattern{
		meter: m, text: text, prog: prog, begin: prog.StartCond()&syntax.EmptyBeginText != 0,
		now: newThreads(len(prog.Inst)), next: newThreads(len(prog.Inst)),
	}, nil
}

func (p *pattern) String() string { return p.text }

// MatchString reports whether the text contains a match of the expression.
func (p *pattern) MatchString(text string) bool {
	steps := 1
	p.now.clear()
	before := rune(-1)
	for at := 0; ; {
		char, width := rune(-1), 0
		if at < len(text) {
			char, width = utf8.DecodeRuneInString(text[at:])
		}
		if at == 0 || !p.begin {
			p.now.add(uint32(p.prog.Start))
		}
		if len(p.now.list) == 0 && p.begin {
			break
		}
		if p.advance(before, char, &steps) {
			p.meter.spend(1 + steps/stepsPerUnit)
			return true
		}
		if width == 0 {
			break
		}
		if steps > 1024 {
			p.meter.spend(steps / stepsPerUnit)
			steps = 0
		}
		p.now, p.next = p.next, p.now
		before, at = char, at+width
	}
	p.meter.spend(1 + steps/stepsPerUnit)
	return false
}

// advance moves the threads over a character, which is -1 at the end of the text. It reports whether a thread
// reaches a match before the character.
func (p *pattern) advance(before, char rune, steps *int) bool {
	p.next.clear()
	met := syntax.EmptyOpContext(before, char)
	for i := 0; i < len(p.now.list); i++ { // the list grows
		*steps++
		pc := p.now.list[i]
		inst := &p.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstFail:
		case syntax.InstAlt, syntax.InstAltMatch:
			p.now.add(inst.Out)
			p.now.add(inst.Arg)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^met == 0 {
				p.now.add(inst.Out)
			}
		case syntax.InstCapture, syntax.InstNop:
			p.now.add(inst.Out)
		default:
			if char >= 0 && inst.MatchRune(char) {
				p.next.add(inst.Out)
			}
		}
	}
	return false
}

// threads is a set of instructions, in the order of their addition.
type threads struct {
	list  []uint32
	place []uint32 // by instruction: its index in list, if it is in the set
}

func newThreads(n int) threads { return threads{list: make([]uint32, 0, n), place: make([]uint32, n)} }

func (t *threads) clear() { t.list = t.list[:0] }

func (t *threads) add(pc uint32) {
	if at := t.place[pc]; int(at) < len(t.list) && t.list[at] == pc {
		return
	}
	t.place[pc] = uint32(len(t.list))
	t.list = append(t.list, pc)
}

// instructions returns an upper bound of the number of instructions of a compiled expression, or most+1 if
// the bound is larger than most. It does not expand repetitions, because a kilobyte of them can stand for a
// million instructions.
func instructions(tree *syntax.Regexp, most int) int {
	return min(2+sizeOfTree(tree, most), most+1) // each program begins with a failure and ends with a match
}

func sizeOfTree(tree *syntax.Regexp, most int) int {
	n := 0
	for _, sub := range tree.Sub {
		if n > most {
			return most + 1
		}
		n += sizeOfTree(sub, most)
	}
	switch tree.Op {
	case syntax.OpConcat:
	case syntax.OpLiteral:
		n = len(tree.Rune)
	case syntax.OpCapture:
		n += 2
	case syntax.OpAlternate:
		n += len(tree.Sub)
	case syntax.OpStar:
		n += 2 // one more if what it repeats can be empty
	case syntax.OpRepeat:
		switch {
		case tree.Max < 0:
			n = n*max(tree.Min, 1) + 2
		case tree.Min < tree.Max:
			n = (n + 1) * tree.Max // each optional repetition branches
		default:
			n *= tree.Max
		}
	default: // one instruction: a branch, a class of characters or an empty match
		n++
	}
	return min(max(n, 1), most+1)
}
