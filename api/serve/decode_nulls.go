package serve

import (
	"encoding/json"
	"reflect"
)

var rawMessage = reflect.TypeFor[json.RawMessage]()

// dropNulls removes the null values that encoding/json keeps. A json.RawMessage of null becomes nil. A map of
// pointers or of json.RawMessage loses its entries of null. In a map of other values encoding/json has
// already made a null a zero value, so a request whose entries may be null needs a map of pointers. dropNulls
// does not look inside raw JSON, because the handler decides the meaning of null there.
func dropNulls(v any) { dropIn(reflect.ValueOf(v)) }

func dropIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			dropIn(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				dropIn(v.Field(i))
			}
		}
	case reflect.Slice:
		switch {
		case v.Type() == rawMessage:
			if v.CanSet() && string(v.Bytes()) == "null" {
				v.SetZero()
			}
		case holdsParts(v.Type().Elem()):
			for i := range v.Len() {
				dropIn(v.Index(i))
			}
		}
	case reflect.Map:
		dropInMap(v)
	}
}

// dropInMap drops the nulls in a map. It stores each changed value again, because the values of a map
// cannot be changed in place.
func dropInMap(m reflect.Value) {
	elem := m.Type().Elem()
	if !holdsParts(elem) {
		return
	}
	for it := m.MapRange(); it.Next(); {
		if elem.Kind() == reflect.Pointer && it.Value().IsNil() || elem == rawMessage && string(it.Value().Bytes()) == "null" {
			m.SetMapIndex(it.Key(), reflect.Value{})
			continue
		}
		changed := reflect.New(elem).Elem()
		changed.Set(it.Value())
		dropIn(changed)
		m.SetMapIndex(it.Key(), changed)
	}
}

// holdsParts reports whether t is a pointer, a struct, a slice or a map, whose values dropIn may have to change.
func holdsParts(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Map:
		return true
	}
	return false
}
