package jq

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// operators are the comparisons. A longer operator comes before its own prefix.
var operators = []string{"==", "!=", ">=", "<=", ">", "<"}

// parser parses by recursive descent, with one function for each precedence of jq: pipe, or, and, comparison,
// term. Each function receives the place that "." stands for.
type parser struct {
	text  string
	at    int // the next byte to read
	depth int
	nodes int
}

// fault is the panic value with which the parser unwinds.
type fault struct{ Error }

func fail(at int, format string, args ...any) {
	panic(fault{Error{at, fmt.Sprintf(format, args...)}})
}

func (p *parser) parse() (n node, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			err = &r.Error
		default:
			panic(r)
		}
	}()
	if len(p.text) > MaxText {
		fail(MaxText, "an expression has at most %d bytes", MaxText)
	}
	if !utf8.ValidString(p.text) {
		fail(invalidAt(p.text), "this is not UTF-8")
	}
	n = p.pipe(nil)
	if p.space(); p.at < len(p.text) {
		fail(p.at, "expected an operator (| or and == != > >= < <=) or the end")
	}
	return n, nil
}

func invalidAt(text string) int {
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			return i
		}
	}
	return len(text)
}

// count limits the number of nodes, and with it the work that a request can cause in SQLite.
func (p *parser) count(at int) {
	if p.nodes++; p.nodes > MaxNodes {
		fail(at, "an expression has at most %d places, steps, constants and operators", MaxNodes)
	}
}

func (p *parser) pipe(in place) node {
	if p.depth++; p.depth > MaxDepth {
		fail(p.at, "at most %d parentheses and pipes may lie in each other", MaxDepth)
	}
	defer func() { p.depth-- }()
	n := p.or(in)
	for p.take("|") {
		p.space()
		at := p.at
		if of, ok := n.(place); ok {
			if n = p.pipe(of); !leads(n) {
				fail(at, "what follows | must begin with what it is given: . or a function")
			}
			return n
		}
		// Other functions would use the computed value twice, which doubles the work with every pipe.
		if p.word() != "not" {
			fail(at, "expected not: only a place can be piped to anything else")
		}
		p.count(at)
		n = not{n}
	}
	return n
}

// leads reports whether an expression evaluates its input before anything that could decide the result. If it
// does not, the pipe would lose an error on its left.
func leads(n node) bool {
	switch n := n.(type) {
	case literal:
		return false
	case not:
		return leads(n.of)
	case junction:
		return leads(n.left)
	case comparison:
		return leads(n.left) || leads(n.right)
	}
	return true
}

func (p *parser) or(in place) node {
	return p.junctions(in, "or", p.and)
}

func (p *parser) and(in place) node {
	return p.junctions(in, "and", p.comparison)
}

func (p *parser) junctions(in place, word string, next func(place) node) node {
	left := next(in)
	for {
		p.space()
		at := p.at
		if p.word() != word {
			p.at = at
			return left
		}
		p.count(at)
		left = junction{word, left, next(in)}
	}
}

func (p *parser) comparison(in place) node {
	left := p.term(in)
	p.space()
	at := p.at
	op := p.operator()
	if op == "" {
		return left
	}
	p.count(at)
	right := p.term(in)
	if left.class() == anything && right.class() == anything {
		fail(at, "one side of a comparison must be a constant, a length or a condition")
	}
	if p.space(); slices.ContainsFunc(operators, func(op string) bool { return strings.HasPrefix(p.text[p.at:], op) }) {
		fail(p.at, "comparisons cannot be chained; use and, or parentheses")
	}
	return comparison{op, left, right}
}

func (p *parser) operator() string {
	for _, op := range operators {
		if p.take(op) {
			return op
		}
	}
	return ""
}

func (p *parser) term(in place) node {
	p.space()
	if p.take("(") {
		n := p.pipe(in)
		p.expect(")")
		return n
	}
	at := p.at
	p.count(at)
	switch c := p.peek(); {
	case c == '.' && !(p.at+1 < len(p.text) && isDigit(p.text[p.at+1])):
		return p.place(in)
	case c == '"' || c == '-' || c == '.' || isDigit(c):
		return p.literal()
	}
	switch word := p.word(); word {
	case "null", "true", "false":
		p.at = at
		return p.literal()
	case "length":
		return length{in}
	case "contains", "startswith", "endswith":
		p.expect("(")
		arg := p.literal()
		if arg.class() != texts {
			fail(at, "%s takes a string", word)
		}
		p.expect(")")
		return check{word, in, arg}
	case "has":
		return p.has(in)
	case "not":
		p.postfix(at)
		return not{in}
	case "":
		fail(at, "expected a place such as .a.b, a constant, a function or (")
	default:
		fail(at, "%q is unknown; known are length, contains, startswith, endswith, has, not, null, true, false", word)
	}
	return nil
}

// postfix explains the position of "not" to users who write it before its operand, as in other languages.
func (p *parser) postfix(at int) {
	p.space()
	if c := p.peek(); c == '(' || c == '.' || c == '"' {
		fail(at, "not comes after what it denies, as in (.a == 1) | not")
	}
}

func (p *parser) has(in place) node {
	p.expect("(")
	p.space()
	at := p.at
	arg := p.literal()
	switch v := arg.value.(type) {
	case string:
		p.room(in, at)
	case int64:
		if v < -MaxIndex || v > MaxIndex {
			fail(at, "an index is at most %d", MaxIndex)
		}
	default:
		fail(at, "has takes a string or a whole number")
	}
	p.expect(")")
	return check{"has", in, arg}
}

// room checks that a place may get one more step.
func (p *parser) room(in place, at int) {
	if len(in) >= MaxDepth {
		fail(at, "a place lies at most %d steps deep", MaxDepth)
	}
}

// place reads "." and the steps that follow it without a space.
func (p *parser) place(in place) node {
	n := slices.Clip(in)
	add := func(at int, s step) {
		p.count(at)
		p.room(n, at)
		n = append(n, s)
	}
	for first := true; ; first = false {
		at := p.at
		dot := p.peek() == '.'
		if dot {
			p.at++
		}
		switch c := p.peek(); {
		case c == '[' && (dot || !first):
			p.at++
			add(at, p.bracketed())
			p.expect("]")
		case dot && c == '"':
			name := p.quoted()
			add(at, step{name: &name})
		case dot && isLetter(c):
			name := p.word()
			add(at, step{name: &name})
		case dot && first:
			return n
		case dot:
			fail(p.at, "expected the name of a field")
		default:
			return n
		}
	}
}

// bracketed reads a name or an index in brackets.
func (p *parser) bracketed() step {
	p.space()
	at := p.at
	switch v := p.literal().value.(type) {
	case string:
		return step{name: &v}
	case int64:
		if v < -MaxIndex || v > MaxIndex {
			fail(at, "an index is at most %d", MaxIndex)
		}
		return step{index: int(v)}
	}
	fail(at, "expected a name in quotes or a whole number")
	return step{}
}

func (p *parser) literal() literal {
	p.space()
	at := p.at
	switch c := p.peek(); {
	case c == '"':
		return literal{p.quoted()}
	case c == '-' || c == '.' || isDigit(c):
		return literal{p.number()}
	}
	switch p.word() {
	case "null":
		return literal{}
	case "true":
		return literal{true}
	case "false":
		return literal{false}
	}
	fail(at, "expected a constant: a string, a number, true, false or null")
	return literal{}
}

// number reads a number. Like SQLite with the numbers of a payload, it returns an int64 for an integer that
// fits, and a float64 for any other number.
func (p *parser) number() any {
	start := p.at
	digits := func() (n int) {
		for isDigit(p.peek()) {
			p.at++
			n++
		}
		return n
	}
	if p.peek() == '-' {
		p.at++
	}
	n, whole := digits(), true
	if p.peek() == '.' {
		p.at++
		n, whole = n+digits(), false
	}
	if n == 0 {
		fail(start, "expected a number")
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		whole = false
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		if digits() == 0 {
			fail(p.at, "expected the digits of an exponent")
		}
	}
	if c := p.peek(); isLetter(c) || c == '.' {
		fail(p.at, "expected the end of the number")
	}
	text := p.text[start:p.at]
	if v, err := strconv.ParseInt(text, 10, 64); whole && err == nil {
		return v
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		fail(start, "no number of a payload is beyond %g", math.MaxFloat64)
	}
	return v
}

// quoted reads a JSON string.
func (p *parser) quoted() string {
	start := p.at
	for p.at++; ; p.at++ {
		switch {
		case p.at >= len(p.text):
			fail(start, "this string does not end")
		case p.text[p.at] == '\\':
			p.at++
			if p.peek() == '(' {
				fail(p.at-1, "a string is a constant here: \\( is not understood")
			}
		case p.text[p.at] == '"':
			p.at++
			var s string
			if err := json.Unmarshal([]byte(p.text[start:p.at]), &s); err != nil {
				fail(start, "this is not a string of JSON: %v", err)
			}
			return s
		}
	}
}

// word reads the letters and digits that come next, if the first is a letter.
func (p *parser) word() string {
	start := p.at
	for isLetter(p.peek()) || p.at > start && isDigit(p.peek()) {
		p.at++
	}
	return p.text[start:p.at]
}

// peek returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) space() {
	for strings.IndexByte(" \t\r\n", p.peek()) >= 0 && p.at < len(p.text) {
		p.at++
	}
}

func (p *parser) take(sign string) bool {
	p.space()
	if !strings.HasPrefix(p.text[p.at:], sign) {
		return false
	}
	p.at += len(sign)
	return true
}

func (p *parser) expect(sign string) {
	if !p.take(sign) {
		fail(p.at, "expected %s", sign)
	}
}
