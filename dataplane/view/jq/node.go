package jq

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// node is a part of an expression. No node stands for a pipe, because Parse resolves pipes: every place
// starts at the payload's root.
type node interface {
	fmt.Stringer
	// class returns the class of the node's value, as far as its form tells.
	class() class
}

// class is a range in jq's order of values: null, false and true come first, then numbers, then strings.
type class int

const (
	words class = iota // null, false, true
	numbers
	texts
	anything // the value in the payload
)

// place is a position in the payload: the steps that lead to a value.
type place []step

// step leads to a field or, if it has no name, to a member of an array.
type step struct {
	name  *string
	index int
}

// literal is a constant: nil, a bool, an int64 or float64, a string.
type literal struct{ value any }

// length is the length of the value at a place.
type length struct{ of place }

// check tests the value at a place with a function and a constant.
type check struct {
	word string // contains, startswith, endswith, has
	of   place
	arg  literal
}

// not is true if its operand is null or false.
type not struct{ of node }

// junction joins two conditions.
type junction struct {
	word        string // and, or
	left, right node
}

// comparison compares in jq's order. At most one side is a place.
type comparison struct {
	op          string
	left, right node
}

func (place) class() class      { return anything }
func (length) class() class     { return numbers }
func (check) class() class      { return words }
func (not) class() class        { return words }
func (junction) class() class   { return words }
func (comparison) class() class { return words }

func (l literal) class() class {
	switch l.value.(type) {
	case int64, float64:
		return numbers
	case string:
		return texts
	}
	return words
}

func (p place) String() string {
	if len(p) == 0 {
		return "."
	}
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.name != nil && isName(*s.name):
			b.WriteString("." + *s.name)
			continue
		case i == 0:
			b.WriteByte('.')
		}
		if s.name != nil {
			fmt.Fprintf(&b, "[%s]", quote(*s.name))
		} else {
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	return b.String()
}

func (l literal) String() string {
	switch v := l.value.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'e', -1, 64) // the exponent distinguishes it from an integer
	case string:
		return quote(v)
	}
	return "null"
}

func (n length) String() string     { return fmt.Sprintf("%s | length", n.of) }
func (n check) String() string      { return fmt.Sprintf("%s | %s(%s)", n.of, n.word, n.arg) }
func (n not) String() string        { return fmt.Sprintf("%s | not", n.of) }
func (n junction) String() string   { return binary(n.left, n.word, n.right, n) }
func (n comparison) String() string { return binary(n.left, n.op, n.right, n) }

// binary writes an operation without parentheses that jq does not need. All operators except comparisons are
// left-associative, and jq does not allow a comparison next to another.
func binary(left node, op string, right, whole node) string {
	l, r := left.String(), right.String()
	if tie(left) < tie(whole) || tie(left) == comparing && tie(whole) == comparing {
		l = "(" + l + ")"
	}
	if tie(right) <= tie(whole) {
		r = "(" + r + ")"
	}
	return l + " " + op + " " + r
}

// The precedences of the operators, the lowest first.
const (
	piping = iota
	alternating
	joining
	comparing
	single
)

func tie(n node) int {
	switch n := n.(type) {
	case length, check, not:
		return piping
	case comparison:
		return comparing
	case junction:
		if n.word == "or" {
			return alternating
		}
		return joining
	}
	return single
}

// quote returns a string as JSON.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // encoding a string into memory cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// isName reports whether a field's name can follow a dot without quotes.
func isName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isDigit(s[i])) {
			return false
		}
	}
	return s != ""
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
