package tally

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// bounds of the tests.
var bounds = Bounds{Kinds: 64, Waiting: 4096, Burst: 64, Every: time.Minute, Rows: 256}

type (
	row   = Row[string, string, string]
	tally = Tally[string, string, string]
)

// op is what a commit proposes.
type op struct {
	to   string
	rows []row
}

// audit replaces the logs.
type audit struct {
	mu      sync.Mutex
	tried   []*op
	ops     []*op
	failing map[string]error // by destination
}

func (a *audit) commit(to string, rows []row) func(context.Context) error {
	o := &op{to, rows}
	return func(context.Context) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.tried = append(a.tried, o)
		if err := a.failing[to]; err != nil {
			return err
		}
		a.ops = append(a.ops, o)
		return nil
	}
}

func (a *audit) fail(to string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing[to] = err
}

// commits returns the ops that were proposed and those that were recorded.
func (a *audit) commits() (tried, ops []*op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.tried), slices.Clone(a.ops)
}

// recorded counts the rows of a quota and the requests that they record.
func (a *audit) recorded(of string) (rows int, requests uint64) {
	_, ops := a.commits()
	for _, o := range ops {
		for _, r := range o.rows {
			if r.Quota == of {
				rows++
				requests += r.Count
			}
		}
	}
	return rows, requests
}

// in runs f in virtual time with a Tally of the bounds.
func in(t *testing.T, b Bounds, f func(t *testing.T, a *audit, q *tally)) {
	synctest.Test(t, func(t *testing.T) {
		a := &audit{failing: map[string]error{}}
		f(t, a, New(Config[string, string, string]{Bounds: b, Commit: a.commit, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}))
	})
}

func value() string { return "first" }

var noLeader = api.Errorf(api.LeaderUnavailable, "no leader")

func TestRequestsThatAreAlikeAreOneRow(t *testing.T) {
	in(t, bounds, func(t *testing.T, a *audit, q *tally) {
		for n := range 1000 {
			for _, of := range []string{"acme", "other"} {
				q.Add("", of, "/a", func() string { return fmt.Sprint(n) })
			}
		}
		time.Sleep(Window - 1)
		synctest.Wait()
		if tried, _ := a.commits(); len(tried) != 0 {
			t.Error("a commit before the window is over")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		for _, of := range []string{"acme", "other"} {
			if rows, all := a.recorded(of); rows != 1 || all != 1000 {
				t.Errorf("%s has %d rows of %d requests", of, rows, all)
			}
		}
		// Without requests nothing runs.
		time.Sleep(time.Hour)
		synctest.Wait()
		tried, _ := a.commits()
		if _, due := q.Pending(); len(tried) != 1 || due {
			t.Errorf("%d commits, want one; a run is due: %v", len(tried), due)
		}
		if r := tried[0].rows[0]; r.Value != "0" || r.Kind != "/a" || r.LeftOut {
			t.Errorf("the row is %+v, want that of the first request", r)
		}
	})
}

// A flood of different requests adds as many rows as its quota has, with one commit a second at most. Every
// request is counted. The rows of another quota do not wait for the flood.
func TestAFloodIsBounded(t *testing.T) {
	in(t, bounds, func(t *testing.T, a *audit, q *tally) {
		const seconds = 1200
		sent := uint64(0)
		for s := range seconds {
			for i := range 2 * bounds.Kinds {
				q.Add("", "acme", fmt.Sprint(s, "/", i), value)
				sent++
			}
			if s == seconds/2+7 { // the flood's quota waits for its next row
				q.Add("", "other", "/a", value)
			}
			if waiting, _ := q.Pending(); waiting > bounds.Kinds+1 {
				t.Fatalf("%d kinds wait", waiting)
			}
			time.Sleep(time.Second)
			if rows, _ := a.recorded("other"); s > seconds/2+9 && rows != 1 {
				t.Fatal("the request of the other quota is not recorded")
			}
		}
		synctest.Wait()
		rows, _ := a.recorded("acme")
		if most := bounds.Burst + int(seconds*time.Second/bounds.Every) + 1; rows > most || rows < most-3 {
			t.Errorf("%d rows in %d seconds, want at most %d", rows, seconds, most)
		}
		if tried, _ := a.commits(); len(tried) > seconds {
			t.Errorf("%d commits in %d seconds", len(tried), seconds)
		}
		time.Sleep(time.Duration(bounds.Kinds+2) * bounds.Every)
		synctest.Wait()
		waiting, due := q.Pending()
		if _, all := a.recorded("acme"); all != sent || due || waiting != 0 {
			t.Errorf("%d of %d requests are counted, %d wait", all, sent, waiting)
		}
	})
}

// The waiting requests of all quotas are bounded together. A request above a bound is only counted. An op
// never has more rows than its bound.
func TestWaitingRequestsAreBounded(t *testing.T) {
	in(t, bounds, func(t *testing.T, a *audit, q *tally) {
		a.fail("", noLeader)
		sent := map[string]uint64{}
		for i := range bounds.Waiting + 1 {
			of := fmt.Sprint("org", i%(bounds.Waiting/32))
			q.Add("", of, fmt.Sprint(i), value)
			sent[of]++
		}
		q.mu.Lock()
		waiting, lost := q.waiting, q.to[""].quotas["org0"].lost
		q.mu.Unlock()
		if waiting != bounds.Waiting || lost != 1 {
			t.Errorf("%d kinds wait, %d are only counted", waiting, lost)
		}
		a.fail("", nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		for of, n := range sent {
			if _, all := a.recorded(of); all != n {
				t.Errorf("%s: %d of %d requests are counted", of, all, n)
			}
		}
		tried, _ := a.commits()
		leftOut := 0
		for _, o := range tried {
			if len(o.rows) > bounds.Rows {
				t.Errorf("an op has %d rows", len(o.rows))
			}
			for _, r := range o.rows {
				if r.LeftOut {
					leftOut++
				}
			}
		}
		if leftOut != 1 {
			t.Errorf("%d rows count requests without a row, want one", leftOut)
		}
	})
}

// Without a leader, the same op is proposed again, once in every retry. The ops of other destinations do not
// wait for it.
func TestRequestsWaitForALeader(t *testing.T) {
	in(t, bounds, func(t *testing.T, a *audit, q *tally) {
		a.fail("one", noLeader)
		q.Add("one", "b", "/a", value)
		for n := range 30 {
			q.Add("two", "b", "/a", value)
			time.Sleep(2 * Window)
			synctest.Wait()
			if _, ops := a.commits(); len(ops) != n+1 {
				t.Fatalf("after two windows %d ops of the other destination are recorded, want %d", len(ops), n+1)
			}
		}
		tried, _ := a.commits()
		mine := slices.DeleteFunc(tried, func(o *op) bool { return o.to != "one" })
		if most := int(time.Minute / retry); len(mine) < most-2 || len(mine) > most {
			t.Errorf("an op is tried %d times in a minute, want %d", len(mine), most)
		}
		for range 3 * bounds.Kinds {
			q.Add("one", "b", "/a", value)
		}
		a.fail("one", nil)
		time.Sleep(time.Minute)
		tried, ops := a.commits()
		mine = slices.DeleteFunc(tried, func(o *op) bool { return o.to != "one" })
		for _, o := range mine[:len(mine)-1] {
			if o != mine[0] {
				t.Error("another op was proposed where the first may be in the log")
			}
		}
		counted := uint64(0)
		for _, o := range ops {
			if o.to == "one" {
				counted += o.rows[0].Count
			}
		}
		if counted != uint64(1+3*bounds.Kinds) {
			t.Errorf("%d requests are counted", counted)
		}
	})
}

// An op that is refused for good is not proposed again, and the next one is.
func TestARefusedOpIsNotRepeated(t *testing.T) {
	in(t, bounds, func(t *testing.T, a *audit, q *tally) {
		a.fail("", fmt.Errorf("namespace x: %w", api.Errorf(api.NotFound, "it is gone")))
		q.Add("", "b", "/a", value)
		time.Sleep(time.Minute)
		a.fail("", nil)
		q.Add("", "b", "/b", value)
		time.Sleep(time.Minute)
		tried, ops := a.commits()
		if len(tried) != 2 || len(ops) != 1 || ops[0].rows[0].Kind != "/b" {
			t.Errorf("%d ops were proposed, recorded is %+v", len(tried), ops)
		}
	})
}

// Close records all waiting requests, also those for which the quotas have no room, and collects no more.
func TestCloseEmptiesTheBudgets(t *testing.T) {
	in(t, bounds, func(t *testing.T, a *audit, q *tally) {
		a.fail("", noLeader)
		q.Add("", "b", "/a", value)
		time.Sleep(time.Minute)
		for i := range 3 * bounds.Kinds {
			q.Add("", "b", fmt.Sprint(i), value)
		}
		a.fail("", nil)
		q.Close(t.Context())
		q.Add("", "b", "/late", value)
		time.Sleep(time.Hour)
		if rows, all := a.recorded("b"); all != uint64(1+3*bounds.Kinds) || rows != 1+bounds.Kinds+1 {
			t.Errorf("%d rows of %d requests", rows, all)
		}
	})
	in(t, bounds, func(t *testing.T, a *audit, q *tally) {
		a.fail("one", errors.New("closed"))
		q.Add("one", "b", "/a", value)
		q.Add("two", "b", "/a", value)
		q.Close(t.Context()) // must not hang
		if _, ops := a.commits(); len(ops) != 1 || ops[0].to != "two" {
			t.Errorf("recorded are %+v", ops)
		}
	})
}

// A quota's rows come in the order of Compare, after the row of requests without a row.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &audit{failing: map[string]error{}}
		q := New(Config[string, string, string]{
			Bounds: Bounds{Kinds: 4, Burst: 4, Every: time.Minute, Rows: 4}, Commit: a.commit, Compare: func(a, b string) int { return cmp.Compare(a[0], b[0]) },
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		for _, k := range []string{"b1", "c1", "a1", "b2", "a2"} {
			q.Add("", "", k, value)
		}
		time.Sleep(Window)
		synctest.Wait()
		_, ops := a.commits()
		var got []string
		for _, r := range ops[0].rows {
			got = append(got, fmt.Sprintf("%s%v%d", r.Kind, r.LeftOut, r.Count))
		}
		if want := []string{"true1", "a1false1", "b1false1", "b2false1"}; len(ops) != 1 || !slices.Equal(got, want) {
			t.Errorf("the rows are %v, want %v", got, want)
		}
	})
}
