package pipeline

import (
	"iter"
	"sync"
	"time"

	"github.com/corvo/corvo/engine/entry"
)

// The default bounds. Bytes are those of the encoded ops.
const (
	// MaxOpBytes is the most one op may take.
	MaxOpBytes = 20 << 20
	// MaxEntryOps is the most ops of one entry: it bounds how long one apply takes.
	MaxEntryOps = 1024
	// MaxEntryBytes is where an entry is full. Each class that waits may put its
	// oldest op on top of that, so an entry takes less than
	// MaxEntryBytes + 4 MaxOpBytes.
	MaxEntryBytes = 1 << 20
	// MaxBacklogOps and MaxBacklogBytes bound what waits for an entry.
	MaxBacklogOps   = 16384
	MaxBacklogBytes = 64 << 20
	// MaxInFlight is how many entries are under way when full ones gather: one is
	// applied while the next is written.
	MaxInFlight = 2
)

// Limits bounds a Pipeline's work; a zero field has its default.
type Limits struct {
	EntryOps     int   // MaxEntryOps
	EntryBytes   int64 // MaxEntryBytes
	BacklogOps   int   // MaxBacklogOps
	BacklogBytes int64 // MaxBacklogBytes; at least 2 MaxOpBytes, so that each class can hold any op
	InFlight     int   // MaxInFlight
}

// WithDefaults is l with its zero fields filled in.
func (l Limits) WithDefaults() Limits {
	orDefault(&l.EntryOps, MaxEntryOps)
	orDefault(&l.EntryBytes, MaxEntryBytes)
	orDefault(&l.BacklogOps, MaxBacklogOps)
	orDefault(&l.BacklogBytes, MaxBacklogBytes)
	orDefault(&l.InFlight, MaxInFlight)
	return l
}

func orDefault[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// admitShare is how full (in sixteenths) the backlog may be for a class to be
// admitted: work that frees resources is let in when other work no longer is.
var admitShare = [classes]int64{ClassSettle: 16, ClassEnqueue: 14, ClassFetch: 12, ClassManage: 8}

// entryShare is the part of an entry (1/entryShare of its ops and bytes) that
// each waiting class is sure of.
const entryShare = 8

// proposal is one op on its way. While waiting is true it belongs to the queue
// and is guarded by Pipeline.mu; then to the lane that took it, until answered.
type proposal struct {
	op         Op
	size       int64
	class      Class
	proposed   time.Time
	trace      entry.Trace // of the span it was proposed in; zero = none
	waiting    bool
	prev, next *proposal

	timer    *time.Timer   // nil until a proposal had a time limit; stopped unless it waits
	answered chan struct{} // one token, sent after the fields below are set
	result   any
	at       entry.Position
	err      error
}

// pool keeps proposals for reuse. Each Pipeline has its own: inside a
// testing/synctest bubble a channel must not come from outside.
type pool struct{ free sync.Pool }

func (p *pool) get(op Op, size int) *proposal {
	pr, ok := p.free.Get().(*proposal)
	if !ok {
		pr = &proposal{answered: make(chan struct{}, 1)}
	}
	pr.op, pr.size, pr.class = op, int64(size), op.Class()
	return pr
}

// put gives a proposal back; nobody else may hold it, and its answer must have
// been received or never been sent.
func (p *pool) put(pr *proposal) {
	*pr = proposal{answered: pr.answered, timer: pr.timer}
	p.free.Put(pr)
}

// alarm rings when so much time has passed, unless the timer is stopped before.
func (pr *proposal) alarm(after time.Duration) <-chan time.Time {
	if pr.timer == nil {
		pr.timer = time.NewTimer(after)
	} else {
		pr.timer.Reset(after)
	}
	return pr.timer.C
}

// answer never blocks: a proposal is answered once.
func (pr *proposal) answer(result any, at entry.Position, err error) {
	pr.result, pr.at, pr.err = result, at, err
	pr.answered <- struct{}{}
}

// queue is what waits for an entry: a list for each class, oldest first, so that
// withdrawing costs the same wherever the proposal stands.
type queue struct {
	lists [classes]list
	ops   int
	bytes int64
}

type list struct {
	head, tail *proposal
	ops        int
	bytes      int64
}

func (q *queue) fits(pr *proposal, l *Limits) bool {
	share := admitShare[pr.class]
	return int64(q.ops+1)*16 <= int64(l.BacklogOps)*share && (q.bytes+pr.size)*16 <= l.BacklogBytes*share
}

func (q *queue) push(pr *proposal) {
	l := &q.lists[pr.class]
	pr.prev, pr.next, pr.waiting = l.tail, nil, true
	if l.tail == nil {
		l.head = pr
	} else {
		l.tail.next = pr
	}
	l.tail = pr
	q.count(pr, 1)
}

func (q *queue) remove(pr *proposal) {
	l := &q.lists[pr.class]
	if pr.prev == nil {
		l.head = pr.next
	} else {
		pr.prev.next = pr.next
	}
	if pr.next == nil {
		l.tail = pr.prev
	} else {
		pr.next.prev = pr.prev
	}
	pr.prev, pr.next, pr.waiting = nil, nil, false
	q.count(pr, -1)
}

func (q *queue) count(pr *proposal, n int) {
	l := &q.lists[pr.class]
	l.ops += n
	q.ops += n
	l.bytes += int64(n) * pr.size
	q.bytes += int64(n) * pr.size
}

// all yields what waits, class by class; the yielded proposal may be removed.
func (q *queue) all() iter.Seq[*proposal] {
	return func(yield func(*proposal) bool) {
		for c := range q.lists {
			for pr := q.lists[c].head; pr != nil; {
				next := pr.next
				if !yield(pr) {
					return
				}
				pr = next
			}
		}
	}
}

// full says whether more waits than one entry takes, or just as much.
func (q *queue) full(l *Limits) bool { return q.ops >= l.EntryOps || q.bytes >= l.EntryBytes }

// take moves the ops of the next entry into batch: classes in their order, each
// oldest first, so that in one entry settles stand before enqueues before
// fetches.
//
// Nothing starves. A class that waits is sure of its oldest op in every entry,
// whatever waits beside it and however large that op is, and up to its share of
// the entry; only what is left goes by class. So each entry moves each waiting
// class on, and a proposal behind n others of its class is in one of the next
// n+1 entries.
func (q *queue) take(batch []*proposal, l *Limits) []*proposal {
	ops, bytes := l.EntryOps, l.EntryBytes
	for c := range q.lists {
		// What the classes behind this one are sure of is not this one's to use.
		keepOps, keepBytes := 0, int64(0)
		for later := c + 1; later < len(q.lists); later++ {
			keepOps += min(q.lists[later].ops, max(1, l.EntryOps/entryShare))
			keepBytes += min(q.lists[later].bytes, l.EntryBytes/entryShare)
		}
		for first := true; q.lists[c].head != nil; first = false {
			pr := q.lists[c].head
			if !first && (ops-1 < keepOps || bytes-pr.size < keepBytes) {
				break
			}
			q.remove(pr)
			batch = append(batch, pr)
			ops, bytes = ops-1, bytes-pr.size
		}
	}
	return batch
}
