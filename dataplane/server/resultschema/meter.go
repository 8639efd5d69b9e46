package resultschema

import "github.com/santhosh-tekuri/jsonschema/v6"

// maxWork bounds the work of one check, in units of very roughly a tenth of a microsecond. A result of a
// megabyte against an ordinary schema takes a quarter of it.
const maxWork = 4_000_000

// perObject is the work of one object of a schema at a value, whatever its keywords.
const perObject = 4

// meter counts the work of a check and ends a check that takes too much. A schema of ten lines can branch
// twice at each level of a result and recur, so that the check of a result of forty levels would never end.
// The meter counts the work that really happens, because a bound on schemas that is strict enough would
// refuse ordinary ones.
//
// It is implemented as a keyword of the library that every object of a schema has implicitly.
type meter struct{ left int }

// exhausted is the panic value of a check that takes too much, because the library has no other way to stop.
type exhausted struct{}

// begin starts a check.
func (m *meter) begin() { m.left = maxWork }

func (m *meter) spend(work int) {
	if m.left -= work; m.left < 0 {
		panic(exhausted{})
	}
}

// vocabulary adds the meter to every object of the schema. The library calls it after most other
// keywords of the object. It does not call it for a value that type, const, enum or format refuses, nor, where
// only validity counts, as inside not, for a value that has failed already. Such work is not counted.
func (m *meter) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: location + "/work",
		Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			return toll{meter: m, weight: weightOf(obj)}, nil
		},
	}
}

// weightOf returns the work of one object of a schema at each value. Of the lists and objects in it, it
// counts 1 for each element of a list and 1 for each object, because the schemas among these have weights of
// their own.
func weightOf(obj map[string]any) weight {
	w := weight{each: perObject}
	for keyword, value := range obj {
		switch value := value.(type) {
		case []any:
			w.each += len(value)
		case map[string]any:
			w.each++
			if keyword == "patternProperties" {
				w.member += 8 * len(value)
			}
		case string:
			if keyword == "pattern" {
				w.char = 1
			}
		}
	}
	return w
}

type weight struct {
	each   int // at any value
	member int // at each member of an object, in addition to 1
	char   int // at each byte of a string
}

// toll is the work of checking one object of a schema.
type toll struct {
	meter  *meter
	weight weight
}

// Validate charges the work for a value. It never refuses the value, but ends the check if its work is used
// up.
func (t toll) Validate(_ *jsonschema.ValidatorContext, v any) {
	work := t.weight.each
	switch v := v.(type) {
	case map[string]any:
		work += len(v) * (1 + t.weight.member)
	case []any:
		work += len(v)
	case string:
		work += len(v) * t.weight.char
	}
	t.meter.spend(work)
}
