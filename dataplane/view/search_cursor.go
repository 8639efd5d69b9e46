package view

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/corvo/corvo/api"
)

// pageStart is the position at which a page begins. A cursor encodes a pageStart and a hash of the query and
// the incarnation, so that nobody can silently use the cursor of one search for another search or another
// namespace. A job keeps its number while it is in the shard, so pages neither repeat nor omit a job that fits
// throughout and keeps its position in the order, regardless of writes between the pages.
type pageStart struct {
	set  bool
	from int64 // newest first: numbers below it; oldest first: numbers from it on
	seen int64 // jobs on the previous pages

	// For pages that are not sorted by creation: the end of their window (to, if bounded), and the window's
	// last job that was shown (last, if cut).
	bounded bool
	to      int64
	cut     bool
	last    foundJob
}

const (
	pageStartVersion = 2
	maxCursor        = 128 // characters
)

// Flags of a pageStart.
const (
	startBounded = 1 << iota
	startCut
	startNull
)

// reasonWindow is the reason that a page of a window gives for being partial.
const reasonWindow = "there are too many jobs to sort at once: they are sorted in parts"

var (
	errNotACursor    = errors.New("cursor is not one this server gave out: start again without it")
	errForeignCursor = errors.New("cursor belongs to another filter, order or namespace: repeat the search it came from, or start again without it")
)

func (p pageStart) text(hash uint64) string {
	var flags byte
	for flag, is := range map[byte]bool{startBounded: p.bounded, startCut: p.cut, startNull: p.last.null} {
		if is {
			flags |= flag
		}
	}
	buf := []byte{pageStartVersion}
	buf = binary.BigEndian.AppendUint64(buf, hash)
	buf = append(buf, flags)
	for _, n := range [...]int64{p.from, p.seen, p.to, p.last.number} {
		buf = binary.AppendUvarint(buf, uint64(n))
	}
	return base64.RawURLEncoding.EncodeToString(binary.AppendVarint(buf, p.last.value))
}

func parsePageStart(text string, hash uint64) (p pageStart, err error) {
	if text == "" {
		return pageStart{}, nil
	}
	if len(text) > maxCursor {
		return pageStart{}, errNotACursor
	}
	buf, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(buf) < 10 || buf[0] != pageStartVersion {
		return pageStart{}, errNotACursor
	}
	if binary.BigEndian.Uint64(buf[1:9]) != hash {
		return pageStart{}, errForeignCursor
	}
	flags := buf[9]
	p.set, p.bounded, p.cut, p.last.null = true, flags&startBounded != 0, flags&startCut != 0, flags&startNull != 0
	buf = buf[10:]
	for _, into := range [...]*int64{&p.from, &p.seen, &p.to, &p.last.number} {
		n, length := binary.Uvarint(buf)
		if length <= 0 || n > maxNumber {
			return pageStart{}, errNotACursor
		}
		*into, buf = int64(n), buf[length:]
	}
	value, length := binary.Varint(buf)
	if length <= 0 || length != len(buf) {
		return pageStart{}, errNotACursor
	}
	p.last.value = value
	return p, nil
}

// restrict limits the search to the numbers from the start of the page on, in the page's order.
func (p *pageStart) restrict(s *search) {
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

// cursorAfter returns the cursor with which a search continues after the first `shown` of the found jobs. It
// returns "" if no job is left.
func (s *search) cursorAfter(shown int) string {
	next := pageStart{from: s.at(), seen: s.start.seen + int64(shown)}
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

// windowEnd returns the number at which the sorted jobs end.
func (s *search) windowEnd() int64 {
	switch {
	case s.start.bounded:
		return s.start.to
	case s.reason != "":
		return s.at()
	case s.Order == Ascending:
		return maxNumber
	}
	return 0
}

// cutShort reports whether there may be jobs after the window.
func (s *search) cutShort() bool {
	if s.Order == Ascending {
		return s.windowEnd() < maxNumber
	}
	return s.windowEnd() > 0
}

func (s *search) afterSorted(shown int, next pageStart) string {
	switch {
	case shown < len(s.found):
		next.from, next.bounded, next.to = s.start.from, true, s.windowEnd()
		if !s.start.set && s.Order != Ascending {
			next.from = maxNumber
		}
		next.cut, next.last = s.start.cut, s.start.last
		if shown > 0 {
			next.cut, next.last = true, s.found[shown-1]
		}
	case s.cutShort():
		next.from = s.windowEnd()
	default:
		return ""
	}
	return next.text(s.hash)
}

// partial reports whether the search took too long to be answered in full.
func (s *search) partial() bool {
	return s.reason != "" || s.Sort != SortCreated && s.start.bounded && s.cutShort()
}

// total returns the number of jobs on all pages, as far as it is known.
func (s *search) total() int64 {
	if s.countKnown {
		return s.listed
	}
	return s.start.seen + s.counted
}

// hash returns a hash of everything that decides which jobs the pages have, and in which order. Queues is not
// part of the hash because it may change between pages.
func (q *Query) hash(incarnation []byte) uint64 {
	n := q.indexFilter()
	text := fmt.Sprintf("%x %q %v %q %s %q %q %q %q %q %q %s %s %s %s %q %d %q %q", incarnation, q.Queue, q.States, q.IDPrefix, n.where, n.args,
		q.Tags, q.PayloadContains, q.PayloadJQ, q.WorkerID, q.ErrorContains, number(q.Priority), number(q.AttemptMin), number(q.AttemptMax),
		number(q.HasErrors), q.Words, q.Below, q.Sort, q.Order)
	for _, by := range q.times() {
		text += fmt.Sprintf(" %d %d", api.UnixNs(by.after), api.UnixNs(by.before))
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
