package text

import "fmt"

// MaxNesting is the largest nesting of objects and lists in a client's document. Responses and payloads add a
// few levels around a document, and only once. So the nesting stays far below the limits of decoders: 10,000
// levels in encoding/json, 1,000 in SQLite.
const MaxNesting = 512

// CheckNesting returns an error if objects and lists are nested more than `most` levels deep.
func CheckNesting(json []byte, most int) error {
	if len(json) <= 2*most {
		return nil // each level has a beginning and an end
	}
	if n := Nesting(json); n > most {
		return fmt.Errorf("nested %d levels deep, at most %d are taken", n, most)
	}
	return nil
}

// nests marks the bytes that matter for the nesting of JSON.
var nests = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true}

// Nesting returns the deepest nesting of objects and lists in JSON. For invalid JSON the result has no
// meaning.
func Nesting(json []byte) (most int) {
	depth := 0
	for at := 0; at < len(json); at++ {
		c := json[at]
		if !nests[c] {
			continue
		}
		switch c {
		case '"':
			size, _ := StringSize(json[at:])
			at += size - 1
		case '{', '[':
			depth++
			most = max(most, depth)
		default:
			depth--
		}
	}
	return most
}
