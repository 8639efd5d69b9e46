package resultschema

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// gate charges the work of one object of a schema at a value before the library does the work. The library
// checks type, const, enum and format first, and skips the object's other keywords after a failure; a keyword
// of our own would come last. So the gate replaces the object's format, and itself checks type, const, enum
// and the real format.
type gate struct {
	meter *meter
	cost  cost

	types    *jsonschema.Types
	want     []string // the names of types
	constant *constants
	enum     *constants
	format   *jsonschema.Format
	original jsonschema.Schema // has only Const and Enum, for reports
}

// refusal is a failure of type, const or enum. The library wraps it in the failure of a format, and causeOf
// unwraps it.
type refusal struct{ kind jsonschema.ErrorKind }

func (r refusal) Error() string { return "refused" }

// causeOf returns the kind of an error. For a refusal of a gate it returns the kind that the library would give.
func causeOf(e *jsonschema.ValidationError) jsonschema.ErrorKind {
	if f, ok := e.ErrorKind.(*kind.Format); ok {
		var r refusal
		if errors.As(f.Err, &r) {
			return r.kind
		}
	}
	return e.ErrorKind
}

// install gives an object its gate, and replaces its uniqueItems. The other keywords stay with the library.
func install(s *jsonschema.Schema, m *meter, chain int) {
	g := &gate{meter: m, cost: costOf(s, chain), types: s.Types, format: s.Format, original: jsonschema.Schema{Const: s.Const, Enum: s.Enum}}
	if s.Types != nil {
		g.want = s.Types.ToStrings()
	}
	if s.Const != nil {
		g.constant = constantsOf([]any{*s.Const})
	}
	if s.Enum != nil {
		g.enum = constantsOf(s.Enum.Values)
	}
	s.Types, s.Const, s.Enum = nil, nil, nil
	name := ""
	if s.Format != nil {
		name = s.Format.Name
	}
	s.Format = &jsonschema.Format{Name: name, Validate: g.check}
	if s.UniqueItems {
		s.UniqueItems = false
		s.Extensions = append(s.Extensions, uniqueItems{m})
	}
}

// check charges the work of the object at a value and checks the keywords of the gate.
func (g *gate) check(v any) error {
	g.meter.spend(g.cost.entry(g.meter, v))
	if err := g.refuse(v); err != nil {
		g.meter.spend(perFailure)
		return err
	}
	g.meter.spend(g.cost.keywords(g.meter, v))
	return nil
}

func (g *gate) refuse(v any) error {
	if g.types != nil && !allows(*g.types, v) {
		return refusal{&kind.Type{Got: typeName(v), Want: g.want}}
	}
	if g.constant != nil && !g.constant.has(g.meter, v) {
		return refusal{&kind.Const{Got: v, Want: *g.original.Const}}
	}
	if g.enum != nil && !g.enum.has(g.meter, v) {
		return refusal{&kind.Enum{Got: v, Want: g.original.Enum.Values}}
	}
	if g.format == nil {
		return nil
	}
	s, ok := v.(string)
	switch {
	case !ok:
		return nil // every format is one of strings
	case g.format.Name == "regex":
		g.meter.spend(len(s) * perExpressionByte)
		_, err := syntax.Parse(s, syntax.Perl)
		return err
	default:
		g.meter.spend(len(s) / 4)
		return g.format.Validate(v)
	}
}

// jsonTypes has the library's flag of each type.
var jsonTypes = func() map[string]jsonschema.Types {
	all := map[string]jsonschema.Types{}
	for _, name := range []string{"null", "boolean", "number", "integer", "string", "array", "object"} {
		var t jsonschema.Types
		t.Add(name)
		all[name] = t
	}
	return all
}()

func allows(types jsonschema.Types, v any) bool {
	name := typeName(v)
	if types&jsonTypes[name] != 0 {
		return true
	}
	return name == "number" && types&jsonTypes["integer"] != 0 && isInteger(v)
}

// uniqueItems implements the keyword, because the library compares each item with all earlier ones of the
// same hash, and a client can write thousands of different items with one hash.
type uniqueItems struct{ meter *meter }

func (u uniqueItems) Validate(ctx *jsonschema.ValidatorContext, v any) {
	items, ok := v.([]any)
	if !ok {
		return
	}
	seen := make(map[string]int, len(items))
	for i, item := range items {
		text, _ := canonical(u.meter, item, unlimited)
		if before, ok := seen[text]; ok {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{before, i}})
			return
		}
		seen[text] = i
	}
}

// prepare makes the work of a compiled schema countable, as meter explains. all are the objects of the schema.
func prepare(all []*jsonschema.Schema, m *meter) error {
	if err := fixReferences(all); err != nil {
		return err
	}
	chains, err := chainsOf(all)
	if err != nil {
		return err
	}
	for _, s := range all {
		m.unevaluated = m.unevaluated || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
		install(s, m, chains[s])
	}
	return nil
}

// fixReferences turns each $dynamicRef and $recursiveRef into a $ref, because the library resolves them anew
// at each value, by a search through the scopes of all levels above. It refuses a reference with several
// possible targets. With only one target, both forms mean the same.
func fixReferences(all []*jsonschema.Schema) error {
	dynamic, recursive := map[string]int{}, 0
	for _, s := range all {
		if s.DynamicAnchor != "" {
			dynamic[s.DynamicAnchor]++
		}
		if s.RecursiveAnchor {
			recursive++
		}
	}
	for _, s := range all {
		if ref := s.DynamicRef; ref != nil {
			if ref.Anchor != "" && dynamic[ref.Anchor] > 1 {
				return fmt.Errorf("has more than one $dynamicAnchor %q that a $dynamicRef can mean: use $ref", ref.Anchor)
			}
			s.DynamicRef = nil
			refer(s, ref.Ref)
		}
		if to := s.RecursiveRef; to != nil {
			if recursive > 1 {
				return errors.New("has more than one $recursiveAnchor that a $recursiveRef can mean: use $ref")
			}
			s.RecursiveRef = nil
			refer(s, to)
		}
	}
	return nil
}

// refer adds a $ref to an object, which may have one already.
func refer(s, to *jsonschema.Schema) {
	if s.Ref == nil {
		s.Ref = to
		return
	}
	s.AllOf = append(s.AllOf, to)
}

// chainsOf returns for each object the largest number of objects that can precede it at the same value. The
// library looks back through these for a cycle. chainsOf refuses a schema with a cycle, because the standard leaves
// its meaning open and the library's report of a cycle takes quadratic time.
func chainsOf(all []*jsonschema.Schema) (map[*jsonschema.Schema]int, error) {
	const open, done = 1, 2
	state := map[*jsonschema.Schema]int{}
	var order []*jsonschema.Schema // each schema comes after the ones that it applies
	var visit func(s *jsonschema.Schema) error
	visit = func(s *jsonschema.Schema) error {
		switch state[s] {
		case done:
			return nil
		case open:
			return fmt.Errorf("applies %s to the same value again and again: let a schema refer to itself only for members or items", strings.TrimPrefix(s.Location, location))
		}
		state[s] = open
		for _, sub := range applied(s) {
			if err := visit(sub); err != nil {
				return err
			}
		}
		state[s] = done
		order = append(order, s)
		return nil
	}
	for _, s := range all {
		if err := visit(s); err != nil {
			return nil, err
		}
	}
	chains := map[*jsonschema.Schema]int{}
	for i := len(order) - 1; i >= 0; i-- {
		for _, sub := range applied(order[i]) {
			chains[sub] = max(chains[sub], chains[order[i]]+1)
		}
	}
	return chains, nil
}

// applied returns the schemas that an object applies to the same value.
func applied(s *jsonschema.Schema) []*jsonschema.Schema {
	var subs []*jsonschema.Schema
	for _, sub := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if sub != nil {
			subs = append(subs, sub)
		}
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		subs = append(subs, list...)
	}
	for _, sub := range s.DependentSchemas {
		subs = append(subs, sub)
	}
	for _, dependency := range s.Dependencies {
		if sub, ok := dependency.(*jsonschema.Schema); ok {
			subs = append(subs, sub)
		}
	}
	return subs
}
