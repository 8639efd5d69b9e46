package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
)

// known has the schemas of types whose JSON form differs from their Go kind.
var known = map[reflect.Type]object{
	reflect.TypeFor[json.RawMessage]():     {},
	reflect.TypeFor[money.Nano]():          {"type": "number", "description": "US dollars, exact to nine decimals"},
	reflect.TypeFor[money.Total]():         {"type": "number", "description": "US dollars, exact to nine decimals; may exceed 64 bits in billionths"},
	reflect.TypeFor[money.Reported]():      {"type": "number", "description": "US dollars, rounded to nine decimals"},
	reflect.TypeFor[money.Count]():         {"type": "integer", "description": "integer that may exceed 64 bits"},
	reflect.TypeFor[money.ReportedCount](): {"type": "integer", "format": "int64"},
	reflect.TypeFor[time.Time]():           {"type": "string", "format": "date-time"},
	reflect.TypeFor[api.Time]():            {"type": "string", "format": "date-time"},
	reflect.TypeFor[api.Duration]():        {"type": "string", "description": "duration, such as 5s, 10m or 1h30m"},
	reflect.TypeFor[api.Priority]():        {"type": []string{"string", "integer"}, "enum": []any{"critical", "high", "normal", "low", 0, 1, 2}},
}

// schemas collects the named types of a document.
type schemas struct {
	named  object
	types  map[string]reflect.Type
	faults []error
}

func newSchemas() *schemas {
	return &schemas{named: object{}, types: map[string]reflect.Type{}}
}

func (s *schemas) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

func (s *schemas) err() error { return errors.Join(s.faults...) }

// of returns the schema of the type of v.
func (s *schemas) of(v any) object { return s.schema(reflect.TypeOf(v)) }

func (s *schemas) schema(t reflect.Type) object {
	if schema, ok := known[t]; ok {
		return schema
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schema(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return object{"type": "integer", "format": "int32"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	}
	return object{} // an interface: anything
}

// structure describes a named struct once and returns a reference to it. It returns the schema of a struct without
// a name. Two types of one name are a fault, and so is a type named Problem, which the document itself describes.
func (s *schemas) structure(t reflect.Type) object {
	name := t.Name()
	if name == "" {
		return s.members(t)
	}
	ref := object{"$ref": "#/components/schemas/" + name}
	if other, ok := s.types[name]; ok || name == "Problem" {
		if other != t {
			s.fault("two types are called %s: %v and %v", name, other, t)
		}
		return ref
	}
	s.types[name] = t // before its members, because they may refer back to it
	s.named[name] = s.members(t)
	return ref
}

func (s *schemas) members(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fieldsOf(t) {
		properties[f.name] = s.schema(f.typ)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}
