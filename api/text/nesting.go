package text

import "fmt"

// MaxNesting is how many objects and lists of a client's document may lie in each other.
// Answers and payloads that are made of documents put them into a few more, never into
// what they were put into before: all of it stays far from what decoders read. Those of
// encoding/json go 10,000 deep, SQLite's 1,000.
const MaxNesting = 512

// CheckNesting says what is wrong with JSON in which more than most objects and lists lie
// in each other.
func CheckNesting(json []byte, most int) error {
	if len(json) <= 2*most {
		return nil // each has a beginning and an end
	}
	if n := Nesting(json); n > most {
		return fmt.Errorf("nested %d levels deep, at most %d are taken", n, most)
	}
	return nil
}

// nests are the bytes that JSON's nesting is counted by.
var nests = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true}

// Nesting is how many objects and lists of JSON lie in each other where there are the
// most. Of text that is no JSON it may say anything.
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
