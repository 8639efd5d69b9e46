package resultschema

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// unlimited is the bound for a canonical text of any length.
const unlimited = math.MaxInt

// constants is the set of the values of const or enum, by their canonical texts, so that a check compares a value
// with all of them at once.
type constants struct {
	texts   map[string]struct{}
	longest int
}

func constantsOf(values []any) *constants {
	c := &constants{texts: make(map[string]struct{}, len(values))}
	for _, v := range values {
		text, _ := canonical(nil, v, unlimited)
		c.texts[text] = struct{}{}
		c.longest = max(c.longest, len(text))
	}
	return c
}

func (c *constants) has(m *meter, v any) bool {
	text, ok := canonical(m, v, c.longest)
	if !ok {
		return false
	}
	_, ok = c.texts[text]
	return ok
}

// canonical returns a text that two values share if and only if JSON Schema calls them equal: numbers by
// their mathematical value and objects in any order of their members. It returns false if the text has more
// bytes than most. It charges the meter for each value that it reads.
func canonical(m *meter, v any, most int) (string, bool) {
	c := canon{meter: m, most: most}
	ok := c.write(v)
	return string(c.out), ok
}

type canon struct {
	meter *meter // nil charges nothing
	most  int
	out   []byte
}

func (c *canon) write(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return c.object(v)
	case []any:
		if !c.room(len(v)) {
			return false
		}
		c.out = append(c.out, '[')
		for _, item := range v {
			if !c.write(item) {
				return false
			}
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, ']')
	case string:
		return c.text('"', v)
	case json.Number:
		return c.text('#', decimalOf(v).String())
	case bool:
		if !c.room(1) {
			return false
		}
		c.out = strconv.AppendBool(c.out, v)
	default:
		if !c.room(1) {
			return false
		}
		c.out = append(c.out, "null"...)
	}
	return len(c.out) <= c.most
}

func (c *canon) object(v map[string]any) bool {
	if !c.room(len(v)) {
		return false
	}
	c.out = append(c.out, '{')
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !c.text('"', name) || !c.write(v[name]) {
			return false
		}
	}
	c.out = append(c.out, '}')
	return len(c.out) <= c.most
}

// text writes a text after its length, so that no text can look like several.
func (c *canon) text(mark byte, text string) bool {
	if !c.room(len(text)) {
		return false
	}
	c.out = append(c.out, mark)
	c.out = strconv.AppendInt(c.out, int64(len(text)), 10)
	c.out = append(append(c.out, mark), text...)
	return len(c.out) <= c.most
}

// room charges for n more bytes and returns true, or returns false if they do not fit.
func (c *canon) room(n int) bool {
	if n > c.most-len(c.out) {
		return false
	}
	if c.meter != nil {
		c.meter.spend(1 + n/8)
	}
	return true
}

// decimal is a number: its digits, without zeros at either end, times a power of ten. Zero has no digits.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// decimalOf parses a number of JSON. The function parse has bounded the number's exponent.
func decimalOf(n json.Number) decimal {
	text, negative := strings.CutPrefix(string(n), "-")
	d := decimal{negative: negative}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		d.exponent, _ = strconv.Atoi(text[i+1:])
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits) - len(fraction)
	d.digits = strings.TrimLeft(d.digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}

func (d decimal) String() string {
	sign := ""
	if d.negative {
		sign = "-"
	}
	return sign + d.digits + "e" + strconv.Itoa(d.exponent)
}

func isInteger(v any) bool {
	n, ok := v.(json.Number)
	return ok && decimalOf(n).exponent >= 0
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}
