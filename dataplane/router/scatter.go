package router

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
)

// MaxScatter bounds the shards that one request asks at the same time.
const MaxScatter = 8

// retryMove is the Retry-After of OnItsWay: about the time that a move between two shards takes.
const retryMove = time.Second

// Run is a part of a list of queues that belongs to one shard.
type Run struct {
	Cell  *cell.Cell
	Items []string
}

// Runs cuts a list of queues into runs of neighbours on the same shard, so that the runs keep the order of
// the queues.
func (s Shards) Runs(queues []string) []Run {
	if len(s.cells) == 1 {
		return []Run{{s.cells[0], queues}}
	}
	var runs []Run
	begin := 0
	for i := range queues {
		if i+1 == len(queues) || s.Of(queues[i+1]) != s.Of(queues[i]) {
			runs = append(runs, Run{s.Of(queues[i]), queues[begin : i+1 : i+1]})
			begin = i + 1
		}
	}
	return runs
}

// Part has the positions, in order, of a request's items that belong to one shard.
type Part struct {
	Cell *cell.Cell
	At   []int
}

// Split groups the n items of a request by shard. of returns the shard of a position. The shard of the first
// item comes first.
func Split(n int, of func(i int) *cell.Cell) []Part {
	var parts []Part
next:
	for i := range n {
		c := of(i)
		for p := range parts {
			if parts[p].Cell == c {
				parts[p].At = append(parts[p].At, i)
				continue next
			}
		}
		parts = append(parts, Part{c, append(make([]int, 0, n-i), i)})
	}
	return parts
}

// Collect calls do n times, at most MaxScatter at once, and returns the error of each call after all have
// returned. A failure does not stop the other calls, because calls that have begun may take effect anyway.
func Collect(n int, do func(i int) error) []error {
	errs := make([]error, n)
	if n == 1 {
		errs[0] = do(0)
		return errs
	}
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(n, MaxScatter) {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = do(i)
			}
		})
	}
	working.Wait()
	return errs
}

// Scatter calls do like Collect and returns the error of the first failed call in order of position, not of
// time.
func Scatter(n int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	for _, err := range Collect(n, do) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Gather asks every shard, like Scatter, and returns the answers by shard.
func Gather[T any](s Shards, ask func(c *cell.Cell) (T, error)) ([]T, error) {
	answers := make([]T, len(s.cells))
	err := Scatter(len(s.cells), func(i int) (err error) {
		answers[i], err = ask(s.cells[i])
		return err
	})
	return answers, err
}
