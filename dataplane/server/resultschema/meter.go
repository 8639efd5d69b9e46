package resultschema

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork bounds the work of one check, in units of very roughly a tenth of a microsecond. A result of a
// megabyte against an ordinary schema takes a quarter of it.
const maxWork = 4_000_000

// perLook is the work between two looks at the context.
const perLook = maxWork / 100

// These constants are the work of a step in units, or the number of steps in one unit. They come from
// measurements.
const (
	perObject         = 4  // one object of a schema at a value, besides its keywords
	perFailure        = 4  // a report, which stays in memory until the end of the check
	perExpressionByte = 32 // the parsing of an expression: \P{L} has 5 bytes and over a thousand ranges
	stepsPerUnit      = 8  // threads of an expression at a character
	pathPerUnit       = 16 // levels of a result that raise the factor of each charge by 1
	longName          = 64 // bytes; a shorter name costs nothing besides its member
)

// meter counts the work of a check and ends a check that takes too much. A schema of ten lines can branch
// twice at each level of a result and recur, so that the check of a result of forty levels would never end.
// The meter counts the work that really happens, because a bound on schemas that is strict enough would
// refuse ordinary ones.
//
// It counts all work of the library, for every schema that compile accepts:
//
//   - The library calls the gate of an object each time it applies the object to a value, before it looks at
//     another keyword. The gate charges the work of this object at this value, reports included. Each other object
//     that the keywords apply has a gate of its own.
//   - Before the gate, the library makes a scope, looks for a cycle and lists the unevaluated members. The charge
//     contains the members, and the longest way that the library can look back for a cycle (chainsOf).
//   - The schemas true and false have no gate. So the gate of the object that applies them also charges for them:
//     one unit for each at each value, and perFailure for each report of a false. For each of them at the object's
//     own value it charges one more unit per member, because the library lists the unevaluated members again.
//   - A pattern charges its own steps, and constants and uniqueItems charge for the values that they compare.
//   - The references are static and have no cycle, so the library never searches the scopes of other values.
//   - A step may copy the path of its value, so the depth of the result multiplies each charge.
//
// Hence a check takes at most a constant factor of maxWork in time, memory and stack. The report of a check that
// fails puts at most maxCauses causes into words.
type meter struct {
	ctx   context.Context
	left  int
	scale int  // of each charge, from the depth of the result
	long  bool // the result has names of longName bytes or more

	unevaluated bool // an object of the schema has unevaluatedProperties or unevaluatedItems
}

// stopped is the panic value that ends a check, because the library has no other way to stop.
type stopped struct{ err error }

// begin starts a check of a document.
func (m *meter) begin(ctx context.Context, doc any) {
	depth, name := extent(doc)
	m.ctx, m.left, m.scale, m.long = ctx, maxWork, 1+depth/pathPerUnit, name >= longName
}

// spend charges work. It panics with stopped if the work is used up. Every perLook units it also panics if
// the context of the check is done.
func (m *meter) spend(work int) {
	before := m.left
	m.left -= work * m.scale
	if m.left < 0 {
		panic(stopped{errTooMuch})
	}
	if m.left/perLook != before/perLook && m.ctx.Err() != nil {
		panic(stopped{m.ctx.Err()})
	}
}

// extent returns the depth of a document and the length of the longest name in it.
func extent(doc any) (depth, name int) {
	switch doc := doc.(type) {
	case map[string]any:
		for key, value := range doc {
			d, n := extent(value)
			depth, name = max(depth, d), max(name, n, len(key))
		}
		return depth + 1, name
	case []any:
		for _, value := range doc {
			d, n := extent(value)
			depth, name = max(depth, d), max(name, n)
		}
		return depth + 1, name
	}
	return 0, 0
}

// cost is the work of one object of a schema at a value.
type cost struct {
	each    int // at any value
	member  int // at each member or item, in addition to 1
	bools   int // number of schemas true and false that it applies to the same value
	numbers int // number of its keywords that compute with a number; multipleOf counts twice
}

// costOf returns the cost of an object that at most chain other objects precede at the same value.
func costOf(s *jsonschema.Schema, chain int) cost {
	c := cost{each: perObject + chain/8 + stringsCost(s.Required)}
	for _, sub := range applied(s) {
		c.each++
		if sub.Bool != nil {
			c.bools++
			c.each += falseCost(sub)
		}
	}
	c.member = memberCost(s)
	for name, list := range s.DependentRequired {
		c.each += 2 + len(name)/longName + stringsCost(list)
	}
	for name := range s.DependentSchemas {
		c.each += 1 + len(name)/longName
	}
	for name, dependency := range s.Dependencies {
		list, _ := dependency.([]string)
		c.each += 2 + len(name)/longName + stringsCost(list)
	}
	for _, have := range []bool{
		s.MinLength != nil, s.MaxLength != nil, s.MinItems != nil, s.MaxItems != nil, s.Contains != nil, s.MaxContains != nil,
		s.MinProperties != nil, s.MaxProperties != nil, s.Pattern != nil,
	} {
		if have {
			c.each++
		}
	}
	for _, have := range []bool{s.Minimum != nil, s.Maximum != nil, s.ExclusiveMinimum != nil, s.ExclusiveMaximum != nil, s.MultipleOf != nil, s.MultipleOf != nil} {
		if have {
			c.numbers++
		}
	}
	return c
}

// memberCost returns the work of false schemas at one member or item of a value, because each of them may
// make a report there.
func memberCost(s *jsonschema.Schema) int {
	work, properties, positions := 0, 0, 0
	for _, sub := range []any{s.Items, s.AdditionalItems, s.AdditionalProperties, s.Items2020, s.Contains, s.PropertyNames, s.UnevaluatedItems, s.UnevaluatedProperties} {
		if sub, ok := sub.(*jsonschema.Schema); ok {
			work += falseCost(sub)
		}
	}
	for _, sub := range s.PatternProperties {
		work += falseCost(sub)
	}
	for _, sub := range s.Properties {
		properties = max(properties, falseCost(sub))
	}
	items, _ := s.Items.([]*jsonschema.Schema)
	for _, sub := range slices.Concat(items, s.PrefixItems) {
		positions = max(positions, falseCost(sub))
	}
	return work + max(properties, positions)
}

func falseCost(s *jsonschema.Schema) int {
	if s == nil || s.Bool == nil || *s.Bool {
		return 0
	}
	return perFailure
}

func stringsCost(all []string) int {
	n := len(all)
	for _, s := range all {
		n += len(s) / longName
	}
	return n
}

// entry returns the work at any value, also at one that the gate refuses.
func (c *cost) entry(m *meter, v any) int {
	if !m.unevaluated {
		return c.each
	}
	return c.each + membersOf(v)*(1+c.bools)
}

// keywords returns the work of the library's keywords at a value that the gate admits.
func (c *cost) keywords(m *meter, v any) int {
	switch v := v.(type) {
	case map[string]any:
		work := len(v) * (1 + c.member)
		if m.long {
			for name := range v {
				work += len(name) / (longName / 2)
			}
		}
		return work
	case []any:
		return len(v) * (1 + c.member)
	case string:
		return len(v) / 32
	case json.Number:
		if c.numbers > 0 {
			return c.numbers * (4 + sizeOf(v)/8)
		}
	}
	return 0
}

func membersOf(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// sizeOf returns roughly how many digits the library needs to compute with a number.
func sizeOf(n json.Number) int {
	size := len(n)
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		e, _ := strconv.Atoi(string(n[i+1:]))
		size += max(e, -e)
	}
	return size
}
