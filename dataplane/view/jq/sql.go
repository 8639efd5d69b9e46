package jq

import (
	"fmt"
	"strings"
)

// clause is SQL with its parameters. The value of a condition is 1 or 0, and NULL if jq ends with an error.
// Any other clause is NULL, too, if jq has no value for it.
type clause struct {
	sql  string
	args []any
}

// bound is a value to pass as a parameter.
type bound struct{ value any }

// join concatenates SQL, clauses and parameters.
func join(parts ...any) clause {
	var b strings.Builder
	var args []any
	for _, part := range parts {
		switch part := part.(type) {
		case clause:
			b.WriteString(part.sql)
			args = append(args, part.args...)
		case bound:
			b.WriteByte('?')
			args = append(args, part.value)
		default:
			fmt.Fprint(&b, part)
		}
	}
	return clause{b.String(), args}
}

// compiler writes the SQL of expressions about a column.
type compiler struct{ column string }

// call returns a call of an SQL function on the value at a place.
func (c compiler) call(function string, p place) clause {
	return join(function, "(", c.column, ", ", bound{path(p)}, ")")
}

// path converts a place to a path of SQLite's JSON functions. It quotes all names, so that SQLite reads each
// of them only as a name.
func path(p place) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range p {
		switch {
		case s.name != nil:
			b.WriteString("." + quote(*s.name))
		case s.index < 0:
			fmt.Fprintf(&b, "[#%d]", s.index)
		default:
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	return b.String()
}

// cases are the SQL for each type of value. A type without SQL is an error. A missing value counts as null.
type cases struct{ null, no, yes, number, text, array, object any }

// byType selects the case of the type of the value at a place.
func (c compiler) byType(p place, of cases) clause {
	all := join("CASE ", c.call("json_type", p))
	for _, each := range [...]struct {
		name string
		sql  any
	}{
		{"null", of.null}, {"false", of.no}, {"true", of.yes}, {"integer", of.number}, {"real", of.number},
		{"text", of.text}, {"array", of.array}, {"object", of.object},
	} {
		if each.sql != nil {
			all = join(all, " WHEN '", each.name, "' THEN ", each.sql)
		} else {
			all = join(all, " WHEN '", each.name, "' THEN NULL")
		}
	}
	if of.null != nil && len(p) > 0 {
		all = join(all, " ELSE CASE WHEN ", c.reachable(p), " THEN ", of.null, " END")
	}
	return join(all, " END")
}

// reachable returns a condition for a place without a value: 1 if jq would return null there, because each
// value on the way is null or of a type that can have the next field or member.
func (c compiler) reachable(p place) clause {
	all := join()
	for i, s := range p {
		if i > 0 {
			all = join(all, " AND ")
		}
		kind := "array"
		if s.name != nil {
			kind = "object"
		}
		all = join(all, "coalesce(", c.call("json_type", p[:i]), ", 'null') IN ('null', '", kind, "')")
	}
	return all
}

// truth returns 0 if jq would return null or false, and 1 for any other value.
func (c compiler) truth(n node) clause {
	switch n := n.(type) {
	case place:
		return c.byType(n, cases{null: 0, no: 0, yes: 1, number: 1, text: 1, array: 1, object: 1})
	case literal:
		if n.value == nil || n.value == false {
			return join(0)
		}
		return join(1)
	case length:
		return join("CASE WHEN ", c.length(n.of), " IS NOT NULL THEN 1 END")
	}
	return c.condition(n)
}

// condition returns the SQL of a node that is true or false. Like jq, it does not evaluate the right side if
// the left side decides, so the errors there do not count.
func (c compiler) condition(n node) clause {
	switch n := n.(type) {
	case not:
		return join("NOT ", c.truth(n.of))
	case junction:
		if n.word == "and" {
			return join("CASE ", c.truth(n.left), " WHEN 1 THEN ", c.truth(n.right), " WHEN 0 THEN 0 END")
		}
		return join("CASE ", c.truth(n.left), " WHEN 1 THEN 1 WHEN 0 THEN ", c.truth(n.right), " END")
	case comparison:
		return c.compare(n)
	case check:
		return c.check(n)
	}
	panic(fmt.Sprintf("jq: %T is no condition", n))
}

// sqlOperators are jq's comparisons in SQL, and their results if the first value is less, and if it is
// greater.
var sqlOperators = map[string]struct {
	sql           string
	less, greater int
}{
	"==": {"=", 0, 0}, "!=": {"<>", 1, 1}, "<": {"<", 1, 0}, "<=": {"<=", 1, 0}, ">": {">", 0, 1}, ">=": {">=", 0, 1},
}

// compare lets SQLite compare. SQLite orders numbers, texts and blobs as jq orders numbers, strings and all
// other values, so compare converts a place to a value with the right position among the values of the
// other side's class.
func (c compiler) compare(n comparison) clause {
	op := sqlOperators[n.op]
	class := min(n.left.class(), n.right.class())
	other := max(n.left.class(), n.right.class())
	if other == anything || other == class {
		return join("(", c.among(class, n.left), " ", op.sql, " ", c.among(class, n.right), ")")
	}
	outcome := op.less
	if n.left.class() > n.right.class() {
		outcome = op.greater
	}
	return join("CASE WHEN ", c.among(n.left.class(), n.left), " IS NOT NULL AND ",
		c.among(n.right.class(), n.right), " IS NOT NULL THEN ", outcome, " END")
}

// among returns a value in its position in SQLite's order among the values of a class. In the class words,
// null is -1, false 0 and true 1.
func (c compiler) among(class class, n node) clause {
	switch n := n.(type) {
	case place:
		extract := c.call("json_extract", n)
		switch class {
		case words:
			return c.byType(n, cases{null: -1, no: 0, yes: 1, number: 2, text: 2, array: 2, object: 2})
		case numbers:
			return c.byType(n, cases{null: "-9e999", no: "-9e999", yes: "-9e999", number: extract, text: "''", array: "x''", object: "x''"})
		}
		return c.byType(n, cases{null: 0, no: 0, yes: 0, number: 0, text: extract, array: "x''", object: "x''"})
	case literal:
		switch v := n.value.(type) {
		case nil:
			return join(-1)
		case bool:
			return c.truth(n)
		default:
			return join(bound{v})
		}
	case length:
		return c.length(n.of)
	}
	return join("(", c.condition(n), ")")
}

// length counts characters, members or fields. The length of a number is its absolute value.
func (c compiler) length(p place) clause {
	number := c.call("json_extract", p)
	return c.byType(p, cases{
		null:   0,
		number: join("max(", number, ", 0 - ", number, ")"), // abs refuses the least integer
		text:   join("length(", number, ")"),
		array:  c.call("json_array_length", p),
		object: join("(SELECT count(DISTINCT key) FROM ", c.call("json_each", p), ")"),
	})
}

// check tests the value at a place with a function and a constant.
func (c compiler) check(n check) clause {
	text := c.call("json_extract", n.of)
	arg := bound{n.arg.value}
	switch n.word {
	case "contains":
		return c.byType(n.of, cases{
			text: join("instr(", text, ", ", arg, ") > 0"),
			array: join("EXISTS (SELECT 1 FROM ", c.call("json_each", n.of),
				" AS member WHERE member.type = 'text' AND member.value = ", arg, ")"),
		})
	case "startswith":
		return c.byType(n.of, cases{text: join("instr(", text, ", ", arg, ") = 1")})
	case "endswith":
		suffix := []byte(n.arg.value.(string))
		if len(suffix) == 0 {
			return c.byType(n.of, cases{text: 1})
		}
		// Compare bytes, because SQLite's length of a text ends at a NUL.
		return c.byType(n.of, cases{
			text: join("substr(CAST(", text, " AS BLOB), ", bound{-len(suffix)}, ") IS ", bound{suffix}), // a substr of an empty text is NULL
		})
	}
	switch v := n.arg.value.(type) {
	case string:
		field := append(n.of[:len(n.of):len(n.of)], step{name: &v})
		return c.byType(n.of, cases{null: 0, object: join(c.call("json_type", field), " IS NOT NULL")})
	default:
		return c.byType(n.of, cases{null: 0, array: join(arg, " BETWEEN 0 AND ", c.call("json_array_length", n.of), " - 1")})
	}
}
