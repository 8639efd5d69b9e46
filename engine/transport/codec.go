package transport

import (
	"encoding/binary"
	"time"
)

// The encoding uses unsigned varints and byte strings preceded by their length. The cursor decodes both and
// trusts neither.

func appendBytes[T ~[]byte | ~string](to []byte, b T) []byte {
	to = binary.AppendUvarint(to, uint64(len(b)))
	return append(to, b...)
}

func appendBool(to []byte, b bool) []byte {
	if b {
		return append(to, 1)
	}
	return append(to, 0)
}

// appendTime encodes the instant to the nanosecond, without the zone. The zero Time takes one byte.
func appendTime(to []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(to, 0)
	}
	to = append(to, 1)
	to = binary.AppendVarint(to, t.Unix())
	return binary.AppendUvarint(to, uint64(t.Nanosecond()))
}

// cursor decodes the output of the functions above. After the first error it returns zeros, and err holds the
// error.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = malformed("%s", what)
	}
	c.rest = nil
}

func (c *cursor) uint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.fail("a number is cut off or too large")
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cursor) int() int64 {
	v, n := binary.Varint(c.rest)
	if n <= 0 {
		c.fail("a number is cut off or too large")
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cursor) byte() byte {
	if len(c.rest) == 0 {
		c.fail("a byte is missing")
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

func (c *cursor) bool() bool {
	b := c.byte()
	if b > 1 {
		c.fail("a truth value is neither 0 nor 1")
	}
	return b == 1
}

// bytes returns a slice of the input. It returns nil for no bytes, because raft takes nil for absent.
func (c *cursor) bytes() []byte {
	n := c.uint()
	if n > uint64(len(c.rest)) {
		c.fail("a string is longer than what is left")
		return nil
	}
	if n == 0 {
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) string() string { return string(c.bytes()) }

func (c *cursor) time() time.Time {
	if !c.bool() {
		return time.Time{}
	}
	sec, ns := c.int(), c.uint()
	if ns >= uint64(time.Second) {
		c.fail("a time has more than a second of nanoseconds")
		return time.Time{}
	}
	return time.Unix(sec, int64(ns))
}

// count decodes the number of following elements, each of at least size bytes. It refuses a number that needs
// more bytes than have arrived, so that no memory is allocated for elements that are not there.
func (c *cursor) count(size int) int {
	n := c.uint()
	if n > uint64(len(c.rest)/size) {
		c.fail("a list is longer than what is left")
		return 0
	}
	return int(n)
}

// end returns an error if decoding failed or bytes are left.
func (c *cursor) end() error {
	if c.err == nil && len(c.rest) > 0 {
		c.fail("there are bytes behind the end")
	}
	return c.err
}
