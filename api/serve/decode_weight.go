package serve

import (
	"reflect"

	"github.com/corvo/corvo/api"
)

// A few bytes of JSON can decode to a hundred times as many: an empty item of a list has three bytes, and its
// struct hundreds. So the decoded size of a body is limited in proportion to the body. Lists that keep to the
// limits of the API are far below this limit.
const (
	DecodedPerByte = 8       // bytes of memory for each byte of a body
	DecodedAnyway  = 2 << 20 // bytes more, for short lists of nearly empty items

	// unweighed is the largest size of a body that is not checked, because its lists are short.
	unweighed = 4 << 10

	// A growing list or map needs listSlack times its size, because it also holds its old copy.
	listSlack = 2
)

// Weigh returns PAYLOAD_TOO_LARGE if decoding JSON text into v would need more memory than is allowed for the
// size of the text. It follows the type of v, so that it does not count raw JSON, which keeps its size. For
// text that is not JSON the result has no meaning.
func Weigh(text []byte, v any) error {
	if len(text) <= unweighed {
		return nil
	}
	most := DecodedAnyway + DecodedPerByte*len(text)
	s := weigher{scanner{text: text}, most}
	s.value(reflect.TypeOf(v), 0)
	if s.left >= 0 {
		return nil
	}
	e := api.Errorf(api.PayloadTooLarge, "the lists and objects of the %d bytes of JSON need more than %d bytes of memory, the maximum for their length: send fewer items at once", len(text), most)
	e.Details = map[string]any{"max_decoded_bytes": most}
	return e
}

// weigher goes through a text and subtracts the decoded size of its parts from left. For an invalid text left
// does not matter, because the decoder finds the fault before it allocates anything.
type weigher struct {
	scanner
	left int // negative = the limit was exceeded
}

// mapSize is the size of a map in bytes. A map with one member already has room for mapSlots members.
const (
	mapSize  = 48
	mapSlots = 8
)

// memberSize is the size of a member of a map whose value needs no more than a json.RawMessage.
var memberSize = listSlack * int(reflect.TypeFor[string]().Size()+rawMessage.Size())

// maxNesting is the depth limit of encoding/json.
const maxNesting = 10000

// value goes over one value, which is decoded into the type t.
func (s *weigher) value(t reflect.Type, depth int) {
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

// array goes over a list whose elements are decoded into the type t.
func (s *weigher) array(t reflect.Type, depth int) {
	for range s.elements() {
		if s.left -= listSlack * int(t.Size()); s.left < 0 {
			return
		}
		s.value(t, depth+1)
	}
}

// mapping goes over an object that is decoded into a map with values of the type t.
func (s *weigher) mapping(t reflect.Type, depth int) {
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

// object goes over an object that is decoded into a struct whose own size is counted already.
func (s *weigher) object(fields *names, depth int) {
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
