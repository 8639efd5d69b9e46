package job

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// member is a member of a JSON object: its name and the text of its value.
type member struct {
	name  string
	value []byte
}

// Compose returns the payload of a job as its worker receives it: with the members that its origin adds, at
// the end. previous is the result of the job before, or nil for none. Everything else stays as it is,
// including the digits of numbers and the order and spacing of members, because the text is spliced and not
// encoded anew. An added member replaces a member of the same name; if that were refused, a step could not
// pass on its own input. A payload that is not an object stays as it is, and the conversion of requests
// refuses such a payload.
func Compose(payload []byte, o *Origin, previous []byte) []byte {
	added := o.members(previous)
	if len(added) == 0 {
		return payload
	}
	if len(payload) == 0 {
		payload = []byte("{}")
	}
	parts, open, end := splitObject(payload)
	if end == 0 {
		return payload
	}
	out := make([]byte, 0, len(payload)+len(previous)+256)
	out = append(out, payload[:open+1]...)
	begun := false
	for _, part := range parts {
		if gives(part, added) {
			continue
		}
		if begun {
			out = append(out, ',')
		}
		out, begun = append(out, part...), true
	}
	for _, m := range added {
		if begun {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), m.name...), `":`...)
		out, begun = append(out, m.value...), true
	}
	return append(out, payload[end:]...)
}

// gives reports whether an added member replaces this part of an object.
func gives(part []byte, added []member) bool {
	name := nameOf(part)
	for _, m := range added {
		if name == m.name {
			return true
		}
	}
	return false
}

// splitObject splits the text of a JSON object at its commas and returns where it opens and ends. end is 0 if
// the text is not an object. The text must be JSON.
func splitObject(text []byte) (parts [][]byte, open, end int) {
	open = len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
	if open == len(text) || text[open] != '{' {
		return nil, 0, 0
	}
	depth, quoted, from := 0, false, open+1
	for i := open; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == ',' && depth == 1:
			parts, from = append(parts, text[from:i]), i+1
		case c == '}' || c == ']':
			if depth--; depth > 0 {
				continue
			}
			if last := text[from:i]; len(bytes.TrimLeft(last, " \t\r\n")) > 0 {
				parts = append(parts, last)
			}
			return parts, open, i
		}
	}
	return nil, 0, 0
}

// nameOf returns the name of a member, whose text may begin with spaces.
func nameOf(part []byte) string {
	part = bytes.TrimLeft(part, " \t\r\n")
	for i := 1; i < len(part); i++ {
		switch part[i] {
		case '\\':
			i++
		case '"':
			var name string
			if json.Unmarshal(part[:i+1], &name) != nil {
				return ""
			}
			return name
		}
	}
	return ""
}

// members returns the members that an origin adds to a payload.
func (o *Origin) members(previous []byte) []member {
	switch o.GetKind() {
	case OriginKind_ORIGIN_KIND_STEP:
		return []member{{"previous", o.previous(previous)}}
	case OriginKind_ORIGIN_KIND_FAILURE:
		b := append(o.jobBefore(), `,"attempt":`...)
		b = strconv.AppendUint(b, uint64(o.Attempt), 10)
		b = append(b, `,"error":`...)
		return []member{{"failure", append(append(b, quote(o.Error)...), '}')}}
	case OriginKind_ORIGIN_KIND_EXIT:
		return []member{{"outcome", quote(o.Outcome)}, {"previous", o.previous(previous)}}
	case OriginKind_ORIGIN_KIND_BATCH:
		return []member{{"batch", o.batch()}}
	}
	return nil
}

// previous returns the job before with its result, or null if it has none.
func (o *Origin) previous(result []byte) []byte {
	if len(result) == 0 {
		result = []byte("null")
	}
	b := append(o.jobBefore(), `,"result":`...)
	return append(append(b, result...), '}')
}

// jobBefore begins an object that identifies the job before.
func (o *Origin) jobBefore() []byte {
	b := append([]byte(`{"job_id":`), idText(IDPrefix, o.JobId)...)
	return append(append(b, `,"queue":`...), quote(o.Queue)...)
}

func (o *Origin) batch() []byte {
	b := append([]byte(`{"id":`), idText("batch_", o.BatchId)...)
	for _, count := range [...]struct {
		name string
		n    uint64
	}{{"total", o.Total}, {"succeeded", o.Succeeded}, {"failed", o.Failed}, {"cancelled", o.Cancelled}} {
		b = append(append(append(b, `,"`...), count.name...), `":`...)
		b = strconv.AppendUint(b, count.n, 10)
	}
	return append(b, '}')
}

// idText encodes the API form of an id as JSON.
func idText(prefix string, id []byte) []byte {
	known, err := IDFromBytes(id)
	if err != nil {
		return []byte("null") // no op makes such an origin
	}
	return quote(prefix + known.String()[len(IDPrefix):])
}

func quote(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}
