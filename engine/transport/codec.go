package transport

import (
	"encoding/binary"
	"time"
)

// The codec's words: unsigned varints, byte strings with their length before them,
// and the cursor that reads both without believing either.

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

// appendTime keeps the instant to the nanosecond, not the zone. The zero Time is
// one byte.
func appendTime(to []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(to, 0)
	}
	to = append(to, 1)
	to = binary.AppendVarint(to, t.Unix())
	return binary.AppendUvarint(to, uint64(t.Nanosecond()))
}

// cursor reads what the functions above wrote. After the first mistake it reads
// zeros and err says what it was.
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

// bytes aliases what is read. No bytes are nil, which raft takes for absent.
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

// count reads how many things follow, each of at least size bytes: what is made
// room for is never more than what has arrived.
func (c *cursor) count(size int) int {
	n := c.uint()
	if n > uint64(len(c.rest)/size) {
		c.fail("a list is longer than what is left")
		return 0
	}
	return int(n)
}

// end is the verdict: everything was read and nothing was wrong.
func (c *cursor) end() error {
	if c.err == nil && len(c.rest) > 0 {
		c.fail("there are bytes behind the end")
	}
	return c.err
}
