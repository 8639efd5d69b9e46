package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// action is a kind of request of a client.
type action uint8

const (
	enqueued action = iota
	fetched
	acked
	looked // by a strong read
)

// step is one request of a client that concerns one job.
type step struct {
	what  action
	known bool   // an answer arrived; without one the request may or may not have been done
	state string // the job's state in the answer of a strong read
}

// History has the requests and answers of all clients, by job.
type History struct {
	start time.Time

	mu         sync.Mutex
	jobs       map[string][]porcupine.Operation
	lostEnq    int // enqueues without a known outcome
	lostFetch  int
	lostAck    int
	deliveries map[string][]string // job -> the workers it was delivered to
	wrong      []string
}

func newHistory() *History {
	return &History{start: time.Now(), jobs: map[string][]porcupine.Operation{}, deliveries: map[string][]string{}}
}

func (h *History) now() int64 { return int64(time.Since(h.start)) }

// forever is the return time of a request without an answer.
const forever = int64(1) << 62

func (h *History) add(job string, client int, call int64, s step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.now()
	if !s.known {
		at = forever
	}
	h.jobs[job] = append(h.jobs[job], porcupine.Operation{ClientId: client, Input: s, Output: s, Call: call, Return: at})
}

func (h *History) count(n *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
}

// violate records a broken guarantee.
func (h *History) violate(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// deliver records the delivery of a job to a worker. Leases outlast the test, so a second
// worker must not receive the job.
func (h *History) deliver(job, worker string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliveries[job] = append(h.deliveries[job], worker)
	if to := h.deliveries[job]; len(to) > 1 {
		h.wrong = append(h.wrong, fmt.Sprintf("job %s is leased to %s at once", job, strings.Join(to, " and ")))
	}
}

// with returns the jobs, sorted, for which an action is known to have been done.
func (h *History) with(what action) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(h.jobs)) {
		if slices.ContainsFunc(h.jobs[id], func(o porcupine.Operation) bool {
			s := o.Input.(step)
			return s.what == what && s.known
		}) {
			ids = append(ids, id)
		}
	}
	return ids
}

// The states of a job in the model.
const (
	absent uint8 = iota
	pending
	lent // leased to a client whose answer was lost; the lease may be returned
	leased
	done
)

// model is a job as clients may see it: an acknowledged request took effect before its
// answer, and no effect is undone.
var model = porcupine.Model{
	Init: func() any { return absent },
	Step: func(state, input, _ any) (bool, any) {
		now, s := state.(uint8), input.(step)
		switch s.what {
		case enqueued:
			return now == absent, pending
		case fetched:
			return now == pending || now == lent, leased
		case acked:
			if now == leased || now == done { // done: the repeat of an ack whose answer was lost
				return true, done
			}
			return !s.known, now
		case looked:
			return sees(now, s.state)
		}
		return false, now
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// sees applies a read with a state to the model.
func sees(now uint8, word string) (bool, uint8) {
	switch word {
	case "pending":
		return now == pending || now == lent, pending
	case "active":
		if now == pending {
			now = lent
		}
		return now == lent || now == leased, now
	case "completed":
		return now == done, now
	}
	return false, now
}

// Linearizable checks every job's history and returns those that no order of the requests
// explains.
func (h *History) Linearizable() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var bad []string
	for id, ops := range h.jobs {
		if !slices.ContainsFunc(ops, func(o porcupine.Operation) bool { return o.Input.(step).what == enqueued }) {
			// The answer of its enqueue was lost, and the id with it: it happened at some time.
			s := step{what: enqueued}
			ops = append(ops, porcupine.Operation{Input: s, Output: s, Call: 0, Return: forever})
		}
		if porcupine.CheckOperationsTimeout(model, ops, time.Minute) != porcupine.Ok {
			bad = append(bad, fmt.Sprintf("%s: %s", id, describe(ops)))
		}
	}
	return bad
}

func describe(ops []porcupine.Operation) string {
	var b strings.Builder
	names := [...]string{"enqueue", "fetch", "ack", "read"}
	for _, o := range ops {
		s := o.Input.(step)
		fmt.Fprintf(&b, "\n  client %d %s %s [%v, ", o.ClientId, names[s.what], s.state, time.Duration(o.Call))
		if s.known {
			fmt.Fprintf(&b, "%v]", time.Duration(o.Return))
		} else {
			b.WriteString("no answer]")
		}
	}
	return b.String()
}
