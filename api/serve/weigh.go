package serve

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"

	"github.com/corvo/corvo/api"
)

// A few bytes of JSON can decode to a hundred times their number: an empty item of a list
// takes three, and the struct it becomes hundreds. What a body may decode to is therefore
// bounded by what it has itself. Lists within their bounds are far from that.
const (
	DecodedPerByte = 8       // bytes of memory for each byte of a body,
	DecodedAnyway  = 2 << 20 // and so many besides, for short lists of nearly empty items

	// unweighed is how large a body may be without a look at it: lists of so few bytes are
	// short ones.
	unweighed = 4 << 10

	// listSlack is how much more room a list or a map takes while it grows: it holds the
	// old one as well.
	listSlack = 2
)

// Weigh refuses text, JSON that is to be decoded into v, if that would take more memory
// than such a text is worth (PAYLOAD_TOO_LARGE). It is one pass over the text that
// allocates nothing but names it does not know. It goes along the type of v, so that raw JSON counts by its bytes
// alone. Of text that is no JSON it says nothing.
func Weigh(text []byte, v any) error {
	if len(text) <= unweighed {
		return nil
	}
	most := DecodedAnyway + DecodedPerByte*len(text)
	s := scale{text: text, left: most}
	s.value(reflect.TypeOf(v), 0)
	if s.left >= 0 {
		return nil
	}
	e := api.Errorf(api.PayloadTooLarge, "the lists and objects of the %d bytes of JSON would take more than %d bytes of memory, which is the most for so short a text: send fewer items at once", len(text), most)
	e.Details = map[string]any{"max_decoded_bytes": most}
	return e
}

// scale goes through a text and takes what its parts decode to from what is left. Where
// it takes a fault of the text for something else it may stop anywhere, for decoders
// find the fault before they make anything.
type scale struct {
	text []byte
	at   int
	left int // negative: there was not enough
}

var (
	elementSize = int(rawMessage.Size()) // at least: refusals are found in lists of raw JSON,
	memberSize  = listSlack * int(reflect.TypeFor[string]().Size()+rawMessage.Size())
)

// maxNesting is how deep encoding/json goes.
const maxNesting = 10000

// value goes over one value that is decoded into a t.
func (s *scale) value(t reflect.Type, depth int) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		s.left -= int(t.Size())
	}
	first, kind := s.peek(), t.Kind()
	switch {
	case depth > maxNesting:
		s.at = len(s.text)
	case kind == reflect.Interface || kind == reflect.Struct && ownDecoder(t):
		s.left -= s.skip() * memberSize
	case kind == reflect.Struct && first == '{':
		s.object(membersOf(t), nil, 0, depth)
	case kind == reflect.Map && first == '{':
		s.object(nil, t.Elem(), memberSize+listSlack*max(int(t.Elem().Size())-elementSize, 0), depth)
	case kind == reflect.Slice && first == '[' && t.Elem().Kind() != reflect.Uint8:
		s.array(t.Elem(), depth)
	default:
		s.skip()
	}
}

// array goes over a list whose elements are decoded into a t.
func (s *scale) array(t reflect.Type, depth int) {
	size := listSlack * max(int(t.Size()), elementSize)
	s.at++
	for more := s.peek() != ']'; more && s.left >= 0; more = s.over(',') {
		s.left -= size
		s.value(t, depth+1)
	}
	s.over(']')
}

// object goes over the members of a struct's object, or of a map's, whose elements are
// decoded into an elem and take size.
func (s *scale) object(of *members, elem reflect.Type, size, depth int) {
	s.at++
	for more := true; more && s.left >= 0 && s.peek() == '"'; more = s.over(',') {
		name := s.string()
		s.over(':')
		t, cost := elem, size
		if of != nil {
			if t = of.exact[string(name)]; t == nil {
				t, cost = of.find(name), memberSize
			}
		}
		s.left -= cost
		if t == nil {
			s.skip()
		} else {
			s.value(t, depth+1)
		}
	}
	s.over('}')
}

// peek is the next byte that is no white space; 0 at the end.
func (s *scale) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c > ' ' {
			return c
		}
	}
	return 0
}

// over goes over a byte, and says whether it is the next one.
func (s *scale) over(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// string goes over a string and is what lies between its quotes.
func (s *scale) string() []byte {
	begin := s.at + 1
	for s.at = begin; ; s.at++ {
		n := bytes.IndexByte(s.text[s.at:], '"')
		if n < 0 {
			s.at = len(s.text)
			return nil
		}
		s.at += n
		slashes := s.at
		for slashes > begin && s.text[slashes-1] == '\\' {
			slashes--
		}
		if (s.at-slashes)%2 == 0 {
			s.at++
			return s.text[begin : s.at-1]
		}
	}
}

// structural are the bytes that a value's bounds are found by.
var structural = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true, ',': true}

// skip goes over a value whatever it is, and says how many it has in it.
func (s *scale) skip() (parts int) {
	for depth := 0; ; s.at++ {
		for s.at < len(s.text) && !structural[s.text[s.at]] {
			s.at++
		}
		if s.at == len(s.text) {
			return parts
		}
		switch s.text[s.at] {
		case '"':
			s.string()
			s.at--
		case '{', '[':
			depth++
			parts++
		case ',':
			if depth == 0 {
				return parts
			}
			parts++
		default:
			if depth == 0 {
				return parts
			}
			depth--
		}
		if depth == 0 {
			s.at++
			return parts
		}
	}
}

// members are the fields of a struct by their names in JSON.
type members struct {
	exact  map[string]reflect.Type
	fields []field
}

var memberTypes sync.Map // reflect.Type of a struct -> *members

func membersOf(t reflect.Type) *members {
	if m, ok := memberTypes.Load(t); ok {
		return m.(*members)
	}
	m := &members{exact: map[string]reflect.Type{}, fields: fieldsOf(t)}
	for _, f := range m.fields {
		m.exact[f.name] = f.typ
	}
	memberTypes.Store(t, m)
	return m
}

// find is the type of the field that encoding/json finds by a name which is not quite
// one, between its quotes; nil where there is none.
func (m *members) find(name []byte) reflect.Type {
	text := string(name)
	if bytes.IndexByte(name, '\\') >= 0 {
		_ = json.Unmarshal([]byte(`"`+text+`"`), &text) // else it is the text's fault
	}
	f, _ := named(m.fields, text)
	return f.typ
}
