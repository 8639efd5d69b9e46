package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// feedFrom formats the feed: the first sequence and the length of each entry.
func feedFrom(t *testing.T, s *Store, from uint64) string {
	t.Helper()
	v := s.Snapshot()
	defer v.Close()
	var out []string
	for item, err := range v.Feed(from) {
		if errors.Is(err, ErrTrimmed) {
			out = append(out, "trimmed")
			continue
		}
		must(t, err)
		out = append(out, fmt.Sprintf("%d+%d", item.FirstSeq, len(item.Entry.Events)))
	}
	return strings.Join(out, " ")
}

func TestFeed(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	if got := feedFrom(t, s, 0); got != "" {
		t.Errorf("the feed of an empty store is %q", got)
	}
	n := 0
	events := func(count int) { // one entry of so many events
		update(t, s, func(tx *Tx) {
			for range count {
				n++
				create(t, tx, n, "q")
			}
		})
	}
	for _, count := range []int{2, 3, 0, 1} {
		events(count)
	}
	for from, want := range map[uint64]string{
		0: "1+2 3+3 6+1", 1: "1+2 3+3 6+1", 2: "1+2 3+3 6+1", 3: "3+3 6+1", 5: "3+3 6+1", 6: "6+1", 7: "", 100: "",
	} {
		if got := feedFrom(t, s, from); got != want {
			t.Errorf("from %d the feed is %q, want %q", from, got, want)
		}
	}
	for _, trim := range []struct {
		to    uint64
		first uint64
		want  string // from the first sequence on
	}{
		{0, 1, "1+2 3+3 6+1"},
		{2, 1, "1+2 3+3 6+1"}, // the entry has a later event
		{3, 3, "3+3 6+1"},
		{3, 3, "3+3 6+1"},
		{1, 3, "3+3 6+1"}, // never back
		{6, 6, "6+1"},
		{500, 7, "7+1"}, // beyond the end: all but the entry's own
		{8, 8, "8+1"},
	} {
		update(t, s, func(tx *Tx) {
			if trim.to >= 7 {
				n++
				create(t, tx, n, "q")
			}
			must(t, tx.TrimFeed(trim.to))
		})
		check(t, s)
		if got := s.Head().FeedFirstSeq; got != trim.first {
			t.Errorf("trimmed to %d, the feed starts at %d, want %d", trim.to, got, trim.first)
		}
		if got := feedFrom(t, s, trim.first); got != trim.want {
			t.Errorf("trimmed to %d, the feed is %q, want %q", trim.to, got, trim.want)
		}
		if trim.first > 1 {
			if got := feedFrom(t, s, trim.first-1); got != "trimmed" {
				t.Errorf("trimmed to %d, from before the feed is %q", trim.to, got)
			}
			if got := feedFrom(t, s, 0); got != "trimmed" {
				t.Errorf("trimmed to %d, from 0 the feed is %q", trim.to, got)
			}
		}
	}
	update(t, s, func(tx *Tx) { must(t, tx.TrimFeed(100)) })
	if got := feedFrom(t, s, 9); got != "" || s.Head().FeedFirstSeq != 9 {
		t.Errorf("the emptied feed is %q from %d", got, s.Head().FeedFirstSeq)
	}
	check(t, s)
}

// TestFeedSaysWhat checks the fields of events of jobs and of queues.
func TestFeedSaysWhat(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	update(t, s, func(tx *Tx) {
		q := tx.EnsureQueue("r")
		tx.PutQueue(q, EventType_EVENT_QUEUE_PAUSED)
		activate(t, tx, idOf(1), 9)
		edit(t, tx, idOf(1), func(j *job.Job) { j.State = job.Completed }, EventType_EVENT_CHECKPOINTED, completed)
	})
	v := s.Snapshot()
	defer v.Close()
	var got []string
	for item, err := range v.Feed(1) {
		must(t, err)
		for i, e := range item.Entry.Events {
			got = append(got, fmt.Sprintf("%d@%d.%d %s %s job %d attempt %d id %t", item.FirstSeq+uint64(i), item.Entry.Index,
				item.Entry.ClockNs, e.Type, e.Queue, e.JobNumber, e.Attempt, len(e.JobId) == 16))
		}
	}
	want := []string{
		"1@1.1 EVENT_ENQUEUED q job 1 attempt 0 id true",
		"2@2.2 EVENT_QUEUE_PAUSED r job 0 attempt 0 id false",
		"3@2.2 EVENT_STARTED q job 1 attempt 1 id true",
		"4@2.2 EVENT_CHECKPOINTED q job 1 attempt 1 id true",
		"5@2.2 EVENT_COMPLETED q job 1 attempt 1 id true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the feed says\n%s", strings.Join(got, "\n"))
	}
}

// TestFeedWithin finds the first entry from which on the feed fits into so many bytes.
func TestFeedWithin(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	var ends []uint64 // bytes up to the end of each entry
	n := 0
	for _, count := range []int{2, 3, 1, 40, 5} {
		update(t, s, func(tx *Tx) {
			for range count {
				n++
				create(t, tx, n, "q")
			}
		})
		ends = append(ends, s.Head().GetFeedBytes())
	}
	within := func(bytes uint64) uint64 {
		v := s.Snapshot()
		defer v.Close()
		seq, err := v.FeedWithin(bytes)
		must(t, err)
		return seq
	}
	all := ends[4]
	for _, c := range []struct{ bytes, want uint64 }{
		{all, 1}, {all + 1, 1}, {all - 1, 3}, {all - ends[0], 3}, {all - ends[0] - 1, 6}, {all - ends[2], 7}, {all - ends[3], 47}, {all - ends[3] - 1, 52}, {0, 52},
	} {
		if got := within(c.bytes); got != c.want {
			t.Errorf("%d of %d bytes go back to event %d, want %d", c.bytes, all, got, c.want)
		}
	}
	update(t, s, func(tx *Tx) { must(t, tx.TrimFeed(8)) }) // an event of the fourth entry
	if held := s.Head().FeedHeld(); held != all-ends[2] || within(held) != 7 || within(held-1) != 47 {
		t.Errorf("trimmed, it holds %d bytes", held)
	}
	update(t, s, func(tx *Tx) { must(t, tx.TrimFeed(1000)) })
	if held := s.Head().FeedHeld(); held != 0 || within(0) != 52 {
		t.Errorf("without entries it holds %d bytes", held)
	}
}
