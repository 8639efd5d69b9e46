package serve

import (
	"reflect"

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
// than such a text is worth (PAYLOAD_TOO_LARGE). It goes along the type of v, so that raw JSON
// counts by its bytes alone. Of text that is no JSON it says nothing.
func Weigh(text []byte, v any) error {
	if len(text) <= unweighed {
		return nil
	}
	most := DecodedAnyway + DecodedPerByte*len(text)
	s := scale{scanner{text: text}, most}
	s.value(reflect.TypeOf(v), 0)
	if s.left >= 0 {
		return nil
	}
	e := api.Errorf(api.PayloadTooLarge, "the lists and objects of the %d bytes of JSON would take more than %d bytes of memory, which is the most for so short a text: send fewer items at once", len(text), most)
	e.Details = map[string]any{"max_decoded_bytes": most}
	return e
}

// scale goes through a text and takes what its parts decode to from what is left. Of a
// text with a fault it may think anything, for decoders find the fault before they make
// anything.
type scale struct {
	scanner
	left int // negative: there was not enough
}

// A map takes so many bytes, and from its first member on room for so many.
const (
	mapSize  = 48
	mapSlots = 8
)

// memberSize is what a member of a map takes whatever it is.
var memberSize = listSlack * int(reflect.TypeFor[string]().Size()+rawMessage.Size())

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
		s.object(fieldNames(t), depth)
	case kind == reflect.Map && first == '{':
		s.mapping(t.Elem(), depth)
	case kind == reflect.Slice && first == '[' && t.Elem().Kind() != reflect.Uint8:
		s.array(t.Elem(), depth)
	default:
		s.skip()
	}
}

// array goes over a list whose elements are decoded into a t.
func (s *scale) array(t reflect.Type, depth int) {
	for range s.elements() {
		if s.left -= listSlack * int(t.Size()); s.left < 0 {
			return
		}
		s.value(t, depth+1)
	}
}

// mapping goes over an object whose members are decoded into a map of t.
func (s *scale) mapping(t reflect.Type, depth int) {
	member := memberSize + listSlack*max(int(t.Size())-int(rawMessage.Size()), 0)
	room := mapSlots * member / listSlack
	s.left -= mapSize
	for range s.members() {
		if s.left -= member + room; s.left < 0 {
			return
		}
		room = 0
		s.value(t, depth+1)
	}
}

// object goes over an object that is decoded into a struct, which has its size already.
func (s *scale) object(fields *names, depth int) {
	for name := range s.members() {
		if s.left < 0 {
			return
		}
		if f, ok := fields.find(name); ok {
			s.value(f.typ, depth+1)
		} else {
			s.skip()
		}
	}
}
