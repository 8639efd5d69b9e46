package view

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// place is the position at which a page begins. A cursor encodes a place and a hash of the query and the
// incarnation, so that nobody can silently use the cursor of one search for another search or another
// namespace. Numbers never change, so pages neither repeat nor omit a job that fits throughout and keeps its
// position in the order, regardless of writes between the pages.
type place struct {
	set  bool
	from int64 // newest first: numbers below it; oldest first: numbers from it on
	seen int64 // jobs on the previous pages

	// For pages that are not sorted by creation: the end of the stretch to which they belong, and the last
	// job of it that was shown.
	bounded bool
	to      int64
	cut     bool
	last    key
}

const (
	placeVersion = 2
	maxPlace     = 128 // characters
)

// Flags of a place.
const (
	placeBounded = 1 << iota
	placeCut
	placeNull
)

// reasonStretch is the reason that a page of a stretch gives for being partial.
const reasonStretch = "there are too many jobs to sort at once: they are sorted in parts"

var (
	errNotACursor    = errors.New("cursor is not one this server gave out: start again without it")
	errForeignCursor = errors.New("cursor belongs to another filter, order or namespace: repeat the search it came from, or start again without it")
)

func (p place) text(hash uint64) string {
	var flags byte
	for flag, is := range map[byte]bool{placeBounded: p.bounded, placeCut: p.cut, placeNull: p.last.null} {
		if is {
			flags |= flag
		}
	}
	buf := []byte{placeVersion}
	buf = binary.BigEndian.AppendUint64(buf, hash)
	buf = append(buf, flags)
	for _, n := range [...]int64{p.from, p.seen, p.to, p.last.number} {
		buf = binary.AppendUvarint(buf, uint64(n))
	}
	return base64.RawURLEncoding.EncodeToString(binary.AppendVarint(buf, p.last.value))
}

func parsePlace(text string, hash uint64) (p place, err error) {
	if text == "" {
		return place{}, nil
	}
	if len(text) > maxPlace {
		return place{}, errNotACursor
	}
	buf, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(buf) < 10 || buf[0] != placeVersion {
		return place{}, errNotACursor
	}
	if binary.BigEndian.Uint64(buf[1:9]) != hash {
		return place{}, errForeignCursor
	}
	flags := buf[9]
	p.set, p.bounded, p.cut, p.last.null = true, flags&placeBounded != 0, flags&placeCut != 0, flags&placeNull != 0
	buf = buf[10:]
	for _, into := range [...]*int64{&p.from, &p.seen, &p.to, &p.last.number} {
		n, length := binary.Uvarint(buf)
		if length <= 0 || n > maxNumber {
			return place{}, errNotACursor
		}
		*into, buf = int64(n), buf[length:]
	}
	value, length := binary.Varint(buf)
	if length <= 0 || length != len(buf) {
		return place{}, errNotACursor
	}
	p.last.value = value
	return p, nil
}

// narrow restricts the search to the numbers that lie behind the place.
func (p *place) narrow(s *search) {
	if s.Order == Ascending {
		s.lo = max(s.lo, p.from)
		if p.bounded {
			s.hi = min(s.hi, p.to)
		}
		return
	}
	if p.set {
		s.hi = min(s.hi, p.from)
	}
	if p.bounded {
		s.lo = max(s.lo, p.to)
	}
}

// cursorAfter returns the cursor at which a search continues after so many of the found jobs were shown. It
// returns "" if no job is left.
func (s *search) cursorAfter(shown int) string {
	next := place{from: s.at(), seen: s.place.seen + int64(shown)}
	if s.Sort != SortCreated {
		return s.afterSorted(shown, next)
	}
	switch {
	case shown == len(s.found) && s.reason == "":
		return ""
	case shown == len(s.found):
	case shown > 0 && s.Order == Ascending:
		next.from = s.found[shown-1].number + 1
	case shown > 0:
		next.from = s.found[shown-1].number
	case s.Order == Ascending:
		next.from = s.found[0].number
	default:
		// Jobs created from now on come before the pages that were shown.
		next.from = s.found[0].number + 1
	}
	return next.text(s.hash)
}

// at returns the number up to which the search has examined the candidates.
func (s *search) at() int64 {
	if s.Order == Ascending {
		return s.lo
	}
	return s.hi
}

// stretch returns the number at which the sorted jobs end.
func (s *search) stretch() int64 {
	switch {
	case s.place.bounded:
		return s.place.to
	case s.reason != "":
		return s.at()
	case s.Order == Ascending:
		return maxNumber
	}
	return 0
}

// cutShort reports whether there may be jobs behind the stretch.
func (s *search) cutShort() bool {
	if s.Order == Ascending {
		return s.stretch() < maxNumber
	}
	return s.stretch() > 0
}

func (s *search) afterSorted(shown int, next place) string {
	switch {
	case shown < len(s.found):
		next.from, next.bounded, next.to = s.place.from, true, s.stretch()
		if !s.place.set && s.Order != Ascending {
			next.from = maxNumber
		}
		next.cut, next.last = s.place.cut, s.place.last
		if shown > 0 {
			next.cut, next.last = true, s.found[shown-1]
		}
	case s.cutShort():
		next.from = s.stretch()
	default:
		return ""
	}
	return next.text(s.hash)
}

// partial reports whether the search took too long to be answered in full.
func (s *search) partial() bool {
	return s.reason != "" || s.Sort != SortCreated && s.place.bounded && s.cutShort()
}

// total returns the number of jobs on all pages, as far as it is known.
func (s *search) total() int64 {
	if s.told {
		return s.listed
	}
	return s.place.seen + s.counted
}

// hash returns a hash, in canonical form, of everything that decides the order of all pages. Queues is not
// part of the hash because it may change between pages.
func (q *Query) hash(incarnation []byte) uint64 {
	n := q.narrowing()
	text := fmt.Sprintf("%x %q %v %q %s %q %q %q %q %q %q %s %s %s %s %q %d %q %q", incarnation, q.Queue, q.States, q.IDPrefix, n.where, n.args,
		q.Tags, q.PayloadContains, q.PayloadJQ, q.WorkerID, q.ErrorContains, number(q.Priority), number(q.AttemptMin), number(q.AttemptMax),
		number(q.HasErrors), q.Words, q.Below, q.Sort, q.Order)
	for _, by := range q.times() {
		text += fmt.Sprintf(" %d %d", unixNs(by.after), unixNs(by.before))
	}
	return xxhash.Sum64String(text)
}

// number returns the value that a pointer leads to as text, or "-" if the pointer is nil.
func number[T any](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}
