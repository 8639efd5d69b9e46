package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
)

// TestBeginRefuses commits entries that cannot follow the last one, which was
// entry 5 of term 3. Each refusal is final.
func TestBeginRefuses(t *testing.T) {
	t.Parallel()
	last := entry.Applied{Group: "g", Incarnation: testIncarnation, Index: 5, Term: 3}
	change := func(f func(at *entry.Applied, h *entry.Header)) func(*entry.Applied, *entry.Header) { return f }
	for name, c := range map[string]struct {
		change func(at *entry.Applied, h *entry.Header)
		want   string
	}{
		"next":        {change(func(at *entry.Applied, h *entry.Header) {}), ""},
		"a gap":       {change(func(at *entry.Applied, h *entry.Header) { at.Index = 9 }), ""},
		"later term":  {change(func(at *entry.Applied, h *entry.Header) { at.Term = 4 }), ""},
		"again":       {change(func(at *entry.Applied, h *entry.Header) { at.Index = 5 }), "entry 5 is not after the applied entry 5"},
		"before":      {change(func(at *entry.Applied, h *entry.Header) { at.Index = 4 }), "entry 4 is not after the applied entry 5"},
		"term fell":   {change(func(at *entry.Applied, h *entry.Header) { at.Term = 2 }), "below the applied term 3"},
		"other group": {change(func(at *entry.Applied, h *entry.Header) { at.Group = "h" }), `of group "h"`},
		"other history": {change(func(at *entry.Applied, h *entry.Header) {
			at.Incarnation[0], h.Incarnation[0] = 7, 7
		}), "entry 6 is of incarnation 0702"},
		"two histories": {change(func(at *entry.Applied, h *entry.Header) { h.Incarnation[0] = 7 }), "its position of 0102"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, vfs.NewMem())
			defer s.Close()
			must(t, s.Begin(last, header(1)).Commit())
			at, h := last, header(2)
			at.Index++
			c.change(&at, &h)
			err := s.Begin(at, h).Commit()
			if c.want == "" {
				must(t, err)
				if s.Applied() != at {
					t.Errorf("applied is %v, want %v", s.Applied(), at)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v, want %q", err, c.want)
			}
			if s.Applied() != last {
				t.Errorf("applied is %v", s.Applied())
			}
			next := last
			next.Index = 10
			if again := s.Begin(next, header(3)).Commit(); again == nil || s.Err() == nil {
				t.Error("a store that refused an entry takes another")
			}
		})
	}
}

func TestBeginNeedsCommit(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	defer s.Close()
	begin(s)
	if err := begin(s).Commit(); err == nil || !strings.Contains(err.Error(), "begun and not committed") {
		t.Errorf("error is %v", err)
	}
	s = open(t, vfs.NewMem())
	defer s.Close()
	tx := begin(s)
	must(t, tx.Commit())
	if err := tx.Commit(); err == nil || !strings.Contains(err.Error(), "committed twice") {
		t.Errorf("error is %v", err)
	}
}

func TestClockNeverFalls(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	for i, c := range []struct{ header, want int64 }{{100, 100}, {50, 100}, {100, 100}, {101, 101}} {
		tx := s.Begin(position(uint64(i+1)), header(c.header))
		if tx.ClockNs() != c.want || tx.Header().ClockNs != c.header {
			t.Errorf("entry %d: clock is %d, want %d", i+1, tx.ClockNs(), c.want)
		}
		must(t, tx.Commit())
	}
}

// TestImpossibleChanges breaks the rules of the Tx. Commit refuses the entry even if the op ignores the
// error.
func TestImpossibleChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(tx *Tx) error
		want   string
	}{
		"created twice": {func(tx *Tx) error { return tx.CreateJob(newJob(1, "q"), enqueued) }, "it exists"},
		"bad id":        {func(tx *Tx) error { return tx.CreateJob(&job.Job{Id: []byte{1}, Queue: "q"}, enqueued) }, "16"},
		"no state":      {func(tx *Tx) error { j := newJob(2, "q"); j.State = 0; return tx.CreateJob(j, enqueued) }, "state 0 is none"},
		"no priority":   {func(tx *Tx) error { j := newJob(2, "q"); j.Priority = 3; return tx.CreateJob(j, enqueued) }, "priority 3 is none"},
		"no lease":      {func(tx *Tx) error { j := newJob(2, "q"); j.State = job.Active; return tx.CreateJob(j, enqueued) }, "without a lease"},
		"no event":      {func(tx *Tx) error { return tx.CreateJob(newJob(2, "q")) }, "without an event"},
		"no queue name": {func(tx *Tx) error { return tx.CreateJob(newJob(2, "a b"), enqueued) }, "queue"},
		"put unread":    {func(tx *Tx) error { return tx.PutJob(newJob(1, "q")) }, "has not read it"},
		"silent change": {func(tx *Tx) error {
			j, _ := tx.Job(idOf(1))
			j.State = job.Completed
			return tx.PutJob(j)
		}, `from "pending" to "completed" without an event`},
		"moved": {func(tx *Tx) error { j, _ := tx.Job(idOf(1)); j.Queue = "r"; return tx.PutJob(j) }, `its queue was "q" and is "r"`},
		"renumbered": {func(tx *Tx) error {
			j, _ := tx.Job(idOf(1))
			j.Number = 9
			return tx.PutJob(j)
		}, "its number was 1 and is 9"},
		"changed after put": {func(tx *Tx) error {
			j, _ := tx.Job(idOf(1))
			err := tx.PutJob(j)
			j.State = job.Cancelled
			return err
		}, "was changed and not put"},
		"moved unread":  {func(tx *Tx) error { return tx.MoveJob(newJob(1, "q"), "r") }, "has not read it"},
		"moved bad id":  {func(tx *Tx) error { return tx.MoveJob(&job.Job{Id: []byte{1}}, "r") }, "16"},
		"moved changed": {func(tx *Tx) error { j := read(t, tx, 1); j.State = job.Dead; return tx.MoveJob(j, "r") }, "was changed and not put"},
		"moved nowhere": {func(tx *Tx) error { return tx.MoveJob(read(t, tx, 1), "a b") }, "queue"},
		"moved active":  {func(tx *Tx) error { activate(t, tx, idOf(1), 5); return tx.MoveJob(read(t, tx, 1), "r") }, "it is active"},
		"gone active":   {func(tx *Tx) error { activate(t, tx, idOf(1), 5); return tx.ForwardJob(read(t, tx, 1), 2, "r") }, "it is active"},
		"put when gone": {func(tx *Tx) error { j := read(t, tx, 1); _ = tx.ForwardJob(j, 2, "r"); return tx.PutJob(j) }, "has not read it"},
		"born twice": {func(tx *Tx) error {
			_ = tx.ForwardJob(read(t, tx, 1), 2, "r")
			return tx.CreateJob(newJob(1, "q"), enqueued)
		}, "it has gone to shard 2"},
		"admitted twice":  {func(tx *Tx) error { return tx.AdmitJob(newJob(1, "q")) }, "it exists"},
		"admitted badly":  {func(tx *Tx) error { j := newJob(2, "q"); j.State = 0; return tx.AdmitJob(j) }, "state 0 is none"},
		"sent to itself":  {func(tx *Tx) error { return tx.Send(0, 1, nil) }, "it is this shard"},
		"sent nowhere":    {func(tx *Tx) error { return tx.Send(job.Slots, 1, nil) }, "shards are below 4096"},
		"trimmed unsent":  {func(tx *Tx) error { return tx.TrimOutbox(1, 1) }, "no earlier entry has sent it"},
		"trimmed at once": {func(tx *Tx) error { _ = tx.Send(1, 1, nil); return tx.TrimOutbox(1, 1) }, "no earlier entry has sent it"},
		"inbox of itself": {func(tx *Tx) error { return tx.PutInbox(0, testIncarnation, 1) }, "sends itself nothing"},
		"inbox falls": {func(tx *Tx) error {
			_ = tx.PutInbox(1, testIncarnation, 2)
			return tx.PutInbox(1, testIncarnation, 1)
		}, "op 2 of shard 1 was applied"},
		"lost blob":            {func(tx *Tx) error { j := read(t, tx, 1); j.Blobs = 1; _, err := tx.Parcel(j); return err }, "is missing"},
		"foreign queue record": {func(tx *Tx) error { tx.PutQueue(&Queue{Name: "q"}); return nil }, "not the record EnsureQueue gave"},
		"no blob kind":         {func(tx *Tx) error { return tx.PutBlob(newJob(1, "q"), job.BlobKinds, &job.Blob{}) }, "kind 7 is none"},
		"no key id":            {func(tx *Tx) error { return tx.PutKey(&Key{}) }, "no id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, vfs.NewMem())
			defer s.Close()
			update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
			tx := begin(s)
			_ = c.change(tx)
			if err := tx.Commit(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if s.Applied().Index != 1 {
				t.Errorf("applied is %v", s.Applied())
			}
		})
	}
}

func TestQueueCounters(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		for n := range 4 {
			create(t, tx, n+1, "q")
		}
		j := newJob(5, "q")
		j.State, j.ScheduledNs = job.Scheduled, 99
		must(t, tx.CreateJob(j, scheduled))
	})
	update(t, s, func(tx *Tx) {
		for n := range 3 {
			activate(t, tx, idOf(n+1), 1e9)
		}
		complete(t, tx, idOf(1))
	})
	update(t, s, func(tx *Tx) {
		edit(t, tx, idOf(2), func(j *job.Job) { j.State, j.ScheduledNs = job.Retrying, 50 }, failed, retrying)
		edit(t, tx, idOf(3), func(j *job.Job) { j.State = job.Dead }, EventType_EVENT_RECLAIMED, died)
		edit(t, tx, idOf(4), func(j *job.Job) {}) // nothing at all
	})
	v := s.Snapshot()
	defer v.Close()
	q, err := v.Queue("q")
	must(t, err)
	if want := []uint64{0, 1, 1, 0, 1, 0, 1, 1, 0}; !slices.Equal(q.InState, want) {
		t.Errorf("by state: %v, want %v", q.InState, want)
	}
	if got := []uint64{q.Enqueued, q.Completed, q.Failed, q.Dead}; !slices.Equal(got, []uint64{5, 1, 2, 1}) {
		t.Errorf("totals: %v", got)
	}
	if q, err := v.Queue("r"); q != nil || err != nil {
		t.Errorf("an unknown queue is %v, %v", q, err)
	}
}

// TestQueuesAreBounded fills a store with queues up to the limit.
func TestQueuesAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	defer s.Close()
	update(t, s, func(tx *Tx) {
		for n := range job.MaxQueues {
			if !tx.CanAddQueues(job.MaxQueues - n) {
				t.Fatalf("at %d queues there is no room for the rest", n)
			}
			tx.EnsureQueue(fmt.Sprint("q", n))
		}
		if tx.CanAddQueues(1) {
			t.Error("there is room for one queue more than the most")
		}
		tx.EnsureQueue("q7") // not a new one
	})
	if got := s.Head().QueueRecords; got != job.MaxQueues {
		t.Errorf("%d queue records", got)
	}
	tx := begin(s)
	tx.EnsureQueue("one-more")
	if tx.Commit() == nil {
		t.Error("a queue beyond the bound was made")
	}
}

func TestFetchable(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	set := func(change func(q *Queue)) {
		update(t, s, func(tx *Tx) {
			q := tx.EnsureQueue("q")
			change(q)
			tx.PutQueue(q, EventType_EVENT_QUEUE_CHANGED)
		})
	}
	expect := func(what string, want int) {
		t.Helper()
		if got := s.Fetchable("q"); got != want {
			t.Errorf("%s: %d fetchable, want %d", what, got, want)
		}
	}
	expect("unknown", 0)
	update(t, s, func(tx *Tx) {
		for n := range 5 {
			create(t, tx, n+1, "q")
		}
	})
	expect("unlimited", 5)
	set(func(q *Queue) { q.MaxConcurrency = 2 })
	expect("limited", 2)
	update(t, s, func(tx *Tx) { activate(t, tx, idOf(1), 1e9) })
	expect("one active", 1)
	update(t, s, func(tx *Tx) { activate(t, tx, idOf(2), 1e9) })
	expect("two active", 0)
	set(func(q *Queue) { q.MaxConcurrency = 1 })
	expect("lowered below the active", 0)
	set(func(q *Queue) { q.MaxConcurrency = 10 })
	expect("raised", 3)
	set(func(q *Queue) { q.Paused = true })
	expect("paused", 0)
	set(func(q *Queue) { q.Paused, q.MaxConcurrency = false, 0 })
	expect("resumed", 3)
}

// TestHooks records the calls of the hooks after each entry.
func TestHooks(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	s.SetHooks(Hooks{
		OnReady: func(queue string, fetchable int) {
			if s.Fetchable(queue) != fetchable {
				t.Errorf("OnReady says %d, Fetchable %d", fetchable, s.Fetchable(queue))
			}
			say("ready %s %d", queue, fetchable)
		},
		OnTimer: func(class TimerClass, dueNs int64) { say("timer %d %d", class, dueNs) },
		OnFeed:  func() { say("feed") },
		OnOutbox: func() {
			if s.Outboxes()[0].Ops() == 0 {
				t.Error("OnOutbox, and nothing waits")
			}
			say("outbox")
		},
	})
	limit := func(tx *Tx, n uint32) {
		q := tx.EnsureQueue("q")
		q.MaxConcurrency = n
		tx.PutQueue(q, EventType_EVENT_QUEUE_CHANGED)
	}
	for _, step := range []struct {
		name   string
		change func(tx *Tx)
		want   string
	}{
		{"nothing", func(tx *Tx) {}, ""},
		{"arrival", func(tx *Tx) { create(t, tx, 1, "q"); create(t, tx, 2, "q"); create(t, tx, 3, "r") }, "ready q 2, ready r 1, feed"},
		{"limit", func(tx *Tx) { limit(tx, 1) }, "ready q 1, feed"},
		{"fetch", func(tx *Tx) { activate(t, tx, idOf(1), 77); activate(t, tx, idOf(3), 66) }, "timer 3 66, feed"},
		{"ack frees concurrency", func(tx *Tx) { complete(t, tx, idOf(1)) }, "ready q 1, feed"},
		{"ack frees nothing", func(tx *Tx) { complete(t, tx, idOf(3)) }, "feed"},
		{"arrival and fetch", func(tx *Tx) { create(t, tx, 4, "r"); activate(t, tx, idOf(4), 88) }, "timer 3 88, feed"},
		{"renewal", func(tx *Tx) {
			edit(t, tx, idOf(4), func(j *job.Job) { j.Lease.ExpiresNs = 99 }, EventType_EVENT_RENEWED)
		}, "timer 3 99, feed"},
		{"no new timer", func(tx *Tx) { edit(t, tx, idOf(4), func(j *job.Job) {}, EventType_EVENT_RENEWED) }, "feed"},
		{"schedule", func(tx *Tx) {
			for n, due := range []int64{30, 20, 40} {
				j := newJob(5+n, "r")
				j.State, j.ScheduledNs = job.Scheduled, due
				must(t, tx.CreateJob(j, scheduled))
			}
		}, "timer 1 20, feed"},
		{"promotion", func(tx *Tx) { edit(t, tx, idOf(6), func(j *job.Job) { j.State = job.Pending }, promoted) }, "ready r 1, feed"},
		{"retry", func(tx *Tx) {
			edit(t, tx, idOf(4), func(j *job.Job) { j.State, j.ScheduledNs = job.Retrying, 120 }, failed, retrying)
		}, "timer 2 120, feed"},
		{"idempotency", func(tx *Tx) { must(t, tx.PutIdempotency([16]byte{1}, &Idempotency{ExpiresNs: 500})) }, "timer 4 500"},
		{"sent", func(tx *Tx) { must(t, tx.Send(1, 18, []byte("op"))); must(t, tx.Send(1, 18, nil)) }, "outbox"},
		{"trimmed", func(tx *Tx) { must(t, tx.TrimOutbox(1, 2)) }, ""},
		{"move", func(tx *Tx) { must(t, tx.MoveJob(read(t, tx, 6), "q")) }, "ready q 1, feed"},
		{"move of a timer", func(tx *Tx) { must(t, tx.MoveJob(read(t, tx, 7), "q")) }, "feed"},
		{"forward", func(tx *Tx) { must(t, tx.ForwardJob(read(t, tx, 7), 1, "far")) }, "feed"},
		{"admission", func(tx *Tx) {
			j := newJob(7, "q")
			j.State, j.ScheduledNs = job.Scheduled, 40
			must(t, tx.AdmitJob(j))
		}, "timer 1 40, feed"},
	} {
		said = nil
		update(t, s, step.change)
		if got := strings.Join(said, ", "); got != step.want {
			t.Errorf("%s: hooks say %q, want %q", step.name, got, step.want)
		}
	}
}

func TestBlobsAndErrors(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		j := newJob(1, "q")
		must(t, tx.PutBlob(j, job.Payload, &job.Blob{Data: []byte("{}")}))
		must(t, tx.CreateJob(j, enqueued))
		must(t, tx.PutBlob(j, job.Result, &job.Blob{Data: []byte("1")}))
		must(t, tx.PutBlob(j, job.Result, &job.Blob{Data: []byte("2"), KeyId: "k", Nonce: []byte("n")}))
		must(t, tx.PutJob(j))
	})
	v := s.Snapshot()
	defer v.Close()
	for _, r := range []Reader{s, v} {
		j, err := r.Job(idOf(1))
		must(t, err)
		if j.Blobs != 0b11 {
			t.Errorf("blobs are marked %b", j.Blobs)
		}
		b, err := r.Blob(idOf(1), job.Result)
		must(t, err)
		if string(b.Data) != "2" || b.KeyId != "k" || string(b.Nonce) != "n" {
			t.Errorf("result is %v", b)
		}
		if b, err := r.Blob(idOf(1), job.Progress); b != nil || err != nil {
			t.Errorf("a missing blob is %v, %v", b, err)
		}
		if j, err := r.Job(idOf(2)); j != nil || err != nil {
			t.Errorf("a missing job is %v, %v", j, err)
		}
		if list, err := r.Errors(idOf(1)); list != nil || err != nil {
			t.Errorf("missing errors are %v, %v", list, err)
		}
	}
}

// TestQueueOfATx reads a queue's record within an entry.
func TestQueueOfATx(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		if tx.Queue("q") != nil {
			t.Error("an unknown queue has a record")
		}
		create(t, tx, 1, "q")
		if q := tx.Queue("q"); q == nil || q != tx.EnsureQueue("q") || q.InState[job.Pending] != 1 {
			t.Errorf("the queue is %v", q)
		}
	})
}

// TestErrorsAreBounded puts more errors than the store keeps, several in one entry and one in each, and one
// attempt's error twice.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	for _, perEntry := range []int{1, 7, 3 * job.MaxErrorsKept} {
		t.Run(fmt.Sprint(perEntry), func(t *testing.T) {
			t.Parallel()
			s := openClosing(t)
			update(t, s, func(tx *Tx) { create(t, tx, 1, "q"); create(t, tx, 2, "q") })
			putError := func(tx *Tx, attempt int, text string) {
				j, err := tx.Job(idOf(1))
				must(t, err)
				must(t, tx.PutError(j, &job.AttemptError{Attempt: uint32(attempt), Error: text}))
				must(t, tx.PutJob(j))
			}
			const total = job.MaxErrorsKept + 20
			for n := 1; n <= total; {
				update(t, s, func(tx *Tx) {
					for i := 0; i < perEntry && n <= total; i++ {
						putError(tx, n, fmt.Sprint("e", n))
						n++
					}
				})
			}
			update(t, s, func(tx *Tx) { putError(tx, 50, "again") })
			j, err := s.Job(idOf(1))
			must(t, err)
			list, err := s.Errors(idOf(1))
			must(t, err)
			if j.Errors != job.MaxErrorsKept || len(list) != job.MaxErrorsKept {
				t.Fatalf("%d errors are kept, %d counted", len(list), j.Errors)
			}
			for i, e := range list {
				attempt, text := i+1, fmt.Sprint("e", i+1)
				if i == job.MaxErrorsKept-1 {
					attempt, text = total, fmt.Sprint("e", total)
				}
				if i == 49 {
					text = "again"
				}
				if int(e.Attempt) != attempt || e.Error != text {
					t.Errorf("error %d is of attempt %d: %q", i, e.Attempt, e.Error)
				}
			}
		})
	}
}

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	k := &Key{Id: "b", Name: "first"}
	update(t, s, func(tx *Tx) {
		must(t, tx.PutKey(k))
		must(t, tx.PutKey(&Key{Id: "a"}))
		if tx.Key("b").Name != "first" || tx.Key("c") != nil {
			t.Error("the entry does not see its own keys")
		}
		if s.Key("b") != nil {
			t.Error("a reader sees a key before the commit")
		}
		k.Name = "changed by the caller"
		tx.Head().Secured = true
	})
	update(t, s, func(tx *Tx) {
		must(t, tx.PutKey(&Key{Id: "b", Name: "second"}))
		must(t, tx.DeleteKey("a"))
		must(t, tx.DeleteKey("never"))
		must(t, tx.PutKey(&Key{Id: "c"}))
	})
	for range 2 { // the second time from the store
		if k := s.Key("b"); k == nil || k.Name != "second" || s.Key("a") != nil {
			t.Errorf("key b is %v, a is %v", k, s.Key("a"))
		}
		if all := s.Keys(); len(all) != 2 || all[1].Id != "c" {
			t.Errorf("keys are %v", all)
		}
		if h := s.Head(); h.KeyRecords != 2 || !h.Secured {
			t.Errorf("head is %v", h)
		}
		check(t, s)
		must(t, s.Close())
		s = open(t, fs)
	}
	must(t, s.Close())
}
