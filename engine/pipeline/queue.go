package pipeline

import (
	"iter"
	"sync"
	"time"

	"github.com/corvo/corvo/engine/entry"
)

// These constants bound the work. All but MaxOpBytes are defaults of Limits. Bytes count encoded ops.
const (
	// MaxOpBytes is the largest size of one op.
	MaxOpBytes = 20 << 20
	// MaxEntryOps is the most ops in one entry. It bounds the time that applying an entry takes.
	MaxEntryOps = 1024
	// An entry of MaxEntryBytes is full. The oldest ops of the waiting classes may exceed this size by up to
	// maxOldestBytes.
	MaxEntryBytes = 1 << 20
	// MaxBacklogOps and MaxBacklogBytes bound the proposals that wait for an entry.
	MaxBacklogOps   = 16384
	MaxBacklogBytes = 64 << 20
	// MaxInFlight is the most entries in flight: one is applied while the next, if it is full, is written.
	MaxInFlight = 2
)

const (
	// MostEntryOps and MostEntryBytes bound Limits.EntryOps and Limits.EntryBytes.
	MostEntryOps   = 65_536
	MostEntryBytes = 4 << 20
	// maxOldestBytes bounds the oldest ops of the classes in one entry, in bytes. Any two fit.
	maxOldestBytes = 2 * MaxOpBytes
	// largestEntry bounds an encoded entry at the highest Limits.
	largestEntry = MostEntryBytes + maxOldestBytes + (MostEntryOps+int(classes))*entry.MaxOpHeader + entry.MaxHeader
)

// This does not compile if an entry may exceed the bound of the log and of the transport.
const _ = uint(entry.MaxBytes - largestEntry)

// Limits bounds a Pipeline's work. Each comment names the default, which a zero field takes, and the limit
// that the caller must keep.
type Limits struct {
	EntryOps     int   // MaxEntryOps; at most MostEntryOps
	EntryBytes   int64 // MaxEntryBytes; at most MostEntryBytes
	BacklogOps   int   // MaxBacklogOps
	BacklogBytes int64 // MaxBacklogBytes; at least 2 MaxOpBytes, so that each class can hold any op
	InFlight     int   // MaxInFlight
}

// WithDefaults returns l with defaults in its zero fields.
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

// An op is admitted only if the backlog, with that op, is filled to at most the admitShare of the op's class,
// in sixteenths. Work that frees resources is still admitted when other work is refused.
var admitShare = [classes]int64{ClassSettle: 16, ClassEnqueue: 14, ClassFetch: 12, ClassManage: 8}

// entryShare sets the part of an entry, 1/entryShare of its ops and bytes, that is reserved for each waiting
// class.
const entryShare = 8

// proposal is one op between its proposal and its answer. While waiting is true, the queue owns it and
// Pipeline.mu guards it. Afterwards the append loop that took it owns it until it is answered.
type proposal struct {
	op         Op
	size       int64
	class      Class
	proposed   time.Time
	trace      entry.Trace // of the span it was proposed in; zero = none
	waiting    bool
	prev, next *proposal

	timer    *time.Timer   // nil until a proposal had a time limit; runs only while the caller waits
	answered chan struct{} // receives one token after the fields below are set
	result   any
	at       entry.Position
	err      error
}

// pool keeps proposals for reuse. Each Pipeline has its own, because a channel from outside must not be used
// inside a testing/synctest bubble.
type pool struct{ free sync.Pool }

func (p *pool) get(op Op, size int) *proposal {
	pr, ok := p.free.Get().(*proposal)
	if !ok {
		pr = &proposal{answered: make(chan struct{}, 1)}
	}
	pr.op, pr.size, pr.class = op, int64(size), op.Class()
	return pr
}

// put returns a proposal to the pool. Nobody else may hold it, and its answer must have been received or
// never sent.
func (p *pool) put(pr *proposal) {
	*pr = proposal{answered: pr.answered, timer: pr.timer}
	p.free.Put(pr)
}

// startTimer starts the proposal's timer and returns its channel.
func (pr *proposal) startTimer(after time.Duration) <-chan time.Time {
	if pr.timer == nil {
		pr.timer = time.NewTimer(after)
	} else {
		pr.timer.Reset(after)
	}
	return pr.timer.C
}

// answer sends the proposal's answer. It never blocks, because a proposal is answered once.
func (pr *proposal) answer(result any, at entry.Position, err error) {
	pr.result, pr.at, pr.err = result, at, err
	pr.answered <- struct{}{}
}

// queue holds the proposals that wait for an entry: a list for each class, oldest first. The lists are
// linked, so that withdrawing a proposal costs the same at every position.
type queue struct {
	lists [classes]list
	ops   int
	bytes int64
	turn  int // the class whose oldest op is the first choice for the next entry
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

// all yields the waiting proposals, class by class. The loop body may remove the yielded proposal.
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

// full reports whether the waiting proposals fill an entry.
func (q *queue) full(l *Limits) bool { return q.ops >= l.EntryOps || q.bytes >= l.EntryBytes }

// take moves the ops of the next entry into batch: classes in ascending order, each oldest first, so that in
// one entry settles come before enqueues and enqueues before fetches.
//
// No class starves. Every entry reserves a share for each waiting class and includes the oldest op of each,
// regardless of the other classes and of the op's size. Only the remaining room is given out by class. So
// each entry makes progress in each waiting class, and a proposal with n older proposals of its class before
// it is in one of the next n+1 entries. There is one exception: if the oldest ops together exceed
// maxOldestBytes, a class may miss every second entry.
func (q *queue) take(batch []*proposal, l *Limits) []*proposal {
	ops, bytes := l.EntryOps, l.EntryBytes
	included := q.chooseOldest()
	for c := range q.lists {
		// Leave the share that is reserved for the later classes.
		keepOps, keepBytes := 0, int64(0)
		for later := c + 1; later < len(q.lists); later++ {
			keepOps += min(q.lists[later].ops, max(1, l.EntryOps/entryShare))
			keepBytes += min(q.lists[later].bytes, l.EntryBytes/entryShare)
		}
		for first := true; included[c] && q.lists[c].head != nil; first = false {
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

// chooseOldest returns the classes whose oldest op goes into the next entry: all of them, or as many as
// maxOldestBytes allows. The first class left out is the first choice next time, so none is left out twice in
// succession.
func (q *queue) chooseOldest() (included [classes]bool) {
	left, next := int64(maxOldestBytes), -1
	for i := range q.lists {
		c := (q.turn + i) % len(q.lists)
		switch oldest := q.lists[c].head; {
		case oldest == nil:
		case oldest.size <= left:
			included[c], left = true, left-oldest.size
		case next < 0:
			next = c
		}
	}
	q.turn = max(next, 0)
	return included
}
