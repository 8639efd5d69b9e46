package state

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// headsKept is the greatest number of ready jobs of one queue and priority in memory. Fetches take jobs from
// there, so the store is read once per headsKept jobs. A job takes 24 bytes, so a priority with a backlog
// takes 6 KiB.
const headsKept = 256

type head struct {
	number uint64
	id     job.ID
}

// heads are the first ready jobs of a queue or lane in order, one level for each priority.
type heads struct {
	levels [job.Priorities]level
}

// level holds the ready jobs of one priority. Invariant: list holds exactly the ready jobs with a number
// below from, or all of them if !more. The invariant also holds within an entry, counting the jobs that the
// entry has added and removed so far. Jobs with numbers from `from` on are in the store, or the entry has
// touched them.
//
// A refill continues at `from` instead of at the first key, so that a fetch does not walk over the tombstones
// of all jobs fetched before.
type level struct {
	list []head // sorted by number; a part of buf
	buf  []head // the whole array, so that space freed at the front is used again
	from uint64
	more bool

	ahead uint64 // jobs with a lower number have been read ahead
}

// add inserts a job that becomes ready.
func (l *level) add(h head, bound int) error {
	if l.more && h.number >= l.from {
		return nil
	}
	at := len(l.list)
	if at > 0 && l.list[at-1].number >= h.number {
		var found bool
		if at, found = l.find(h.number); found {
			return fmt.Errorf("job number %d is ready twice", h.number)
		}
	}
	if at == bound {
		l.from, l.more = h.number, true
		return nil
	}
	if len(l.list) == bound {
		last := len(l.list) - 1
		l.from, l.more = l.list[last].number, true
		l.list = l.list[:last]
	}
	l.makeRoom()
	l.list = slices.Insert(l.list, at, h)
	return nil
}

// makeRoom makes space for one more job: at the front of the array if half of it is free, else in a new
// array.
func (l *level) makeRoom() {
	switch {
	case len(l.list) < cap(l.list):
	case len(l.list) == 0 || len(l.list) <= len(l.buf)/2:
		if len(l.buf) == 0 {
			l.buf = make([]head, 4)
		}
		l.list = l.buf[:copy(l.buf, l.list)]
	default:
		grown := make([]head, 2*len(l.buf))
		l.list = grown[:copy(grown, l.list)]
		l.buf = grown
	}
}

// remove takes out a job that was ready.
func (l *level) remove(number uint64) error {
	if len(l.list) > 0 && l.list[0].number == number {
		l.list = l.list[1:]
		return nil
	}
	if at, found := l.find(number); found {
		l.list = slices.Delete(l.list, at, at+1)
		return nil
	}
	if l.more && number >= l.from {
		return nil
	}
	return fmt.Errorf("job number %d was ready and is not among the heads", number)
}

func (l *level) find(number uint64) (at int, found bool) {
	at = sort.Search(len(l.list), func(i int) bool { return l.list[i].number >= number })
	return at, at < len(l.list) && l.list[at].number == number
}

// unread drops the heads from memory, so that the next use reads them from the store.
func (h *heads) unread() {
	for i := range h.levels {
		h.levels[i] = level{more: true}
	}
}

// refill reads the next ready jobs into an empty level. It merges the jobs of the store, which the iterator
// bounds to numbers from `from` on, with the added jobs and leaves out the removed ones. added and removed
// are the running entry's changes from `from` on, sorted by number.
func (l *level) refill(it *pebble.Iterator, added []head, removed []uint64, bound int) error {
	if len(l.buf) < bound {
		l.buf = make([]head, bound)
	}
	l.list, l.more = l.buf[:0], false
	ok := it.First()
	for ok || len(added) > 0 {
		next, fromStore := head{number: math.MaxUint64}, false
		if ok {
			number, err := readyNumber(it.Key())
			if err != nil {
				return err
			}
			if len(removed) > 0 && removed[0] <= number {
				if removed[0] < number {
					break
				}
				removed, ok = removed[1:], it.Next()
				continue
			}
			id, err := job.IDFromBytes(it.Value())
			if err != nil {
				return fmt.Errorf("key %x: %w", it.Key(), err)
			}
			next, fromStore = head{number, id}, true
		}
		if len(added) > 0 && added[0].number < next.number {
			next, fromStore = added[0], false
		}
		if len(l.list) == bound {
			l.from, l.more = next.number, true
			break
		}
		l.list = append(l.list, next)
		if fromStore {
			ok = it.Next()
		} else {
			added = added[1:]
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	if len(removed) > 0 && !l.more {
		return fmt.Errorf("job number %d was ready and is not in the store", removed[0])
	}
	return nil
}
