package resultschema

import "github.com/santhosh-tekuri/jsonschema/v6"

// maxWork is what one check may take, in units of very roughly a tenth of a
// microsecond. A result of a megabyte against an ordinary schema takes a quarter of it.
const maxWork = 4_000_000

// perObject is what an object of a schema takes at a value, whatever it says.
const perObject = 4

// meter counts the work of a check and ends one that takes too much. A schema of ten
// lines can branch twice at each level of a result and recur, so that a result of
// forty levels takes for ever: what is bounded is what really happens, because no
// bound on schemas would let those through that people write.
//
// It is a keyword of the library's, one that every object of a schema has without
// saying so.
type meter struct{ left int }

// exhausted is what a check panics with that takes too much: the library has no other
// way out.
type exhausted struct{}

// begin starts a check.
func (m *meter) begin() { m.left = maxWork }

func (m *meter) spend(work int) {
	if m.left -= work; m.left < 0 {
		panic(exhausted{})
	}
}

// vocabulary has the library ask the meter at every object of the schema.
func (m *meter) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: location + "/work",
		Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			return toll{meter: m, weight: weightOf(obj)}, nil
		},
	}
}

// weightOf is what an object of a schema takes at each value, besides the objects in
// it: the values it lists.
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
	member int // at each member of an object, besides 1
	char   int // at each character of a text
}

// toll is what the checks of one object of a schema cost.
type toll struct {
	meter  *meter
	weight weight
}

// Validate takes the cost of a value. It refuses nothing.
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
