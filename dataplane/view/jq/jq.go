// Package jq finds jobs by the contents of their payloads, with the part of jq's language that filters. It
// owns the language and its SQL, and knows no job; it imports nothing of the module.
//
// An expression means the same as in jq, errors included: if jq would end with an error, the job does not
// match, regardless of the expression around it. The only extension is contains, which also finds the member
// of an array that equals its string; jq reports an error there.
package jq

import "fmt"

// The bounds of an expression. They keep its SQL well within SQLite's own bounds: an expression of depth
// 1000, 32,766 parameters.
const (
	// MaxText is the largest number of bytes of an expression.
	MaxText = 4 << 10
	// MaxDepth is the largest depth of nested parentheses and pipes, and the largest number of steps that
	// lead to a place.
	MaxDepth = 32
	// MaxNodes is the largest number of places, steps, constants and operators.
	MaxNodes = 200
	// MaxIndex is the largest index of an array's member, from either end.
	MaxIndex = 1_000_000
)

// Expr is a parsed expression.
type Expr struct{ root node }

// Error describes a syntax error and its position.
type Error struct {
	Position int // in bytes, from 0
	Message  string
}

func (e *Error) Error() string { return fmt.Sprintf("at byte %d: %s", e.Position, e.Message) }

// Parse parses an expression. It returns an *Error for a text that is not in the language.
func Parse(text string) (*Expr, error) {
	p := parser{text: text}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	return &Expr{root}, nil
}

// String returns an equivalent expression in a canonical form.
func (e *Expr) String() string { return e.root.String() }

// Where returns a condition on a column of JSON texts. The condition is 1 if the expression is true of the
// text, and 0 if it is not, or if the text is NULL or not JSON. Everything that the expression contains,
// names included, is passed as parameters. But column becomes part of the SQL, so it must not come from a client.
func (e *Expr) Where(column string) (sql string, args []any) {
	c := join("coalesce(CASE WHEN json_valid(", column, ") THEN ", compiler{column}.truth(e.root), " END, 0)")
	return c.sql, c.args
}
