package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

// Duration is a Go duration in a request or response ("5s", "10m"); "" = absent. It stays text until Parse,
// so that a server can report every faulty field of a request and not only the first.
type Duration string

// DurationOf formats d as a Duration.
func DurationOf(d time.Duration) Duration { return Duration(d.String()) }

// Parse returns the duration, or absent if d is "". A negative duration is an error.
func (d Duration) Parse(absent time.Duration) (time.Duration, error) {
	if d == "" {
		return absent, nil
	}
	v, err := time.ParseDuration(string(d))
	if err != nil {
		return 0, fmt.Errorf("%.64q is not a duration: write it like \"5s\" or \"10m\"", string(d))
	}
	if v < 0 {
		return 0, fmt.Errorf("%q is negative", string(d))
	}
	return v, nil
}

// Time is an instant in RFC 3339; "" = absent.
type Time string

// TimeOf formats t in UTC, with nanoseconds.
func TimeOf(t time.Time) Time { return Time(t.UTC().Format(time.RFC3339Nano)) }

// Parse returns the instant. ok is false if t is "".
func (t Time) Parse() (at time.Time, ok bool, err error) {
	if t == "" {
		return time.Time{}, false, nil
	}
	at, err = time.Parse(time.RFC3339Nano, string(t))
	if err != nil {
		return time.Time{}, false, fmt.Errorf("%.64q is not an RFC 3339 time like \"2026-02-11T10:00:00Z\"", string(t))
	}
	return at.UTC(), true, nil
}

// UnixNs converts a time to nanoseconds since 1970. A time before 1677 or after 2262, which no int64 can
// hold, becomes the smallest or the largest int64.
func UnixNs(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Priority is the priority of a job in a request: a word, or 0, 1 or 2; "" = absent. "low" is accepted as
// normal, because published clients send it.
type Priority string

// The priorities, most urgent first.
const (
	Critical Priority = "critical" // 0
	High     Priority = "high"     // 1
	Normal   Priority = "normal"   // 2, the default

	low Priority = "low" // means Normal
)

var priorities = [...]Priority{Critical, High, Normal}

// UnmarshalJSON accepts a word or a whole number. It keeps an unknown one as text, so that Level can refuse
// it. null counts as absent, and any other JSON is an error.
func (p *Priority) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		*p = ""
		return nil
	case len(data) > 0 && data[0] == '"':
		return json.Unmarshal(data, (*string)(p))
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return &json.UnmarshalTypeError{Value: "neither a word nor a whole number", Type: reflect.TypeFor[string]()}
	}
	if n >= 0 && n < int64(len(priorities)) {
		*p = priorities[n]
	} else {
		*p = Priority(data)
	}
	return nil
}

// Level returns the number of the priority. ok is false if p is "". The error refuses an unknown word or
// number.
func (p Priority) Level() (level int, ok bool, err error) {
	switch p {
	case "":
		return 0, false, nil
	case low:
		p = Normal
	}
	for n, word := range priorities {
		if p == word {
			return n, true, nil
		}
	}
	return 0, false, fmt.Errorf("%.64q is not a priority: use \"critical\", \"high\", \"normal\", or 0, 1, 2", string(p))
}

// PriorityOf returns the word for a number; "" if there is none.
func PriorityOf(level int) Priority {
	if level < 0 || level >= len(priorities) {
		return ""
	}
	return priorities[level]
}

// Strings is an object of strings, such as tags. In JSON a member whose value is null counts as absent.
type Strings map[string]string

// MarshalJSON encodes the object. It encodes nil as {}, because a response shows an empty object as {} and
// never as null.
func (s Strings) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]string(s))
}

// UnmarshalJSON decodes the object and drops members whose value is null. If no member is left, the result is
// nil.
func (s *Strings) UnmarshalJSON(data []byte) error {
	var raw map[string]*string
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*s = nil
	for name, value := range raw {
		if value == nil {
			continue
		}
		if *s == nil {
			*s = make(Strings, len(raw))
		}
		(*s)[name] = *value
	}
	return nil
}
