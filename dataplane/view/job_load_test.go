package view

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TestLoadJobs checks that loadJobs yields jobs in the order of their numbers with the right records, although
// their ids are in another order, and holds no more than loadBytes and two jobs.
func TestLoadJobs(t *testing.T) {
	t.Parallel()
	const long = loadBytes / 4
	for _, c := range []struct {
		name   string
		jobs   int
		length func(i int) int // of a payload
	}{
		{"several windows of short payloads", 2*loadWindow + 3, func(int) int { return 10 }},
		{"long payloads", 20, func(int) int { return long }},
		{"a long payload among short ones", 20, func(i int) int { return 10 + i/19*2*loadBytes }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newShard(t)
			var all []*loadedJob
			h.commit(func(tx *state.Tx) {
				tx.EnsureQueue("q")
				for i := range c.jobs {
					h.ids = i ^ 7 // the ids of each eight jobs fall
					j := h.newJob(tx, "q")
					must(t, tx.PutBlob(j, job.Payload, payload(fmt.Sprint(j.Id[7], strings.Repeat("x", c.length(i))))))
					must(t, tx.CreateJob(j, evEnqueued))
					all = append(all, &loadedJob{touchedJob: touchedJob{id: job.ID(j.Id)}, number: j.Number, fresh: true})
				}
			})
			snap := h.store.Snapshot()
			defer snap.Close()
			records, err := snap.JobIterator()
			must(t, err)
			defer records.Close()
			want := slices.Clone(all)
			for part, err := range loadJobs(records, all) {
				must(t, err)
				longest, length := 0, 0
				for _, l := range part {
					if l != want[0] || l.job == nil || l.job.Number != l.number {
						t.Fatalf("job %v comes instead of number %d", l.job, want[0].number)
					}
					blob, err := snap.Blob(l.id, job.Payload)
					must(t, err)
					if !bytes.Equal(l.blobs[job.Payload].GetData(), blob.Data) {
						t.Fatalf("job %d has the payload %.20q, want %.20q", l.number, l.blobs[job.Payload].GetData(), blob.Data)
					}
					longest, length = max(longest, l.size()), length+l.size()
					want = want[1:]
				}
				if length > loadBytes+2*longest {
					t.Errorf("a part has %d bytes, the longest job %d", length, longest)
				}
			}
			if len(want) > 0 || slices.ContainsFunc(all, func(l *loadedJob) bool { return l != nil }) {
				t.Errorf("%d jobs were not yielded, or are still held", len(want))
			}
		})
	}
}

// TestReadAhead checks that readAhead yields the values and the error of its source, and stops the source
// when the caller stops.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	failure := errors.New("broken")
	ended := false
	count := func(n int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			defer func() { ended = true }()
			for i := range n {
				if !yield(i, nil) {
					return
				}
			}
			yield(n, failure)
		}
	}
	var got []int
	var err error
	for i, e := range readAhead(count(3)) {
		got, err = append(got, i), e
	}
	if !slices.Equal(got, []int{0, 1, 2, 3}) || err != failure || !ended {
		t.Errorf("it yielded %v and then %v; the source has ended: %v", got, err, ended)
	}
	ended = false
	for range readAhead(count(1000)) {
		break
	}
	if !ended {
		t.Error("the source goes on after the caller has stopped")
	}
}
