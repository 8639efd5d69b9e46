// Package jq finds jobs by what is in their payloads: the part of jq's language
// that filters. It owns the language and its SQL, and knows no job; it imports
// nothing of the module.
//
// What an expression means is what jq says it means, errors included: where jq
// would end with an error, the job does not match, whatever stands around it. The
// one extension is contains, which finds the member of an array that equals its
// string; jq calls that an error.
package jq

import "fmt"

// The bounds of an expression. They keep what it becomes well within SQLite's own:
// an expression of depth 1000, 32,766 parameters.
const (
	// MaxText is how many bytes an expression may have.
	MaxText = 4 << 10
	// MaxDepth is how many parentheses and pipes may lie in each other, and how many
	// steps may lead to a place.
	MaxDepth = 32
	// MaxNodes is how many places, steps, constants and operators it may have.
	MaxNodes = 200
	// MaxIndex is the largest index of an array's member, from either end.
	MaxIndex = 1_000_000
)

// Expr is an expression that was understood.
type Expr struct{ root node }

// Error says where a text is not of the language, and what was expected there.
type Error struct {
	Position int // in bytes
	Message  string
}

func (e *Error) Error() string { return fmt.Sprintf("at byte %d: %s", e.Position, e.Message) }

// Parse reads an expression; what is wrong with it is an *Error.
func Parse(text string) (*Expr, error) {
	p := parser{text: text}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	return &Expr{root}, nil
}

// String is an expression that means the same, in one way of writing it.
func (e *Expr) String() string { return e.root.String() }

// Where is a condition on a column of JSON texts: 1 where the expression is true of
// the text, else 0, also where the text is NULL or no JSON. All that the expression
// says, names included, is in the parameters.
func (e *Expr) Where(column string) (sql string, args []any) {
	c := join("coalesce(CASE WHEN json_valid(", column, ") THEN ", compiler{column}.truth(e.root), " END, 0)")
	return c.sql, c.args
}
