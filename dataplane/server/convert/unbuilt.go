package convert

import (
	"bytes"
	"encoding/json"
)

// Documented fields that this server does not act on. A request that sets one is
// answered 501 with its name instead of being done without it. When a field is
// built it moves from here to the api type.

type rawField struct {
	name string
	raw  json.RawMessage
}

// reportSet names the fields that ask for something.
func reportSet(f *Faults, fields []rawField) {
	for _, field := range fields {
		if len(field.raw) > 0 && says(field.raw) {
			f.Unsupported(field.name)
		}
	}
}

// says reports whether a value asks for anything. null, "", 0, false and lists
// and objects of nothing else do not: clients that always write every field of
// theirs send them.
func says(raw json.RawMessage) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // no number is too large to be told from 0
	for {
		token, err := d.Token()
		if err != nil {
			return false // the end: raw was parsed before
		}
		switch t := token.(type) {
		case string:
			// Names of an object come as tokens too; that they are there says
			// nothing, and they are always followed by a value.
			if t != "" && !isName(d, raw) {
				return true
			}
		case bool:
			if t {
				return true
			}
		case json.Number:
			if zero, err := t.Float64(); err != nil || zero != 0 {
				return true
			}
		}
	}
}

// isName says whether the string token just read from raw is a member's name.
func isName(d *json.Decoder, raw json.RawMessage) bool {
	rest := bytes.TrimLeft(raw[d.InputOffset():], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}
